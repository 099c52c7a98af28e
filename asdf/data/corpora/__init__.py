"""The corpora of the field by name: what they are made of, where they lie, and how their label files read."""

from asdf.data.corpora.known import KnownCorpus, Reading
from asdf.data.corpora.protocols import read_protocol
from asdf.data.corpora.registry import (
    ALIASES,
    KNOWN,
    Chosen,
    choose,
    differences,
    find_tree,
    is_known,
    known_names,
    read_known,
)

__all__ = [
    "ALIASES",
    "KNOWN",
    "Chosen",
    "KnownCorpus",
    "Reading",
    "choose",
    "differences",
    "find_tree",
    "is_known",
    "known_names",
    "read_known",
    "read_protocol",
]

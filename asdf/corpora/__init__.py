"""The corpora of the field by name: their parts, where they lie, and their label files."""

from asdf.corpora.checking import compare_with_disk, counts, durations_s
from asdf.corpora.known import KnownCorpus, Reading, is_there
from asdf.corpora.overlaps import describe_origin, describe_overlaps, sharing
from asdf.corpora.parquet import Columns, read_parquet, read_parquet_list
from asdf.corpora.protocols import choose_subset, read_from, read_protocol
from asdf.corpora.registry import (
    ALIASES,
    KNOWN,
    Chosen,
    as_list,
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
    "Columns",
    "KnownCorpus",
    "Reading",
    "as_list",
    "choose",
    "choose_subset",
    "compare_with_disk",
    "counts",
    "describe_origin",
    "describe_overlaps",
    "differences",
    "durations_s",
    "find_tree",
    "is_known",
    "is_there",
    "known_names",
    "read_from",
    "read_known",
    "read_parquet",
    "read_parquet_list",
    "read_protocol",
    "sharing",
]

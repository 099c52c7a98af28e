"""A corpus as a recipe declares it: a name, and here the folder and the list that the name stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from asdf.data.lists import UtteranceList, read_asvspoof2019_protocol, read_list
from asdf.errors import UsageError


@dataclass(frozen=True)
class Corpus:
    """Where the utterances of a corpus are.

    Attributes:
        list: the list file, relative to `folder`: ASDF's own format, or, when `audio` is given, a protocol of
            ASVspoof 2019 whose recordings are `audio/UTT.flac`.
        folder: relative to paths.database_folder; the paths in the list are relative to it.
        audio: see `list`; relative to `folder`.
        make: makes the corpus in paths.database_folder when it is not there (the demo corpus).
    """

    list: str
    folder: str = ""
    audio: str | None = None
    make: Callable[[Path], None] | None = None

    def read(self, name: str, database_folder: Path) -> UtteranceList:
        """The utterances of this corpus.

        Raises:
            AsdfError: the list is missing, empty or malformed.
        """
        folder = database_folder / self.folder
        if self.audio is None:
            return read_list(folder / self.list, folder, name)
        return read_asvspoof2019_protocol(folder / self.list, folder, self.audio, name)


def find_corpus(name: str, corpora: Mapping[str, Corpus]) -> Corpus:
    """The corpus of that name.

    Raises:
        UsageError: the recipe knows no such corpus; the message names the nearest one.
    """
    if name in corpora:
        return corpora[name]
    near = get_close_matches(name, corpora, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"It knows {', '.join(corpora)}."
    raise UsageError(f"the recipe knows no corpus {name!r}. {hint} Corpora are declared at the top of its run.py.")

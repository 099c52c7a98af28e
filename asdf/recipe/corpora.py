"""A corpus as a recipe declares it: a name, and here the folder and the list that the name stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from asdf.data.lists import UtteranceList, check_both_classes, join, read_asvspoof2019_protocol, read_list
from asdf.errors import UsageError
from asdf.settings.sections import Sections


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


def validation_sets(settings: Sections) -> tuple[str, ...]:
    """Names of the corpora that are scored during training."""
    chosen = settings.recipe.validation_sets
    return settings.recipe.evaluation_sets if chosen is None else chosen


def scores_only(settings: Sections) -> bool:
    """Whether network.resume_epoch = -N asks for the scores of epoch N without training."""
    epoch = settings.network.resume_epoch
    return isinstance(epoch, int) and epoch < 0


def sets_in_use(settings: Sections) -> list[str]:
    """Names of the corpora that the chosen stages read."""
    recipe = settings.recipe
    measures, trains, scores = (recipe.execute_stage(stage) for stage in range(3))
    names: list[str] = []
    if measures or (trains and not scores_only(settings)):
        names += recipe.training_sets
    if measures or trains:
        names += validation_sets(settings)
    if measures or scores:
        names += recipe.evaluation_sets
    return list(dict.fromkeys(names))


def check_classes(lists: Sequence[UtteranceList], settings: Sections) -> None:
    """Raise an AsdfError when one of `lists` lacks a class that the chosen stages need in it."""
    recipe = settings.recipe
    scored = {*validation_sets(settings), *recipe.evaluation_sets}
    for utterances in lists:
        if utterances.name in scored:
            check_both_classes(utterances, "an EER")
    training = [utterances for utterances in lists if utterances.name in recipe.training_sets]
    if training and recipe.execute_stage(1) and not scores_only(settings):
        check_both_classes(join(training), "training")

"""Score files that `python -m asdf fuse` reads and writes.

Invariant: systems are fused trial by trial. Each system has one score for every trial, with the
same label if labels are known; otherwise the command ends with a message that counts and names the
trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asdf.commands.judged_files import (
    ProtocolOptions,
    named_systems,
    read_protocol_option,
    read_system_scores,
)
from asdf.commands.options import argument, option
from asdf.commands.outputs import input_name
from asdf.errors import UsageError
from asdf.metrics.several_systems import speakers_of
from asdf.runs.streams import descriptor_of
from asdf.trials.formats import read_score_file
from asdf.trials.how_scored import NOT_KNOWN, HowScored
from asdf.trials.matching import align_scores
from asdf.trials.score_file import Scores, write_scores, write_unlabelled_scores
from asdf.trials.scored_files import how_scored, remove_how_scored, write_how_scored

if TYPE_CHECKING:
    from asdf.arrays import Floats
    from asdf.metrics.fusion import Fusion


@dataclass(frozen=True, kw_only=True)
class DevelopmentOptions(ProtocolOptions):
    """The development set."""

    scores: tuple[str, ...] = argument(
        "score files of the development set, one per system; or, with --on, folders with score "
        "files, such as scores/epoch.4 of a run",
        metavar="[NAME=]SCORES",
    )
    on: str = option(
        "name of the development set; in folders the file SET.txt is used",
        metavar="SET",
        default="",
    )


@dataclass(frozen=True)
class DevelopmentSet:
    """The scores that a fusion is fitted to.

    Attributes:
        set: Name of the set; '' if unknown.
        names: Names of the systems.
        paths: Paths of their score files.
        scores: Scores of each system, for the same trials in one order.
        speakers: Speaker of each trial; None if unknown.
    """

    set: str
    names: list[str]
    paths: list[Path]
    scores: list[Scores]
    speakers: list[str] | None


@dataclass(frozen=True)
class Applied:
    """Fused scores of another set.

    Attributes:
        names: Names of the systems.
        systems: Scores of each system.
        fused: Fused scores; labels are all 0 if unknown.
        labelled: Whether labels are known.
        scored: Part of each recording that was scored, if it is the same for all systems.
    """

    names: list[str]
    systems: list[Scores]
    fused: Scores
    labelled: bool
    scored: HowScored

    def write(self, path: Path) -> None:
        """Write the fused score file.

        Raises:
            AsdfError: it cannot be written.
        """
        # Next to standard output or a pipe there is no place for a description.
        is_stream = descriptor_of(path) is not None
        if not is_stream:
            # First, since a stop in between must not leave an old one beside new scores.
            remove_how_scored(path)
        if self.labelled:
            write_scores(path, self.fused.ids, self.fused.labels, self.fused.scores)
        else:
            write_unlabelled_scores(path, self.fused.ids, self.fused.scores)
        if self.scored.length is not None and not is_stream:
            write_how_scored(path, replace(self.scored, trials=len(self.fused)))


def read_development(args: DevelopmentOptions) -> DevelopmentSet:
    """Read the score files of the development set, with the labels of a protocol if given.

    Raises:
        UsageError: a folder is given without --on.
        AsdfError: a file cannot be read, or the files have different trials.
    """
    words = []
    for word in args.scores:
        path = Path(word.partition("=")[2] or word)
        is_folder = path.is_dir()
        if is_folder and not args.on:
            raise UsageError(f"{path} is a folder. Select one of its score files with --on SET.")
        words.append(f"{word}/{args.on}.txt" if is_folder else word)
    systems = named_systems(words)
    protocol = read_protocol_option(args)
    scores: list[Scores] = []
    for system in systems:
        own = read_system_scores(system.path, protocol, args.ignore_others)
        scores.append(_aligned(system.path, own, systems[0].path, scores))
    return DevelopmentSet(
        args.on,
        [system.name for system in systems],
        [system.path for system in systems],
        scores,
        speakers_of(scores[0], protocol.trials),
    )


def _aligned(path: Path, scores: Scores, first: Path, before: Sequence[Scores]) -> Scores:
    """Return scores in the order of the first of those read before."""
    if not before:
        return scores
    return align_scores(input_name(path), scores, input_name(first), before[0])


def read_applied(words: Sequence[str], development: DevelopmentSet, fusion: Fusion) -> Applied:
    """Fuse score files of another set, in any format, with or without labels.

    Raises:
        UsageError: only some files have labels.
        AsdfError: a file cannot be read, or the files have different trials.
    """
    paths = [Path(word) for word in words]
    systems: list[Scores] = []
    have_labels = set()
    for path in paths:
        file = read_score_file(path)
        have_labels.add(file.labels is not None)
        labels = np.zeros(len(file.ids), np.int8) if file.labels is None else file.labels
        own = Scores(file.ids, labels, file.scores)
        if len(have_labels) > 1:
            raise UsageError(
                f"{path} and the files before it differ: some have labels, others do not. Give "
                "files that all have labels, or that all have none."
            )
        systems.append(_aligned(path, own, paths[0], systems))
    scores_NS: Floats = np.stack([system.scores for system in systems], axis=1)
    fused = Scores.of(systems[0], fusion.fuse(scores_NS))
    # One class alone has no error rates, but its scores are fused.
    labelled = have_labels == {True}
    # Values that differ between the files are unknown for the fusion.
    ways = [how_scored(path) for path in paths]
    common = NOT_KNOWN
    if len({way.length for way in ways}) == 1:
        precisions = {way.precision for way in ways}
        common = HowScored(ways[0].length, precisions.pop() if len(precisions) == 1 else None)
    return Applied(development.names, systems, fused, labelled, common)

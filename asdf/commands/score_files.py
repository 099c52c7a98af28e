"""Score files with the protocol of their set, as the commands that evaluate and draw them take them."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.outputs import input_name
from asdf.errors import UsageError
from asdf.report.names import names_of, numbered
from asdf.runs.streams import show_error

if TYPE_CHECKING:
    from asdf.trials.score_file import Scores
    from asdf.trials.trials import Trials

UNDIVIDED = "of the spoofs no values of it are known, or every trial has the same one"
"""Why a column has no conditions, see `asdf.metrics.conditions.conditions_of`."""


def add_score_files(parser: argparse.ArgumentParser) -> None:
    """The arguments that name score files and their protocol."""
    parser.add_argument(
        "scores",
        nargs="+",
        metavar="[NAME=]SCORES",
        help="score files, one per system; its name is that of the file, or of the folders that differ",
    )
    parser.add_argument(
        "--protocol",
        type=Path,
        metavar="P",
        help="the label file of the set: labels and conditions",
    )
    parser.add_argument(
        "--subset", metavar="S", help="only the trials of this subset of P (ASVspoof 2021: eval)"
    )
    parser.add_argument(
        "--ignore-others", action="store_true", help="leave out scored trials that P does not have"
    )


@dataclass(frozen=True)
class System:
    """A score file and the name of the system that it is of."""

    name: str
    path: Path


def systems_asked(words: Sequence[str]) -> list[System]:
    """The score files that were named on the command line, each as PATH or NAME=PATH.

    A word that is itself the path of a file is one, also with a `=` in it.

    Raises:
        UsageError: two systems were given the same name, or one an empty name.
    """
    named = [_named(word) for word in words]
    for name in [name for name, _ in named if name is not None]:
        if not name or sum(name == other for other, _ in named) > 1:
            raise UsageError(
                f"{name!r} is the name of several systems, or no name: give each NAME=SCORES its own."
            )
    unnamed = [path for name, path in named if name is None]
    shown = iter(names_of(unnamed) if unnamed else [])
    names = numbered([next(shown) if name is None else name for name, _ in named])
    return [System(name, path) for name, (_, path) in zip(names, named, strict=True)]


def _named(word: str) -> tuple[str | None, Path]:
    name, sign, path = word.partition("=")
    if not sign or "/" in name or Path(word).exists():
        return None, Path(word)
    return name.strip(), Path(path)


def read_protocol_asked(given: argparse.Namespace) -> tuple[Trials | None, Trials | None]:
    """All trials of the protocol that was named, and those of the subset; None without a protocol.

    Raises:
        UsageError: options about a protocol without one, or no trial of that subset.
        AsdfError: the protocol cannot be read.
    """
    if given.protocol is None:
        if given.subset or given.ignore_others:
            raise UsageError(
                "--subset and --ignore-others are about a protocol: give --protocol too."
            )
        return None, None
    from asdf.corpora import choose_subset, read_protocol

    whole = read_protocol(given.protocol)
    return whole, choose_subset(whole, given.subset, given.protocol) if given.subset else whole


def read_scores_asked(
    path: Path, trials: Trials | None, whole: Trials | None, ignore_others: bool
) -> Scores:
    """The scores in a file, of `trials` where there is a protocol; what is left out is told on stderr.

    Raises:
        AsdfError: the file cannot be read, or does not fit the protocol.
    """
    if trials is None:
        from asdf.trials.formats import read_any_scores

        return read_any_scores(path)
    from asdf.trials.matching import read_matched

    scores, others = read_matched(path, trials, whole=whole, ignore_others=ignore_others)
    if others:
        show_error(
            f"{input_name(path)}: {others} scored trials are left out, {len(scores)} evaluated"
        )
    return scores

"""Score files and the protocol of their set, for the commands that evaluate or draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.options import argument, flag, option
from asdf.commands.outputs import input_name
from asdf.errors import UsageError
from asdf.report import names_of, numbered
from asdf.runs.streams import show_error

if TYPE_CHECKING:
    from asdf.trials.score_file import Scores
    from asdf.trials.trial_list import TrialList

UNDIVIDED = "no spoof has a known value of it, or all trials have the same value"
"""Why a column has no conditions, see `asdf.metrics.conditions.conditions_of`."""


@dataclass(frozen=True, kw_only=True)
class ProtocolOptions:
    """The protocol of the score files."""

    protocol: Path | None = option(
        "the label file of the set: labels and conditions",
        metavar="P",
    )
    subset: str | None = option(
        "only the trials of this subset of P (ASVspoof 2021: eval)",
        metavar="S",
    )
    ignore_others: bool = flag("leave out scored trials that are not in P")


@dataclass(frozen=True, kw_only=True)
class ScoreFilesOptions(ProtocolOptions):
    """The score files."""

    scores: tuple[str, ...] = argument(
        "score files, one per system; a system is named after its file, or after the folders in "
        "which the files differ",
        metavar="[NAME=]SCORES",
    )


@dataclass(frozen=True)
class System:
    """A system's name and its score file.

    Attributes:
        group: the NAME of a NAME=A,B,C that it is one of: systems that differ by their seed alone.
    """

    name: str
    path: Path
    group: str = ""


@dataclass(frozen=True)
class Protocol:
    """The trials that --protocol and --subset name; None without a protocol.

    Attributes:
        trials: those that are evaluated: the subset, or all.
        whole: all trials of the file.
    """

    trials: TrialList | None = None
    whole: TrialList | None = None


def named_systems(words: Sequence[str]) -> list[System]:
    """Return the score files of a command line, each written as PATH, NAME=PATH or NAME=A,B,C.

    A word that is the path of an existing file is a PATH, also with a `=` in it; A, B and C are the
    files of several seeds.

    Raises:
        UsageError: two systems have the same name, or a name is empty.
    """
    stated_names = []
    paths = []
    groups = []
    for word in words:
        name, files = _split_name(word)
        for number, path in enumerate(files, 1):
            is_group = name is not None and len(files) > 1
            stated_names.append(f"{name} #{number}" if is_group else name)
            groups.append(name or "" if is_group else "")
            paths.append(path)
    for name in stated_names:
        if name is not None and (not name or stated_names.count(name) > 1):
            raise UsageError(
                f"{name!r} is the name of several systems, or no name: give each NAME=SCORES a "
                "name of its own."
            )
    unnamed = [path for name, path in zip(stated_names, paths, strict=True) if name is None]
    names_of_files = iter(names_of(unnamed) if unnamed else [])
    names = numbered([next(names_of_files) if name is None else name for name in stated_names])
    return list(map(System, names, paths, groups))


def _split_name(word: str) -> tuple[str | None, list[Path]]:
    """Return the name that a word states, if any, and its files."""
    name, sign, path = word.partition("=")
    # Folders of experiments are often called such as lr=0.1, so a `=` alone says little.
    if not sign or "/" in name or Path(word).exists():
        return None, [Path(word)]
    # A comma may belong to the name of a file.
    if "," not in path or Path(path).exists():
        return name.strip(), [Path(path)]
    return name.strip(), [Path(part) for part in path.split(",") if part]


def read_protocol_option(args: ProtocolOptions) -> Protocol:
    """Read the protocol that the command line names, if any.

    Raises:
        UsageError: options about a protocol without one, or no trial of that subset.
        AsdfError: the protocol cannot be read.
    """
    if args.protocol is None:
        if args.subset or args.ignore_others:
            raise UsageError(
                "--subset and --ignore-others are about a protocol: give --protocol too."
            )
        return Protocol()
    from asdf.corpora import choose_subset, read_protocol

    whole = read_protocol(args.protocol)
    if not args.subset:
        return Protocol(whole, whole)
    # The whole is retained too: a scored trial of another subset is no stranger, and not refused.
    return Protocol(choose_subset(whole, args.subset, args.protocol), whole)


def read_system_scores(
    path: Path, protocol: Protocol, ignore_others: bool, *, are_decisions: bool = False
) -> Scores:
    """Read the scores of a system, of the protocol's trials if there is one.

    Scored trials that are left out are counted on stderr.

    Args:
        are_decisions: the file holds decisions, which become the scores 1 and 0.

    Raises:
        AsdfError: the file cannot be read, or does not fit the protocol.
    """
    from asdf.trials.decision_file import read_decisions
    from asdf.trials.formats import read_score_file
    from asdf.trials.matching import read_matched

    scores, others = read_matched(
        path,
        protocol.trials,
        whole=protocol.whole,
        ignore_others=ignore_others,
        read=read_decisions if are_decisions else read_score_file,
    )
    if others:
        show_error(
            f"{input_name(path)}: {others} scored trials are left out, {len(scores)} evaluated"
        )
    return scores

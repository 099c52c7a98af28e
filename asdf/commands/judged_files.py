"""Score files, the protocol of their set, and the threshold for decisions.

Invariant: a threshold comes from the command line, another set, or a calibrated network; if it
comes from the trials that it decides, a warning says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.options import flag, option
from asdf.errors import UsageError
from asdf.runs.layout import layout_of_score_file
from asdf.runs.streams import input_name, show_error
from asdf.scoring.network_check import replaced_network
from asdf.tables.table import differing_parts
from asdf.text import numbered

if TYPE_CHECKING:
    from asdf.trials.score_file import Scores
    from asdf.trials.trial_list import TrialList

_SUFFIXES = (".txt", ".tsv", ".csv", ".scores")


@dataclass(frozen=True, kw_only=True)
class ProtocolOptions:
    """The protocol of the score files."""

    protocol: Path | None = option("label file, or folder with real/ and fake/", metavar="P")
    subset: str | None = option("evaluate only this subset of P (ASVspoof 2021: eval)", metavar="S")
    ignore_others: bool = flag("ignore scored trials that are not in P")


@dataclass(frozen=True)
class System:
    """A system's name and its score file.

    Attributes:
        group: Name NAME of its group NAME=A,B,C: systems that differ only in their seed.
    """

    name: str
    path: Path
    group: str = ""


@dataclass(frozen=True)
class Protocol:
    """The trials of --protocol and --subset; None without a protocol.

    Attributes:
        trials: Trials to evaluate: those of the subset, or all.
        whole: All trials of the file.
    """

    trials: TrialList | None = None
    whole: TrialList | None = None


def named_systems(words: Sequence[str]) -> list[System]:
    """Return the score files on a command line, given as PATH, NAME=PATH or NAME=A,B,C.

    The path of an existing file is a PATH, even with a `=` in it; A, B and C are the files of
    several seeds.

    Raises:
        UsageError: two systems have the same name, or a name is empty.
    """
    stated: list[tuple[str | None, Path, str]] = []
    for word in words:
        name, files = _split_name(word)
        group = name if name is not None and len(files) > 1 else ""
        for number, path in enumerate(files, 1):
            stated.append((f"{name} #{number}" if group else name, path, group))
    given = [name for name, _, _ in stated if name is not None]
    for name in given:
        if not name or given.count(name) > 1:
            raise UsageError(
                f"{name!r} is empty or names several systems. Give each NAME=SCORES a different "
                "name."
            )
    of_files = iter(names_of([path for name, path, _ in stated if name is None]))
    names = numbered([next(of_files) if name is None else name for name, _, _ in stated])
    return [System(name, path, group) for name, (_, path, group) in zip(names, stated, strict=True)]


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return the shortest names that distinguish score files.

    They are the names of the files, or the parts of their paths that differ. A file that is given
    twice has a number after its second name.
    """
    parts = list(map(_path_parts, paths))
    stems = [file_parts[-1] for file_parts in parts]
    if len(set(stems)) == len(stems):
        return stems
    return numbered(list(map("/".join, differing_parts(parts))))


def _path_parts(path: Path) -> list[str]:
    """Return the folders of a path and its file name without the suffix of a score file."""
    name = path.name.removesuffix(".gz")
    stem = name
    # Only suffixes of score files are removed: names of networks contain a dot, as in epoch.4.
    if name.endswith(_SUFFIXES):
        stem, _, _ = name.rpartition(".")
    parts = [*path.parts[:-1], stem or name]
    # A file name may contain bytes that are not text, while outputs are text.
    return [part.encode("utf-8", "backslashreplace").decode("utf-8") for part in parts]


def _split_name(word: str) -> tuple[str | None, list[Path]]:
    """Return the name in an argument, if any, and its files."""
    name, sign, path = word.partition("=")
    # Folders of experiments often have names such as lr=0.1, so a `=` alone is ambiguous.
    if not sign or "/" in name or Path(word).exists():
        return None, [Path(word)]
    # A comma may be part of a file name.
    if "," not in path or Path(path).exists():
        return name.strip(), [Path(path)]
    return name.strip(), [Path(part) for part in path.split(",") if part]


def read_protocol_option(args: ProtocolOptions) -> Protocol:
    """Read the protocol on the command line, if any.

    Raises:
        UsageError: options for a protocol are given without one, or the subset has no trial.
        AsdfError: the protocol cannot be read.
    """
    if args.protocol is None:
        if args.subset or args.ignore_others:
            raise UsageError("--subset and --ignore-others need a protocol. Give --protocol P too.")
        return Protocol()
    from asdf.commands.score_recordings import read_classes
    from asdf.corpora import choose_subset, read_protocol

    read = read_classes if args.protocol.is_dir() else read_protocol
    whole = read(args.protocol)
    if not args.subset:
        return Protocol(whole, whole)
    # The whole is needed too: scored trials of another subset are known, and not refused.
    return Protocol(choose_subset(whole, args.subset, args.protocol), whole)


def read_system_scores(
    path: Path,
    protocol: Protocol,
    ignore_others: bool,
    *,
    are_decisions: bool = False,
    both_classes: bool = True,
) -> Scores:
    """Read the scores of a system, for the protocol's trials if there is one.

    Scored trials that are left out are counted on stderr, and a replaced network is warned of.

    Args:
        are_decisions: Whether the file contains decisions, which become the scores 1 and 0.
        both_classes: Whether to refuse a file of one class.

    Raises:
        AsdfError: the file cannot be read, or does not fit the protocol.
    """
    from asdf.trials.formats import read_decisions, read_score_file
    from asdf.trials.matching import read_matched

    whole = path.absolute()
    # Outside of a run there is no network beside the scores.
    if layout_of_score_file(whole) and (remark := replaced_network(whole)):
        show_error(f"warning: {remark}")
    read = read_decisions if are_decisions else read_score_file
    if protocol.trials is None:
        return read(path).labelled(path, both_classes=both_classes)
    scores, others = read_matched(
        path,
        protocol.trials,
        # With all trials known, scores of the other subsets are not a mistake.
        whole=protocol.whole,
        ignore_others=ignore_others,
        read=read,
        both_classes=both_classes,
    )
    if others:
        show_error(f"{input_name(path)}: {others} scored trials ignored, {len(scores)} evaluated")
    return scores

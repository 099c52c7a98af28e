"""Score files, the protocol of their set, and the threshold for decisions.

Invariant: a threshold comes from the command line, another set, or a calibrated network; if it
comes from the trials that it decides, a warning says so. A set of one class has no EER: without
such a threshold it has no result, since one from the set itself would be chosen on the trials that
it decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asdf.commands.options import flag, option
from asdf.errors import AsdfError, UsageError
from asdf.metrics.calibration import Calibration
from asdf.metrics.decisions import (
    THRESHOLD_RULES,
    Decided,
    OneClassSet,
    Threshold,
    choose_threshold,
    decide_one_class,
    score_threshold,
)
from asdf.metrics.detection import DetCurve, DetectionCost
from asdf.metrics.intervals import Interval
from asdf.metrics.results import joined_columns
from asdf.metrics.summary import known_columns
from asdf.runs.layout import layout_of_score_file
from asdf.runs.streams import input_name, show_error
from asdf.scoring.network_check import network_of, replaced_network, warn_of_other_network
from asdf.tables.renderers import as_json, as_lines
from asdf.tables.table import Columns, Table, Value, counts, differing_parts, each, rate
from asdf.text import as_facts, numbered, read_number
from asdf.trials.formats import BETWEEN, read_decisions, read_score_file
from asdf.trials.matching import read_matched
from asdf.trials.score_file import missing_class, require_labels

if TYPE_CHECKING:
    from asdf.trials.score_file import Scores
    from asdf.trials.trial_list import TrialList


_SUFFIXES = (".txt", ".tsv", ".csv", ".scores")
_IN_WORDS = {
    "eer": "at the EER",
    "min-dcf": "at the minDCF",
    "best-f1": "at the best macro-F1",
    "best-accuracy": "at the best accuracy",
    "best-balanced-accuracy": "at the best balanced accuracy",
}
# Decisions are read as the scores 1 and 0, between which this threshold lies.
_DECIDED = Threshold(BETWEEN, "decided by the system itself")
NO_THRESHOLD = (
    "An EER needs both classes: if the set should have them, check the labels of the scored list "
    "or of the protocol. For one class, recall or false alarms need a threshold from other trials: "
    "--threshold-from SCORES (a set with both classes, scored by the same network), --threshold-of "
    "NETWORK (if it is calibrated), or --threshold X."
)
"""Advice for a set of one class."""
_CLASSES = {1: "bona fide", 0: "spoof"}
_ERRORS = {1: "false alarms", 0: "accepted spoofs"}
_RATES = {1: "false alarm rate", 0: "1 - SRR (spoofs accepted)"}


@dataclass(frozen=True, kw_only=True)
class ProtocolOptions:
    """The protocol of the score files."""

    protocol: Path | None = option("label file, or folder with real/ and fake/", metavar="P")
    subset: str | None = option("evaluate only this subset of P (ASVspoof 2021: eval)", metavar="S")
    ignore_others: bool = flag("ignore scored trials that are not in P")


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """Decisions at a threshold: accuracy, F1, macro-F1, precision, recall."""

    threshold: str | None = option(
        "lowest score that is called bona fide; of frame scores one for all resolutions, or T,T "
        "with one for each",
        "X",
        one_of="threshold",
    )
    threshold_from: tuple[str, ...] = option(
        "choose the threshold on this score file of another set; repeat once per system in the "
        "same order, or give it once for several sets scored by one network",
        "DEV",
        default=(),
        repeated=True,
        one_of="threshold",
    )
    threshold_of: tuple[str, ...] = option(
        "use the threshold of this calibrated network; repeat once per system in the same order, "
        "or give it once for several sets scored by one network",
        "NETWORK",
        default=(),
        repeated=True,
        one_of="threshold",
    )
    decisions: bool = flag(
        "SCORES contain decisions: lines 'UTT bonafide|spoof', or AT-ADD's CSV of real and fake",
        one_of="threshold",
    )
    threshold_by: str | None = option(
        "criterion for the threshold on DEV (eer); best-f1 means the best macro-F1",
        choices=THRESHOLD_RULES,
    )
    threshold_protocol: Path | None = option("label file of DEV, if DEV has no labels", "P")


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
        UsageError: two systems have the same name, a name is empty, or a group has a file twice.
    """
    stated: list[tuple[str | None, Path, str]] = []
    for word in words:
        before, sign, after = word.partition("=")
        # Folders of experiments often have names such as lr=0.1, so a `=` alone is ambiguous.
        if not sign or "/" in before or Path(word).exists():
            stated.append((None, Path(word), ""))
            continue
        name, files = before.strip(), [after]
        # A comma may be part of a file name.
        if not Path(after).exists():
            files = list(filter(None, after.split(",")))
        if len(set(files)) < len(files):
            raise UsageError(f"{word}: a file is named twice. Give the scores of each seed once.")
        group = name if len(files) > 1 else ""
        for number, file in enumerate(files, 1):
            stated.append((f"{name} #{number}" if group else name, Path(file), group))
    given = [name for name, _, _ in stated if name is not None]
    for name in given:
        if not name or given.count(name) > 1:
            raise UsageError(f"{name!r} is empty or names several systems. Rename one of them.")
    of_files = iter(names_of([path for name, path, _ in stated if name is None]))
    names = numbered([next(of_files) if name is None else name for name, _, _ in stated])
    return [System(name, path, group) for name, (_, path, group) in zip(names, stated, strict=True)]


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return the shortest names that distinguish score files.

    They are the names of the files, or the parts of their paths that differ. A file that is given
    twice has a number after its second name.
    """
    parts = []
    for path in paths:
        name = stem = path.name.removesuffix(".gz")
        # Only suffixes of score files are removed: names of networks contain a dot, as in epoch.4.
        if name.endswith(_SUFFIXES):
            stem, _, _ = name.rpartition(".")
        named = [*path.parts[:-1], stem or name]
        # A file name may contain bytes that are not text, while outputs are text.
        parts.append([part.encode("utf-8", "backslashreplace").decode("utf-8") for part in named])
    stems = [file_parts[-1] for file_parts in parts]
    if len(set(stems)) == len(stems):
        return stems
    return numbered(list(map("/".join, differing_parts(parts))))


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
    whole = path.absolute()
    # Outside of a run there is no network beside the scores.
    if layout_of_score_file(whole) and (remark := replaced_network(whole)):
        show_error(f"warning: {remark}")
    read = read_decisions if are_decisions else read_score_file
    if protocol.trials is None:
        return require_labels(path, read(path), both_classes=both_classes)
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


class Judged(NamedTuple):
    """The scores of a system, with the threshold that decides them; None without a threshold."""

    scores: Scores
    threshold: Threshold | None


def check_thresholds(args: ThresholdOptions, systems: Sequence[System]) -> None:
    """Raise a UsageError unless each system has a threshold, if any is learnt."""
    for name, named in (("from", args.threshold_from), ("of", args.threshold_of)):
        if named and len(named) != len(systems):
            # A file without a statement may be of any network.
            networks = {network_of(system.path) for system in systems}
            if len(named) == 1 and len(networks) == 1 and None not in networks:
                continue
            raise UsageError(
                f"--threshold-{name} is given {len(named)} times for {len(systems)} systems: give "
                "it once per system, in the same order, or once for files that `score --scores` "
                "wrote with one network."
            )


def threshold_of(
    args: ThresholdOptions, cost: DetectionCost, index: int, scores: Scores, path: Path
) -> Threshold | None:
    """Return the threshold of a system; None if none is requested.

    Args:
        cost: Cost of a threshold at the minDCF of another set.
        index: Index of the system on the command line.
        scores: Scores to decide. A warning is shown if the threshold comes from these trials, or
            from another network.
        path: Path of their file.

    Raises:
        AsdfError: a file cannot be read, or the network is not calibrated.
    """
    if args.decisions:
        return _DECIDED
    if args.threshold is not None:
        return Threshold(read_threshold(args.threshold), "as stated")
    if args.threshold_of:
        # Networks are read with torch, which takes seconds to import.
        from asdf.checkpoint.network_reading import read_network_file
        from asdf.interchange import find_network, network_digest
        from asdf.metrics.calibration import read_calibration

        # A single source applies to all systems.
        name = args.threshold_of[index % len(args.threshold_of)]
        file = read_network_file(find_network(name))
        calibration = read_calibration(file.calibration, name)
        if calibration is None:
            raise AsdfError(
                f"{name} has no threshold. Calibrate it: python -m asdf calibrate {name} DEV_SCORES"
            )
        warn_of_other_network(path, "threshold", name, network_digest(name))
        return Threshold(score_threshold(calibration), f"of the calibrated network {name}")
    if not args.threshold_from:
        return None
    from asdf.corpora import read_protocol

    other = Path(args.threshold_from[index % len(args.threshold_from)])
    warn_of_other_network(path, "threshold", input_name(other), network_of(other))
    if args.threshold_protocol:
        learnt_from, _ = read_matched(other, read_protocol(args.threshold_protocol))
    else:
        learnt_from = require_labels(other, read_score_file(other))
    shared = len(set(learnt_from.ids).intersection(scores.ids))
    if shared:
        show_error(
            f"warning: {shared} of the {len(scores)} evaluated trials are also in "
            f"{input_name(other)}, which determines the threshold, so the decisions look better "
            "than on new trials."
        )
    rule = args.threshold_by or "eer"
    value = choose_threshold(DetCurve.of_scores(learnt_from), rule, cost)
    return Threshold(value, f"{_IN_WORDS[rule]} of {input_name(other)}")


def read_threshold(text: str) -> float:
    """Return the number of --threshold.

    Raises:
        UsageError: it is not a finite number.
    """
    try:
        value = read_number(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise UsageError(f"--threshold {text}: a threshold must be a finite number.")
    return value


def calibration_of_scores(path: Path, network: str) -> Calibration:
    """Return the calibration of a network, after checking that a file has its scores.

    Args:
        path: File of the scores.
        network: Path of the network, or its name.

    Raises:
        UsageError: the network is not calibrated.
        AsdfError: the network cannot be read, or the scores are of another one.
    """
    # Imported here because torch takes seconds to import.
    from asdf.interchange import network_digest
    from asdf.scoring.detector import Detector

    # On the CPU: nothing is scored, only the calibration is read.
    detector = Detector(network, "cpu")
    calibration = detector.calibration
    if calibration is None:
        raise UsageError(
            f"--calibration {network} is not calibrated: python -m asdf calibrate {network} SCORES "
            "--output CALIBRATED"
        )
    scored_by = network_of(path)
    if scored_by is not None and scored_by != network_digest(detector.source):
        raise AsdfError(
            f"the scores in {path} are from another network than {network}. Give the network that "
            "made them."
        )
    return calibration


def decide_systems(
    systems: Sequence[System],
    judged: Sequence[Judged],
    protocol: Protocol,
    columns: Sequence[str],
    of_both: Sequence[str],
) -> list[OneClassSet]:
    """Decide the trials of systems with scores of one class.

    Args:
        of_both: Given options that need trials of both classes.

    Raises:
        UsageError: there are such options.
        AsdfError: there is no threshold, or other files have both classes.
    """
    sets = []
    for system, (scores, threshold) in zip(systems, judged, strict=True):
        lacking = missing_class(scores.labels)
        if not lacking:
            raise AsdfError(
                f"{system.name} has both classes, other files one. Evaluate it in a separate "
                "command."
            )
        if threshold is None:
            raise AsdfError(
                f"{input_name(system.path)}: none of the {len(scores)} trials is {lacking}. "
                f"{NO_THRESHOLD}"
            )
        known = joined_columns(known_columns(system.name, scores, protocol.trials), columns)
        by = {name: known[name] for name in columns if name in known}
        sets.append(decide_one_class(system.name, scores, threshold, by))
    if of_both:
        raise UsageError(f"{', '.join(of_both)}: the scores are of one class. Leave this out.")
    return sets


def one_class_text(sets: Sequence[OneClassSet]) -> str:
    """Return the results of all sets."""
    lines: list[str] = []
    for found in sets:
        whole, threshold = found.whole, found.threshold
        rows = {
            "class": f"{_CLASSES[whole.label]} alone, {whole.trials:,} trials",
            "threshold": f"{threshold.value:.6g}, {threshold.source}",
            _ERRORS[whole.label]: f"{whole.errors:,} of {whole.trials:,}",
            _RATES[whole.label]: _percent(whole.error_rate),
            "recall": _percent(whole.recall),
        }
        lines += ["", *as_facts(f"{found.name}: one class, so no EER", rows)]
        for column, parts in found.by.items():
            decided = parts.values()
            errors = each(decided, "error_rate")
            shown = rate("error_rate", "error %", over={"trials": "95 %"})
            columns: Columns = [
                counts("trials", each(decided, "trials")),
                counts("errors", each(decided, "errors")),
                (shown, Value.with_intervals(each(errors, "value"), errors)),
                rate("recall", "recall %").with_values(each(decided, "recall.value")),
            ]
            lines += ["", *as_lines(Table(list(parts), columns, column))]
    return "\n".join(lines[1:])


def _percent(interval: Interval) -> str:
    bounds = f"{100 * interval.low:.2f} .. {100 * interval.high:.2f}"
    return f"{100 * interval.value:.2f} %   95 %: {bounds}, exact"


def one_class_json(sets: Sequence[OneClassSet]) -> str:
    """Return all numbers with all digits."""
    records = []
    for found in sets:
        by = {}
        for column, parts in found.by.items():
            by[column] = {value: _record(decided) for value, decided in parts.items()}
        threshold = {"value": found.threshold.value, "source": found.threshold.source}
        whole = _record(found.whole)
        records.append({"system": found.name, "threshold": threshold, **whole, "by": by})
    return as_json(records)


def _record(decided: Decided) -> dict[str, Any]:
    recall, wrong = decided.recall, decided.error_rate
    return {
        "class": _CLASSES[decided.label],
        "trials": decided.trials,
        "errors": decided.errors,
        "recall": recall.value,
        "recall_low": recall.low,
        "recall_high": recall.high,
        "error_rate": wrong.value,
        "error_low": wrong.low,
        "error_high": wrong.high,
    }

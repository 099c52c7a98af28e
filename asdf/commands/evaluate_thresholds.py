"""Thresholds for decisions and calibrations of scores, from another set or a calibrated network.

Invariant: if a threshold comes from the trials that it decides, a warning says so. A set of one
class has no EER: without such a threshold it has no result, since a threshold from the set itself
would be chosen on the trials that it decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from asdf.commands.evaluate import EvaluateOptions
from asdf.commands.judged_files import Protocol, System
from asdf.errors import AsdfError, UsageError
from asdf.metrics.calibration import Calibration
from asdf.metrics.decisions import (
    Decided,
    OneClassSet,
    Threshold,
    choose_threshold,
    decide_one_class,
    score_threshold,
)
from asdf.metrics.detection import ASVSPOOF5, with_costs
from asdf.metrics.intervals import Interval
from asdf.metrics.results import joined_columns
from asdf.metrics.summary import known_columns
from asdf.runs.streams import input_name, show_error
from asdf.scoring.network_check import network_of, warn_of_other_network
from asdf.tables.renderers import as_json, as_lines
from asdf.tables.table import Columns, Table, Value, counts, each, rate
from asdf.text import as_facts, read_number
from asdf.trials.formats import BETWEEN
from asdf.trials.score_file import missing_class

if TYPE_CHECKING:
    from asdf.trials.score_file import Scores


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


class Judged(NamedTuple):
    """The scores of a system, with the threshold that decides them; None without a threshold."""

    scores: Scores
    threshold: Threshold | None


def check_thresholds(args: EvaluateOptions, systems: Sequence[System]) -> None:
    """Refuse contradictory options.

    Raises:
        UsageError: see the messages.
    """
    if (args.threshold_by or args.threshold_protocol) and not args.threshold_from:
        raise UsageError(
            "--threshold-by and --threshold-protocol describe the set of --threshold-from. Give "
            "--threshold-from DEV too."
        )
    if args.decisions and args.protocol is None:
        raise UsageError(
            "files of --decisions contain no labels. Give the protocol of the set with --protocol."
        )
    for name, named in (("from", args.threshold_from), ("of", args.threshold_of)):
        if named and len(named) != len(systems):
            # A file without a statement may be of any network.
            networks = {network_of(system.path) for system in systems}
            if len(named) == 1 and len(networks) == 1 and None not in networks:
                continue
            raise UsageError(
                f"--threshold-{name} is given {len(named)} times for {len(systems)} "
                "systems. Different systems need different thresholds: give it once per system, in "
                "the same order. (One is enough if `score --scores` wrote all files with the same "
                "network, which it records next to them.)"
            )


def threshold_of(args: EvaluateOptions, index: int, scores: Scores, path: Path) -> Threshold | None:
    """Return the threshold of a system; None if none is requested.

    Args:
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
        # A single source applies to all systems.
        return _threshold_of_network(args.threshold_of[index % len(args.threshold_of)], path)
    if args.threshold_from:
        other = Path(args.threshold_from[index % len(args.threshold_from)])
        warn_of_other_network(path, "threshold", input_name(other), network_of(other))
        return _threshold_of_set(args, other, scores)
    return None


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


def _threshold_of_set(args: EvaluateOptions, path: Path, judged: Scores) -> Threshold:
    """Return the threshold on another set; warn if it shares trials with the judged scores."""
    from asdf.corpora import read_protocol
    from asdf.metrics.detection import DetCurve
    from asdf.trials.formats import read_score_file
    from asdf.trials.matching import read_matched

    if args.threshold_protocol:
        scores, _ = read_matched(path, read_protocol(args.threshold_protocol))
    else:
        scores = read_score_file(path).labelled(path)
    shared = len(set(scores.ids).intersection(judged.ids))
    if shared:
        show_error(
            f"warning: {shared} of the {len(judged)} evaluated trials are also in "
            f"{input_name(path)}, which determines the threshold, so the decisions look better "
            "than on new trials."
        )
    rule = args.threshold_by or "eer"
    value = choose_threshold(DetCurve.of_scores(scores), rule, with_costs(ASVSPOOF5, args.costs))
    return Threshold(value, f"{_IN_WORDS[rule]} of {input_name(path)}")


def _threshold_of_network(name: str, path: Path) -> Threshold:
    """Return the threshold of a calibrated network for the scores of a file."""
    # Networks are read with torch, which takes seconds to import.
    from asdf.checkpoint.network_reading import read_network_file
    from asdf.interchange import find_network, network_digest
    from asdf.metrics.calibration import read_calibration

    file = read_network_file(find_network(name))
    calibration = read_calibration(file.calibration, name)
    if calibration is None:
        raise AsdfError(
            f"{name} is not calibrated, so it has no threshold. Calibrate it first: "
            f"python -m asdf calibrate {name} DEV_SCORES"
        )
    warn_of_other_network(path, "threshold", name, network_digest(name))
    return Threshold(score_threshold(calibration), f"of the calibrated network {name}")


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
            f"--calibration {network}: this network is not calibrated. Calibrate it first: "
            f"python -m asdf calibrate {network} SCORES --output CALIBRATED"
        )
    scored_by = network_of(path)
    if scored_by is not None and scored_by != network_digest(detector.source):
        raise AsdfError(
            f"the scores in {path} are from another network than {network}, so its calibration "
            f"does not apply to them. Score the list with {network}, or give the network that made "
            "the scores."
        )
    return calibration


def decide_systems(
    args: EvaluateOptions,
    systems: Sequence[System],
    judged: Sequence[Judged],
    protocol: Protocol,
    columns: Sequence[str],
) -> list[OneClassSet]:
    """Decide the trials of systems with scores of one class.

    Raises:
        UsageError: an option needs trials of both classes.
        AsdfError: there is no threshold, or other files have both classes.
    """
    both = ("asv_scores", "plot", "ratios", "submission", "csv", "latex")
    needless = ["--" + name.replace("_", "-") for name in both if getattr(args, name)]
    sets = []
    for system, (scores, threshold) in zip(systems, judged, strict=True):
        lacking = missing_class(scores.labels)
        if not lacking:
            raise AsdfError(
                f"{system.name} has trials of both classes, but other files have only one class. "
                "Evaluate it in a separate command."
            )
        if threshold is None:
            raise AsdfError(
                f"{input_name(system.path)}: none of the {len(scores)} trials is {lacking}. "
                f"{NO_THRESHOLD}"
            )
        known = joined_columns(known_columns(system.name, scores, protocol.trials), columns)
        by = {name: known[name] for name in columns if name in known}
        sets.append(decide_one_class(system.name, scores, threshold, by))
    if needless:
        raise UsageError(
            f"{', '.join(needless)}: trials of both classes are needed, but the scores are of one "
            "class. Leave these options out."
        )
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

"""`evaluate` for sets of one class: recall or false alarms at a threshold from other trials.

Invariant: without such a threshold there is no result: an EER needs both classes, and a threshold
from the set itself would be chosen on the trials that it decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asdf.commands.evaluate_options import EvaluateOptions
from asdf.commands.evaluate_thresholds import Judged
from asdf.commands.judged_files import Protocol, System
from asdf.commands.outputs import input_name
from asdf.errors import AsdfError, UsageError
from asdf.metrics.intervals import Interval
from asdf.metrics.one_class import Decided, OneClassSet, decide_one_class
from asdf.metrics.results import joined_columns
from asdf.metrics.summary import known_columns
from asdf.tables.plain_json import as_json
from asdf.tables.plain_text import as_lines
from asdf.tables.table import Columns, Table, Value, counts, each, rate
from asdf.text import as_facts
from asdf.trials.score_file import missing_class

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
    both = ("asv_scores", "plot", "tippett", "ece", "reliability", "submission", "csv", "latex")
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
            lines += ["", *as_lines(_parts_table(column, parts))]
    return "\n".join(lines[1:])


def _percent(interval: Interval) -> str:
    bounds = f"{100 * interval.low:.2f} .. {100 * interval.high:.2f}"
    return f"{100 * interval.value:.2f} %   95 %: {bounds}, exact"


def _parts_table(column: str, parts: Mapping[str, Decided]) -> Table:
    wrong = [Value(rate.value, {"trials": rate}) for rate in each(parts.values(), "error_rate")]
    columns: Columns = [
        counts("trials", each(parts.values(), "trials")),
        counts("errors", each(parts.values(), "errors")),
        (rate("error_rate", "error %", lower_is_better=True, over={"trials": "95 %"}), wrong),
        rate("recall", "recall %").with_values(each(parts.values(), "recall.value")),
    ]
    return Table(list(parts), columns, column)


def one_class_json(sets: Sequence[OneClassSet]) -> str:
    """Return all numbers with all digits."""
    records = []
    for found in sets:
        by = {}
        for column, parts in found.by.items():
            by[column] = dict(zip(parts, map(_record, parts.values()), strict=True))
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

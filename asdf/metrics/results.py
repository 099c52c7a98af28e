"""The metrics of a system on a set, pooled and by attack, codec and other conditions.

Invariant: a condition always has both classes. If only spoofs have values of a column, such as
'attack', the spoofs of each value are compared with all bona fide trials. If bona fide trials have
its values as well, such as codecs, spoofs are compared with bona fide trials of the same value, and
a value of only one class is left out and named in a finding. The package of ASVspoof 2021 does the
same for its factors of 'spoof' and of 'both'.

The results of a run: a row per system or epoch and evaluation set, as text and JSON.

Invariant: `results.txt` and `results.json` hold the same rows, each file is written atomically, and
JSON has all digits, which the text rounds. EERs are fractions except in the text, and each is shown
with how it was scored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from asdf.arrays import Floats
from asdf.metrics.bootstrap import Interval, curve_intervals
from asdf.metrics.decisions import DECISION_METRICS, Confusion
from asdf.metrics.detection import ASVSPOOF5, DetCurve, DetectionCost, act_dcf, cllr, min_dcf_of
from asdf.metrics.intervals import FEW
from asdf.metrics.score_checks import Finding
from asdf.runs.files import write_text
from asdf.runs.layout import RESULTS_JSON, RESULTS_TEXT
from asdf.tables.renderers import as_json, as_lines
from asdf.tables.table import Column, Columns, Table, counts, each, rate, texts
from asdf.text import AnyPath
from asdf.trials.how_scored import NOT_KNOWN, HowScored, role_notes
from asdf.trials.label_files import OF_SPOOFS
from asdf.trials.packed_names import CodedColumn
from asdf.trials.score_file import Scores

_SHOWN = 8
BonaFide = Literal["all", "same"]
"""The bona fide trials for comparison with spoofs of a condition: all, or of its value."""


@dataclass(frozen=True)
class Result:
    """The metrics of one system on one set.

    `eer` is a fraction; `bona_fide` and `spoof` are numbers of trials.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import Scores, evaluate
        >>> result = evaluate(Scores(list("abcd"), [1, 1, 0, 0], np.array([2.0, 1.0, -1.0, 1.5])))
        >>> f"EER {100 * result.eer:.0f} % of {result.bona_fide + result.spoof} trials"
        'EER 50 % of 4 trials'
    """

    eer: float
    eer_threshold: float
    min_dcf: float
    act_dcf: float
    cllr: float
    bona_fide: int
    spoof: int


def evaluate(scores: Scores, cost: DetectionCost = ASVSPOOF5) -> Result:
    """Return the metrics of `scores`.

    Raises:
        AsdfError: a class is empty, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import Scores, evaluate
        >>> import numpy as np
        >>> labels = np.array([1, 1, 1, 1, 0, 0, 0, 0])
        >>> values = np.array([2.0, 1.1, 0.3, 0.9, 0.5, -1.0, 1.5, -0.2])
        >>> scores = Scores(list("abcdefgh"), labels, values)
        >>> result = evaluate(scores)
        >>> result.bona_fide, result.spoof, round(result.eer, 2)
        (4, 4, 0.25)
    """
    return result_of(DetCurve.of_scores(scores), cost)


def result_of(curve: DetCurve, cost: DetectionCost = ASVSPOOF5) -> Result:
    """Return the metrics of the trials of a curve."""
    rate, threshold = curve.eer()
    return Result(
        eer=rate,
        eer_threshold=threshold,
        min_dcf=min_dcf_of(curve, cost),
        act_dcf=act_dcf(curve.bona_fide, curve.spoof, cost),
        cllr=cllr(curve.bona_fide, curve.spoof),
        bona_fide=curve.bona_fide.size,
        spoof=curve.spoof.size,
    )


JOINED = "+"
"""Separator of joined column names, whose values together are conditions: gender+language."""
_BETWEEN = " / "


def joined_columns(
    columns: Mapping[str, Sequence[str]], names: Sequence[str]
) -> dict[str, Sequence[str]]:
    """Return the columns, with those that names such as 'gender+language' join.

    A trial has a joined value if all of these columns have one.
    """
    known = dict(columns)
    for name in names:
        parts = name.split(JOINED)
        if name in known or len(parts) < 2 or not all(part in columns for part in parts):
            continue
        joined = []
        for values in zip(*map(columns.__getitem__, parts), strict=True):
            joined.append(_BETWEEN.join(values) if all(values) else "")
        known[name] = joined
    return known


def by_condition(
    scores: Scores,
    values: Sequence[str],
    *,
    bona_fide: BonaFide = "all",
    cost: DetectionCost = ASVSPOOF5,
) -> dict[str, Result]:
    """Return the metrics of each condition: the spoofs of each value, in alphabetical order.

    Args:
        values: Value of each trial, such as its attack or codec.
        bona_fide: Choice of the bona fide trials: 'all', as in published results by attack, or
            'same' for those of the same value, as for codecs, without values that only one class
            has.

    Raises:
        AsdfError: there are no bona fide or no spoof trials, or a score is not finite.

    Examples:
        >>> from asdf.evaluation import Scores, by_condition
        >>> import numpy as np
        >>> labels = np.array([1, 1, 1, 1, 0, 0, 0, 0])
        >>> values = np.array([2.0, 1.1, 0.3, 0.9, 0.5, -1.0, 1.5, -0.2])
        >>> scores = Scores(list("abcdefgh"), labels, values)
        >>> attacks = ["-", "-", "-", "-", "A01", "A01", "A02", "A02"]
        >>> results = by_condition(scores, attacks)
        >>> {attack: round(result.eer, 2) for attack, result in results.items()}
        {'A01': 0.38, 'A02': 0.5}
    """
    if len(values) != len(scores):
        raise ValueError(f"{len(values)} values for {len(scores)} trials")
    column = CodedColumn.of(values)
    of_spoof, of_bona_fide = _values_of_classes(scores, column)
    results = {}
    for value in sorted(of_spoof):
        if bona_fide == "all" or value in of_bona_fide:
            trials = condition_trials(scores, column, value, bona_fide)
            results[value] = result_of(DetCurve.of(*trials), cost)
    return results


def condition_trials(
    scores: Scores, column: CodedColumn, value: str, bona_fide: BonaFide
) -> tuple[Floats, Floats]:
    """Return the scores of the bona fide trials and of the spoofs of one condition.

    Args:
        column: Values (trials,), from which the spoofs of `value` are selected.
        bona_fide: Choice of the bona fide trials, as in `by_condition`.
    """
    is_of_value = column.codes == column.values.index(value)
    spoof = scores.scores[(scores.labels == 0) & is_of_value]
    if bona_fide == "all":
        return scores.bona_fide, spoof
    return scores.scores[(scores.labels == 1) & is_of_value], spoof


def _values_of_classes(scores: Scores, column: CodedColumn) -> tuple[set[str], set[str]]:
    """Return the values that spoof trials have, and those of bona fide trials."""
    counts = [np.bincount(column.codes[scores.labels == label]) for label in (0, 1)]
    spoof, bona_fide = (np.flatnonzero(of_class).tolist() for of_class in counts)
    return {column.values[code] for code in spoof}, {column.values[code] for code in bona_fide}


@dataclass(frozen=True)
class Condition:
    """The result of one value of one column.

    Attributes:
        bona_fide: Choice of the bona fide trials that its spoofs are compared with.
        interval: Interval of the EER over trials; None if it was not requested.
        decisions: Decisions at the threshold of the system; None if it has none.
    """

    column: str
    value: str
    result: Result
    bona_fide: BonaFide = "all"
    interval: Interval | None = None
    decisions: Confusion | None = None

    @property
    def few(self) -> bool:
        """Whether a class has too few trials for a meaningful EER of the condition."""
        return min(self.result.bona_fide, self.result.spoof) < FEW


@dataclass(frozen=True)
class Average:
    """The means over the conditions of a column, with equal weights; `eer` is a fraction."""

    eer: float
    min_dcf: float
    act_dcf: float
    cllr: float

    @classmethod
    def of(cls, conditions: Sequence[Condition]) -> Average:
        """Return the means over at least one condition."""
        results = [condition.result for condition in conditions]
        means = [np.mean(each(results, metric.name)) for metric in fields(cls)]
        return cls(*map(float, means))


def average_decisions(conditions: Sequence[Condition]) -> dict[str, float]:
    """Return the mean of each metric of decisions over the conditions; empty without decisions."""
    values = [condition.decisions.values() for condition in conditions if condition.decisions]
    means = {}
    for name in DECISION_METRICS if values else ():
        means[name] = float(np.mean([of_condition[name] for of_condition in values]))
    return means


def conditions_of(
    scores: Scores,
    column: str,
    values: Sequence[str],
    *,
    replicates: int = 0,
    seed: int = 0,
    threshold: float | None = None,
    cost: DetectionCost = ASVSPOOF5,
) -> tuple[list[Condition], list[Finding]]:
    """Return the conditions of one column, sorted by value, and a finding about omitted values.

    With fewer than two values, including the `-` of bona fide trials, there are no conditions.

    Args:
        values: Value of each trial, '' if unknown.
        replicates: Number of replicates of the bootstrap of each EER; 0 for no intervals.
        threshold: Threshold of the decisions; None for no decisions.
    """
    # A corpus without such a column has no values.
    column_values = CodedColumn.of(values or [""] * len(scores))
    of_classes = _values_of_classes(scores, column_values)
    of_spoof, of_bona_fide = (of_class - {""} for of_class in of_classes)
    if len(of_bona_fide | of_spoof) < 2:
        return [], []
    chosen = of_spoof
    alone: set[str] = set()
    bona_fide: BonaFide = "all"
    # Results by attack are published against all bona fide trials, whatever their column holds.
    if column not in OF_SPOOFS and of_bona_fide & of_spoof:
        chosen = of_bona_fide & of_spoof
        alone = of_bona_fide ^ of_spoof
        bona_fide = "same"
    conditions = []
    for value in sorted(chosen):
        trials = condition_trials(scores, column_values, value, bona_fide)
        curve = DetCurve.of(*trials)
        interval = None
        if replicates:
            interval = curve_intervals(curve, replicates=replicates, seed=seed).eer
        decisions = None if threshold is None else Confusion.at(*trials, threshold)
        result = result_of(curve, cost)
        conditions.append(Condition(column, value, result, bona_fide, interval, decisions))
    if not alone:
        return conditions, []
    shown = ", ".join([*sorted(alone)[:_SHOWN], *(["..."] if len(alone) > _SHOWN else [])])
    message = (
        f"by {column}: left out because bona fide or spoof trials are missing: {shown} "
        f"({len(alone)} values)."
    )
    return conditions, [Finding("warning", message)]


def trials_of(condition: Condition, scores: Scores, values: Sequence[str]) -> tuple[Floats, Floats]:
    """Return the scores of the (bona fide, spoof) trials of a condition.

    Args:
        values: Value of each trial, as in `conditions_of`.
    """
    column = CodedColumn.of(values)
    return condition_trials(scores, column, condition.value, condition.bona_fide)


@dataclass(frozen=True)
class MetricValue:
    """The value of `network.validation_metric` on a set, if it is not the EER."""

    name: str
    value: float
    lower_is_better: bool


@dataclass(frozen=True)
class Row:
    """A line of a table of results; `scored` holds what is known of the scoring.

    Attributes:
        chosen_by: Metric by which networks were chosen; None for the EER, which `result` has.
    """

    epoch: str
    set: str
    result: Result
    scored: HowScored = NOT_KNOWN
    chosen_by: MetricValue | None = None


AnyRow = Row | tuple[str, str, Result]
"""A row, or the first three values of one."""


def results_table(rows: Sequence[AnyRow]) -> str:
    """Return the rows as aligned text, with a header; it ends with a line break.

    A metric that networks were chosen by has a column after the EER. Notes below name the sets
    whose results are not a test.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import Scores, evaluate, results_table
        >>> result = evaluate(Scores(list("abcd"), [1, 1, 0, 0], np.array([2.0, 1.0, -1.0, 1.5])))
        >>> print(results_table([("network 3", "demo-eval", result)]), end="")
        epoch      set         EER %  minDCF  threshold  bona fide  spoof  scored
        network 3  demo-eval  50.000  0.5000     1.0000          2      2  not known
    """
    complete = [_as_row(row) for row in rows]
    columns: Columns = [
        texts("set", each(complete, "set"), is_left=True),
        rate("eer", "EER", 3, states_unit=True).with_values(each(complete, "result.eer")),
    ]
    for name in dict.fromkeys(row.chosen_by.name for row in complete if row.chosen_by):
        chosen = [row.chosen_by for row in complete]
        values = [known.value if known and known.name == name else None for known in chosen]
        columns.append(Column(name, name).with_values(values))
    for key, name in (("min_dcf", "minDCF"), ("eer_threshold", "threshold")):
        columns.append(Column(key, name).with_values(each(complete, f"result.{key}")))
    columns += [
        counts("bona fide", each(complete, "result.bona_fide")),
        counts("spoof", each(complete, "result.spoof")),
        texts("scored", [row.scored.describe() for row in complete], is_left=True),
    ]
    lines = as_lines(Table(each(complete, "epoch"), columns, "epoch"))
    lines += role_notes((row.set, row.scored.role) for row in complete)
    return "\n".join(lines) + "\n"


def write_results(folder: AnyPath, rows: Sequence[AnyRow]) -> list[dict[str, Any]]:
    """Write `results.txt` and `results.json` into `folder`.

    Each is written atomically, the same bytes for the same rows.

    Returns:
        Rows in the form of results.json.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import Scores, evaluate, write_results
        >>> result = evaluate(Scores(list("abcd"), [1, 1, 0, 0], np.array([2.0, 1.0, -1.0, 1.5])))
        >>> [record] = write_results(".", [("network 3", "demo-eval", result)])
        >>> record["set"], record["bona_fide"]
        ('demo-eval', 2)
    """
    records = []
    for row in map(_as_row, rows):
        record = {"epoch": row.epoch, "set": row.set, **asdict(row.result), **row.scored.record()}
        if chosen := row.chosen_by:
            record |= {"validation_metric": chosen.name, "validation_value": chosen.value}
            record["lower_is_better"] = chosen.lower_is_better
        records.append(record)
    write_text(Path(folder) / RESULTS_JSON, as_json(records))
    write_text(Path(folder) / RESULTS_TEXT, results_table(rows))
    return records


def _as_row(row: AnyRow) -> Row:
    return row if isinstance(row, Row) else Row(*row)

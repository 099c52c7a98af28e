"""The results of a run: a row per system or epoch and evaluation set, as text and for programs.

Invariant: `results.txt` and `results.json` hold the same rows, each file is written whole, and JSON
has all digits, which the text rounds. EERs are fractions everywhere but in the text, and each is
named with how it was scored.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from asdf.arrays import Floats
from asdf.metrics.costs import ASVSPOOF5, DetectionCost, act_dcf, cllr, min_dcf_of
from asdf.metrics.detection import DetCurve
from asdf.runs.files import write_text
from asdf.runs.layout import RESULTS_JSON, RESULTS_TEXT
from asdf.text import AnyPath, aligned
from asdf.trials.how_scored import NOT_KNOWN, HowScored
from asdf.trials.score_file import Scores
from asdf.trials.set_roles import role_notes

BonaFide = Literal["all", "same"]
"""The bona fide trials that spoofs of a condition are compared with: all, or those of its value."""


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


@dataclass(frozen=True)
class MetricValue:
    """What `network.validation_metric` computes of a set, where it is not the EER."""

    name: str
    value: float
    lower_is_better: bool


@dataclass(frozen=True)
class Row:
    """One line of a table of results; `scored` holds what is known of how.

    Attributes:
        chosen_by: the metric that networks were chosen by; None for the EER, which `result` has.
    """

    epoch: str
    set: str
    result: Result
    scored: HowScored = NOT_KNOWN
    chosen_by: MetricValue | None = None


AnyRow = Row | tuple[str, str, Result]
"""A row, or the first three values of one."""


_NAMES = 2
"""The first columns hold names, which are aligned to the left."""


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


def by_condition(
    scores: Scores,
    values: Sequence[str],
    *,
    bona_fide: BonaFide = "all",
    cost: DetectionCost = ASVSPOOF5,
) -> dict[str, Result]:
    """Return the metrics of each condition: the spoofs of each value, in alphabetical order.

    Args:
        values: the attack, codec, ... of each trial.
        bona_fide: 'all' compares them with all bona fide trials, as results by attack are
            published; 'same' with those of the same value, as for codecs, without values that only
            one class has.

    Raises:
        AsdfError: there is no bona fide or no spoof trial, or a score is not finite.

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
    column = np.asarray(values)
    if column.shape != (len(scores),):
        raise ValueError(f"{column.size} values for {len(scores)} trials")
    of_bona_fide = set(column[scores.labels == 1].tolist())
    results = {}
    for value in sorted(set(column[scores.labels == 0].tolist())):
        if bona_fide == "all" or value in of_bona_fide:
            trials = condition_trials(scores, column, value, bona_fide)
            results[value] = result_of(DetCurve.of(*trials), cost)
    return results


def condition_trials(
    scores: Scores, column: npt.NDArray[np.str_], value: str, bona_fide: BonaFide
) -> tuple[Floats, Floats]:
    """Return the scores of the bona fide trials and of the spoofs of one condition.

    Args:
        column: (trials,), of which the spoofs of `value` are taken.
        bona_fide: See `by_condition`.
    """
    is_of_value = column == value
    spoof = scores.scores[(scores.labels == 0) & is_of_value]
    if bona_fide == "all":
        return scores.bona_fide, spoof
    return scores.scores[(scores.labels == 1) & is_of_value], spoof


def results_table(rows: Sequence[AnyRow]) -> str:
    """Return the rows as aligned text, with a header; it ends with a line break.

    A metric that networks were chosen by has a column behind the EER. Below stands of which sets
    the numbers are not a test.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import Scores, evaluate, results_table
        >>> result = evaluate(Scores(list("abcd"), [1, 1, 0, 0], np.array([2.0, 1.0, -1.0, 1.5])))
        >>> print(results_table([("network 3", "demo-eval", result)]), end="")
        epoch      set         EER %  minDCF  threshold  bona fide  spoof  scored
        network 3  demo-eval  50.000  0.5000     1.0000          2      2  not known
    """
    complete = [_as_row(row) for row in rows]
    metrics = dict.fromkeys(row.chosen_by.name for row in complete if row.chosen_by)
    others = ("minDCF", "threshold", "bona fide", "spoof", "scored")
    table = [["epoch", "set", "EER %", *metrics, *others]]
    for row in complete:
        table.append(_cells(row, metrics))
    lines = aligned(table, right=range(_NAMES, len(table[0]) - 1))
    lines += role_notes((row.set, row.scored.role) for row in complete)
    return "\n".join(lines) + "\n"


def _metric_cell(row: Row, name: str) -> str:
    if row.chosen_by is None or row.chosen_by.name != name:
        return "-"
    return f"{row.chosen_by.value:.4f}"


def _as_row(row: AnyRow) -> Row:
    return row if isinstance(row, Row) else Row(*row)


def _cells(row: Row, metrics: Iterable[str]) -> list[str]:
    result = row.result
    return [
        row.epoch,
        row.set,
        f"{100 * result.eer:.3f}",
        *(_metric_cell(row, name) for name in metrics),
        f"{result.min_dcf:.4f}",
        f"{result.eer_threshold:.4f}",
        str(result.bona_fide),
        str(result.spoof),
        row.scored.describe(),
    ]


def write_results(folder: AnyPath, rows: Sequence[AnyRow]) -> list[dict[str, Any]]:
    """Write `results.txt` and `results.json` into `folder`.

    Each is written atomically, the same bytes for the same rows.

    Returns:
        The rows as results.json has them.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import Scores, evaluate, write_results
        >>> result = evaluate(Scores(list("abcd"), [1, 1, 0, 0], np.array([2.0, 1.0, -1.0, 1.5])))
        >>> [record] = write_results(".", [("network 3", "demo-eval", result)])
        >>> record["set"], record["bona_fide"]
        ('demo-eval', 2)
    """
    records = [_record(_as_row(row)) for row in rows]
    content = json.dumps(records, indent=2, ensure_ascii=False)
    write_text(Path(folder) / RESULTS_JSON, content + "\n")
    write_text(Path(folder) / RESULTS_TEXT, results_table(rows))
    return records


def _record(row: Row) -> dict[str, Any]:
    """Return a row for JSON."""
    return {
        "epoch": row.epoch,
        "set": row.set,
        **asdict(row.result),
        **row.scored.record(),
        **_record_metric(row.chosen_by),
    }


def _record_metric(metric: MetricValue | None) -> dict[str, Any]:
    if metric is None:
        return {}
    return {
        "validation_metric": metric.name,
        "validation_value": metric.value,
        "lower_is_better": metric.lower_is_better,
    }

"""Source tracing: closed-set metrics on known sources, open-set ones on unknown, and their tables.

Invariant: a trial of a class that the network knows is a known trial, a trial of another class is
an unknown trial, and a trial without a class is left out. Values are fractions, equal to
scikit-learn's `accuracy_score`, `balanced_accuracy_score` and `f1_score(average='macro',
zero_division=0)`. Text has per cent, JSON fractions with all digits. The plot of the confusion
matrix also states its content in words: a screen reader reads the table of classes.

Shapes: N trials, K classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np

from asdf.arrays import Flags, Floats, Indices, Integers
from asdf.errors import AsdfError
from asdf.metrics.bootstrap import replicate_eer, times_drawn
from asdf.metrics.detection import Blocks, DetCurve, into_blocks
from asdf.metrics.intervals import Interval, rate_interval, read_intervals
from asdf.metrics.validation import TaskMetric
from asdf.tables.panels import Matrix
from asdf.tables.renderers import as_lines
from asdf.tables.table import Columns, Table, Value, counts, each, rate, texts
from asdf.tasks.tracing.source_scores import NO_CLASS, SourceScores
from asdf.text import aligned

Counts = Floats
Rejection = Literal["probability", "logit", "energy", "entropy"]
REJECTIONS: tuple[str, ...] = get_args(Rejection)
"""By what a source is called unknown; a trial with a low score is rejected.

`probability`: the highest probability (Hendrycks & Gimpel, ICLR 2017); `logit`: the highest logit
(Vaze et al., ICLR 2022), which for the cosine head is the nearest class's cosine, a distance;
`energy`: the logarithm of the sum of odds (Liu et al., NeurIPS 2020); `entropy`: minus the entropy
of the probabilities."""

CLOSED_METRICS: tuple[str, ...] = ("accuracy", "balanced_accuracy", "macro_f1")
OPEN_METRICS = ("unknown_eer", "oscr")
FALSE_POSITIVE_RATES = (0.01, 0.1)
"""False positive rates at which the rate of correct classification is reported."""


@dataclass(frozen=True)
class ClassResult:
    """A class of the closed set; precision, recall and F1 are fractions."""

    name: str
    precision: float
    recall: float
    f1: float
    trials: int


@dataclass(frozen=True, eq=False)
class OpenSet:
    """Rejection of unknown sources.

    Attributes:
        rejection: Name of the score by which trials are rejected.
        threshold: Threshold of the EER.
        false_positive_rates, correct_rates: Points of the OSCR curve, from the highest threshold to
            the lowest.
        correct_at: Rates of correct classification at `FALSE_POSITIVE_RATES`.
    """

    rejection: str
    threshold: float
    false_positive_rates: Floats
    correct_rates: Floats
    correct_at: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class SourceResult:
    """The results of a network on a set.

    Attributes:
        confusion_KK: Numbers of trials of each class (row) by predicted class (column).
        known, unknown, of_no_class: Numbers of trials of known classes, unknown classes, and no
            class.
        values: Metrics as fractions, by name: `CLOSED_METRICS`, and `OPEN_METRICS` if there are
            unknown trials. Of these, 'unknown_eer' is the rate at which as many known trials are
            rejected as unknown trials are accepted, and 'oscr' the area under the OSCR curve.
        open: Open-set results; None if a set has no unknown trials.
        intervals: Intervals by the names of metrics; empty if not requested.
    """

    classes: tuple[str, ...]
    column: str
    confusion_KK: Integers
    known: int
    unknown: int
    of_no_class: int
    values: dict[str, float]
    by_class: list[ClassResult]
    open: OpenSet | None
    intervals: dict[str, Interval] = field(default_factory=dict)


def evaluate_sources(
    scores: SourceScores,
    rejection: Rejection = "probability",
    *,
    speakers: Sequence[str] | None = None,
    replicates: int = 0,
) -> SourceResult:
    """Measure source tracing.

    Args:
        rejection: Score by which unknown sources are rejected.
        speakers: Speaker of each trial: whole speakers are drawn for the intervals; None: trials
            are drawn, separately for known and unknown sources.
        replicates: Number of bootstrap replicates; 0: no intervals.

    Raises:
        AsdfError: no trial has a class that the network knows.
    """
    trials = _Trials.of(scores, rejection)
    # Each trial once.
    values = trials.values(np.ones(len(trials.truths)))
    confusion = trials.confusion(np.ones(len(trials.truths))).astype(np.int64)
    right = np.diag(confusion)  # (K,)
    trials_K = confusion.sum(axis=1)
    # Without calls or trials a rate is 0, as with `zero_division=0`.
    precisions = right / np.maximum(confusion.sum(axis=0), 1)
    recalls = right / np.maximum(trials_K, 1)
    f1s = _f1_of_classes(confusion.astype(np.float64))
    columns = [column.tolist() for column in (precisions, recalls, f1s, trials_K)]
    open_set = None
    if trials.curve is not None:
        # Equations 9 and 10 of Dhamija et al., "Reducing network agnostophobia", NeurIPS 2018: at
        # each threshold, the proportion of known trials that are classified correctly with at least
        # that score is plotted over the proportion of unknown trials with at least that score. From
        # the highest threshold to the lowest, both rates rise along the curve.
        known = trials.is_known
        thresholds = np.unique(trials.scores)[::-1]
        accepted = _rate_at_or_above(trials.scores[~known], thresholds, (~known).sum())
        called = _rate_at_or_above(trials.scores[trials.is_correct], thresholds, known.sum())
        correct_at = []
        for limit in FALSE_POSITIVE_RATES:
            # 0 if even the highest threshold accepts more unknown trials.
            correct_at.append(float(np.append(0.0, called[1:][accepted[1:] <= limit]).max()))
        _, threshold = trials.curve.eer()
        open_set = OpenSet(rejection, threshold, accepted, called, tuple(correct_at))
    intervals = {}
    if replicates:
        # Trials without a class are not drawn.
        kept = None if speakers is None else [speakers[row] for row in trials.rows.tolist()]
        intervals = _intervals(trials, values, kept, replicates)
    return SourceResult(
        classes=scores.classes,
        column=scores.column,
        confusion_KK=confusion,
        known=int(trials.is_known.sum()),
        unknown=int((~trials.is_known).sum()),
        of_no_class=len(scores) - len(trials.truths),
        values=values,
        by_class=[ClassResult(*row) for row in zip(scores.classes, *columns, strict=True)],
        open=open_set,
        intervals=intervals,
    )


def describe_traced(scores: SourceScores | None) -> str:
    """Return ', attack: accuracy 98.00 %, unknown EER 7.00 %'; '' if nothing can be measured."""
    if scores is None or not set(scores.truths) & set(scores.classes):
        return ""
    result = evaluate_sources(scores)
    text = f", {scores.column}: accuracy {100 * result.values['accuracy']:.2f} %"
    if result.open is not None:
        text += f", unknown EER {100 * result.values['unknown_eer']:.2f} %"
    return text


def rejection_scores(scores: SourceScores, rejection: Rejection) -> Floats:
    """Return the score of each trial for the rejection of unknown sources, (trials,)."""
    logs_NK = scores.log_probabilities
    if rejection == "energy":
        return scores.energies
    # Minus the entropy, since it is the low scores that are rejected.
    values: Floats = (np.exp(logs_NK) * logs_NK).sum(axis=1)
    if rejection == "probability":
        values = logs_NK.max(axis=1)
    elif rejection == "logit":
        values = logs_NK.max(axis=1) + scores.energies
    return values


def _f1_of_classes(confusion_KK: Counts) -> Floats:
    both = confusion_KK.sum(axis=1) + confusion_KK.sum(axis=0)
    f1: Floats = 2 * np.diag(confusion_KK) / np.maximum(both, 1)
    return f1


@dataclass(frozen=True, eq=False)
class _Trials:
    """Known and unknown trials, in the order of their file.

    Attributes:
        rows: Rows in the file.
        truths: Index of each trial's class; -1 for unknown classes.
        calls: Index of the class that is predicted for each trial.
        scores: Scores by which unknown sources are rejected.
        curve: DET curve of known against unknown trials; None without unknown trials.
    """

    classes: int
    rows: Integers
    truths: Integers
    calls: Integers
    scores: Floats
    curve: DetCurve | None

    @classmethod
    def of(cls, scores: SourceScores, rejection: Rejection) -> _Trials:
        """Select the trials that have a class, known or not."""
        indices = {name: index for index, name in enumerate(scores.classes)}
        rows = np.array([row for row, name in enumerate(scores.truths) if name != NO_CLASS], int)
        truths = np.array([indices.get(scores.truths[row], -1) for row in rows.tolist()], int)
        if not (truths >= 0).any():
            raise AsdfError(
                f"not one of the {len(scores)} trials is of a class that the network knows "
                f"({', '.join(scores.classes[:8])}). Check the column {scores.column!r} of the "
                "protocol."
            )
        calls = scores.log_probabilities[rows].argmax(axis=1)
        values = rejection_scores(scores, rejection)[rows]
        is_known = truths >= 0
        curve = None if is_known.all() else DetCurve.of(values[is_known], values[~is_known])
        return cls(len(scores.classes), rows, truths, calls, values, curve)

    @cached_property
    def is_known(self) -> Flags:
        return self.truths >= 0

    @cached_property
    def is_correct(self) -> Flags:
        """Whether a trial is known and classified correctly."""
        correct: Flags = self.is_known & (self.truths == self.calls)
        return correct

    @cached_property
    def _blocks(self) -> Blocks:
        assert self.curve is not None
        return into_blocks(self.curve)

    @cached_property
    def _unknown_order(self) -> Indices:
        return np.argsort(self.scores[~self.is_known], kind="stable")

    @cached_property
    def _ranks(self) -> tuple[Indices, Indices]:
        """Numbers of unknown trials that score below each correct trial, and not above it."""
        unknown = self.scores[~self.is_known][self._unknown_order]
        correct = self.scores[self.is_correct]
        below = np.searchsorted(unknown, correct, side="left")
        return below, np.searchsorted(unknown, correct, side="right")

    def confusion(self, weights: Floats) -> Counts:
        """Return the confusion of the known trials, with `weights` as their counts."""
        known = self.is_known
        cells = self.truths[known] * self.classes + self.calls[known]  # row by row
        counts = np.bincount(cells, weights[known], self.classes**2)
        return np.asarray(counts.reshape(self.classes, self.classes), np.float64)

    def values(self, weights: Floats) -> dict[str, float]:
        """Return all metrics of the trials, with `weights` (trials,) as their counts."""
        confusion = self.confusion(weights)
        right, trials_K, calls_K = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
        # As scikit-learn: a class without trials has no recall, one without trials and calls no F1.
        has_trials, occurs = trials_K > 0, trials_K + calls_K > 0
        values = {
            "accuracy": float(right.sum() / confusion.sum()),
            "balanced_accuracy": float((right[has_trials] / trials_K[has_trials]).mean()),
            "macro_f1": float(_f1_of_classes(confusion)[occurs].mean()),
        }
        if self.curve is not None:
            # The EER is located by counting, in integers.
            times = weights.astype(np.int64)
            sums = self._blocks.sums(times[self.is_known], times[~self.is_known])
            values["unknown_eer"] = replicate_eer(sums)
            # The area under CCR over FPR is the proportion of pairs of a known and an unknown trial
            # in which the known trial is classified correctly and scores higher; a tie counts half.
            drawn_unknown = weights[~self.is_known][self._unknown_order]
            totals = np.concatenate([[0.0], np.cumsum(drawn_unknown)])
            below, not_above = self._ranks
            wins = totals[below] + totals[not_above]
            pairs = weights[self.is_known].sum() * totals[-1]
            values["oscr"] = float((weights[self.is_correct] * wins).sum() / 2 / pairs)
        return values


def _rate_at_or_above(scores: Floats, thresholds: Floats, total: int) -> Floats:
    """Return the proportion of `total` at or above each threshold, 0 first: (thresholds + 1,)."""
    below = np.searchsorted(np.sort(scores), thresholds, side="left")
    return np.concatenate([[0.0], (scores.size - below) / total])


def _intervals(
    trials: _Trials, values: dict[str, float], speakers: Sequence[str] | None, replicates: int
) -> dict[str, Interval]:
    """Return the bootstrap intervals of all metrics."""
    groups = None if speakers is None else len(set(speakers))
    if groups == 1:
        # All draws of a single speaker are equal and say nothing about other speakers.
        return {}
    drawn = list(map(trials.values, islice(_draws(trials.is_known, speakers), replicates)))
    known = trials.truths[trials.is_known]
    intervals = {}
    for name, value in values.items():
        # Number of trials without an error that bounds a metric: the fewest that may all be wrong.
        fewest = int(np.unique(known, return_counts=True)[1].min())
        if name == "accuracy":
            fewest = int(known.size)
        elif name in OPEN_METRICS:
            fewest = int(min(known.size, trials.truths.size - known.size))
        of_name = np.array([of_draw[name] for of_draw in drawn])
        intervals[name] = rate_interval(value, of_name, trials=fewest, groups=groups)
    return intervals


def _draws(is_known: Flags, speakers: Sequence[str] | None) -> Iterator[Floats]:
    """Yield how often each trial is drawn: by whole speakers, or known and unknown ones apart."""
    rng = np.random.default_rng(0)
    parts = [part for part in (is_known, ~is_known) if part.any()]
    names, speaker_of_trial = np.unique(np.asarray(speakers or []), return_inverse=True)
    while True:
        weights = np.zeros(len(is_known))
        if speakers is None:
            for part in parts:
                weights[part] = times_drawn(int(part.sum()), rng)
        else:
            weights[:] = times_drawn(names.size, rng)[speaker_of_trial]
        # A draw of speakers that lacks one of the kinds is repeated.
        if all(weights[part].any() for part in parts):
            yield weights


class SourceAccuracy(TaskMetric):
    """The proportion of trials of known sources that are called what they are."""

    task = "sources"
    advice = "set source.column"
    lower_is_better = False

    def of_scores(self, scores: SourceScores) -> float:
        return evaluate_sources(scores).values["accuracy"]


class SourceMacroF1(SourceAccuracy):
    """The macro-F1 of trials of known sources."""

    def of_scores(self, scores: SourceScores) -> float:
        return evaluate_sources(scores).values["macro_f1"]


_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "unknown_eer": "EER of known against unknown",
    "oscr": "OSCR, area",
}
_RATE = rate("rate", digits=3)
# Maximum number of columns of a readable matrix in text; the plot and JSON show larger ones.
_MOST_COLUMNS = 16
_POINTS = 200

_UNIT: dict[str, Any] = {"states_unit": True, "lower_is_better": False}

_CLOSED = (
    rate("accuracy", "Accuracy", **_UNIT),
    rate("balanced_accuracy", "Balanced", in_papers=False, **_UNIT),
    rate("macro_f1", "Macro-F1", **_UNIT),
)
_OPEN = (rate("unknown_eer", "Unknown EER", states_unit=True), rate("oscr", "OSCR", **_UNIT))


def sources_text(title: str, result: SourceResult) -> str:
    """Return the metrics, the classes and the confusion matrix as text, in percent."""
    rows = []
    for name, value in result.values.items():
        interval = result.intervals.get(name)
        between = "" if interval is None else f"[{_RATE.format_bounds(interval, ', ')}]"
        rows.append([f"{_NAMES[name]} %", _RATE.format(value), between])
    if result.open is not None:
        for accepted, value in zip(FALSE_POSITIVE_RATES, result.open.correct_at, strict=True):
            what = f"classified correctly with {100 * accepted:g} % of the unknown accepted, %"
            rows.append([what, _RATE.format(value), ""])
        rows.append([f"rejected by: {result.open.rejection}", "", ""])
    lines = [
        f"{title}: {len(result.classes)} classes of the column {result.column}; {result.known} "
        f"trials of known sources, {result.unknown} of unknown ones, {result.of_no_class} of none",
        *aligned(rows, right={1}),
        "",
        *as_lines(class_table(result, ("class", "trials", "precision", "recall", "F1"))),
    ]
    if len(result.classes) <= _MOST_COLUMNS:
        # A row per true class, a column per predicted class.
        columns = list(map(counts, result.classes, result.confusion_KK.T.tolist()))
        lines += ["", *as_lines(Table(result.classes, columns, "trials of, called"))]
    return "\n".join(lines)


def source_columns(results: Sequence[SourceResult]) -> Columns:
    """Return the columns of some results for pages and papers; open-set ones if any has them."""
    sizes = [len(result.classes) for result in results]
    columns: Columns = [
        texts("Column", each(results, "column"), in_papers=False),
        counts("Classes", sizes, in_papers=False),
        counts("Known", each(results, "known"), in_papers=False),
        counts("Unknown", each(results, "unknown"), in_papers=False),
    ]
    is_open = any(result.open for result in results)
    for column in (*_CLOSED, *(_OPEN if is_open else ())):
        numbers = [result.values.get(column.key) for result in results]
        drawn = [result.intervals.get(column.key) for result in results]
        columns.append((column, Value.with_intervals(numbers, drawn)))
    if is_open:
        rejected = [result.open.rejection if result.open else None for result in results]
        columns.append(texts("Rejected by", rejected, in_papers=False))
    return columns


def sources_record(name: str, set_name: str, result: SourceResult) -> dict[str, Any]:
    """Return all results as plain values, for JSON; the OSCR curve has up to 200 points."""
    record: dict[str, Any] = {
        "system": name,
        "set": set_name,
        "column": result.column,
        "classes": list(result.classes),
        "known": result.known,
        "unknown": result.unknown,
        "of_no_class": result.of_no_class,
        **result.values,
        "by_class": [asdict(entry) for entry in result.by_class],
        "confusion": result.confusion_KK.tolist(),
    }
    if result.open is not None:
        record["rejection"] = result.open.rejection
        record["threshold"] = result.open.threshold
        record["correct_at_false_positives"] = dict(
            zip(map(str, FALSE_POSITIVE_RATES), result.open.correct_at, strict=True)
        )
        # Both ends of the curve are included.
        last = len(result.open.correct_rates) - 1
        # A set, since on a short curve several fall on one point.
        chosen = sorted({round(index * last / _POINTS) for index in range(_POINTS + 1)})
        false_positives = result.open.false_positive_rates[chosen].tolist()
        correct = result.open.correct_rates[chosen].tolist()
        record["oscr_curve"] = list(zip(false_positives, correct, strict=True))
    if result.intervals:
        record["intervals"] = {
            name: [interval.low, interval.high] for name, interval in result.intervals.items()
        }
    return record


def source_result(record: Mapping[str, Any]) -> SourceResult:
    """Return the result that `sources_record` wrote; its OSCR curve has the recorded points.

    Raises:
        ValueError, TypeError, KeyError: the record has another form.
    """
    open_set = None
    metrics = CLOSED_METRICS
    if "rejection" in record:
        metrics += OPEN_METRICS
        curve = np.array(record["oscr_curve"], np.float64)
        correct_at = record["correct_at_false_positives"]
        open_set = OpenSet(
            rejection=str(record["rejection"]),
            threshold=float(record["threshold"]),
            false_positive_rates=curve[:, 0],
            correct_rates=curve[:, 1],
            correct_at=tuple(float(correct_at[str(rate)]) for rate in FALSE_POSITIVE_RATES),
        )
    classes = tuple(map(str, record["classes"]))
    confusion_KK = np.array(record["confusion"], np.int64)
    if confusion_KK.shape != (len(classes), len(classes)):
        raise ValueError(f"a matrix of shape {confusion_KK.shape} for {len(classes)} classes")
    return SourceResult(
        classes=classes,
        column=str(record["column"]),
        confusion_KK=confusion_KK,
        known=int(record["known"]),
        unknown=int(record["unknown"]),
        of_no_class=int(record["of_no_class"]),
        values={name: float(record[name]) for name in metrics},
        by_class=[ClassResult(**entry) for entry in record["by_class"]],
        open=open_set,
        intervals=read_intervals(record),
    )


def confusion_matrix(result: SourceResult, title: str = "") -> Matrix:
    """Return the matrix with the true classes as rows and the predicted classes as columns."""
    counts = result.confusion_KK
    return Matrix(
        result.classes,
        result.classes,
        # A class without a trial has a row of zeros.
        counts / np.maximum(counts.sum(axis=1, keepdims=True), 1),
        np.where(counts > 0, counts.astype(str), "").tolist(),
        title,
        scale="proportion of the row",
        row_heading=result.column,
        column_heading="called",
    )


def confusion_svg(title: str, result: SourceResult, prefix: str = "") -> str:
    """Return the confusion matrix as an SVG, with ids that begin with `prefix`."""
    rows = []
    for name, numbers in zip(result.classes, result.confusion_KK.tolist(), strict=True):
        known = zip(result.classes, numbers, strict=True)
        calls = [f"{other} {count}" for other, count in known if count]
        rows.append(f"{name}: called {', '.join(calls) or 'nothing'}")
    description = f"Rows are the classes of the trials. {'; '.join(rows)}"
    return confusion_matrix(result, title).svg(description, prefix)


def class_table(result: SourceResult, headings: Sequence[str]) -> Table:
    """Return precision, recall and F1 of each class.

    Args:
        headings: Headings of the class, its number of trials, and the three rates.
    """
    known = result.by_class
    name, trials, *rates = headings
    columns: Columns = [counts(trials, each(known, "trials"))]
    for key, heading in zip(("precision", "recall", "f1"), rates, strict=True):
        columns.append(rate(key, heading, 3, states_unit=True).with_values(each(known, key)))
    return Table(each(known, "name"), columns, name)

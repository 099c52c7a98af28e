"""Training courses as points that the page and the plots for papers draw, and the page's JSON.

Invariant: a malformed record, or one without a finite number, is left out of its course; the other
records stay. The JSON is a valid JavaScript literal without `<`, `>` and `&`, so that no name in it
can close its element or open another.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from asdf.report.curves import averaged, thinned
from asdf.report.gathering import Gathered
from asdf.runs.evaluations import Evaluation, metrics_evaluations

Record = dict[str, Any]
"""A line of metrics.jsonl."""
TICKED = 8
"""Number of systems that plots show at first; more lines cannot be distinguished."""


@dataclass(frozen=True)
class TrainingCourse:
    """The training of one run; a course is [epoch, value, epoch, value, ...].

    Attributes:
        smooth_loss: Means of the loss over segments of the course; empty for a short training.
        eers: Course of the EER on each set, in %.
        losses: Course of the training's loss on each set.
        chosen: Epochs whose networks have results that are shown.
        terms: Course of each further term of the training loss, by name.
    """

    name: str
    loss: list[float]
    smooth_loss: list[float]
    learning_rate: list[float]
    eers: dict[str, list[float]]
    chosen: list[float] = field(default_factory=list)
    losses: dict[str, list[float]] = field(default_factory=dict)
    terms: dict[str, list[float]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no course has a point."""
        return not (self.loss or self.learning_rate or self.eers or self.losses)


def training_course(
    name: str, records: Sequence[Record], shown_networks: Sequence[str] = ()
) -> TrainingCourse:
    """Return the course of a run's training from its records.

    Args:
        shown_networks: Names such as 'epoch.20' of the networks whose results are shown.
    """
    evaluations = metrics_evaluations(records)
    epochs, losses = _step_values(records, "loss")
    rate_epochs, rates = _step_values(records, "learning_rate")
    shown = [known.epoch for known in evaluations if str(known.network) in shown_networks]
    terms = {}
    for term in dict.fromkeys(name for record in records for name in _terms_of(record)):
        terms[term] = thinned(*_step_values(records, term, _terms_of))
    return TrainingCourse(
        name=name,
        loss=thinned(epochs, losses),
        smooth_loss=averaged(epochs, losses),
        learning_rate=thinned(rate_epochs, rates),
        # Rounded, because a product has many binary digits that no plot shows.
        eers=_set_courses(evaluations, lambda known: known.eers, lambda eer: round(100 * eer, 6)),
        losses=_set_courses(evaluations, lambda known: known.losses, float),
        chosen=list(filter(is_finite_number, shown)),
        terms={name: points for name, points in terms.items() if points},
    )


def is_finite_number(value: Any) -> TypeGuard[float]:
    """Whether a value of a record can be drawn."""
    # Any comparison with NaN is False.
    return isinstance(value, int | float) and abs(value) < float("inf")


def _terms_of(record: Record) -> Record:
    """Return the values of the terms in a record of a step, by name."""
    terms = record.get("terms")
    return terms if record.get("kind") == "step" and isinstance(terms, dict) else {}


def _step_values(
    records: Iterable[Record], name: str, part: Callable[[Record], Record] = dict
) -> tuple[list[float], list[float]]:
    """Return the epochs and values of the training steps with finite values.

    A diverged loss is not finite.

    Args:
        part: Function that returns the part of a record with the value.
    """
    epochs: list[float] = []
    values: list[float] = []
    for record in records:
        epoch = record.get("epoch")
        value = part(record).get(name)
        if record.get("kind") != "step":
            continue
        if is_finite_number(epoch) and is_finite_number(value):
            epochs.append(epoch)
            values.append(value)
    return epochs, values


def _set_courses(
    evaluations: Iterable[Evaluation],
    values: Callable[[Evaluation], Mapping[str, float]],
    shown: Callable[[float], float],
) -> dict[str, list[float]]:
    """Return the course of a value on each set, as shown."""
    courses: dict[str, list[float]] = {}
    for evaluation in evaluations:
        if not is_finite_number(evaluation.epoch):
            continue
        for set_name, value in values(evaluation).items():
            if is_finite_number(value):
                courses.setdefault(set_name, []).extend([evaluation.epoch, shown(value)])
    return courses


_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def as_json(value: Any) -> str:
    """Return the value as text for `<script type="application/json">`, keeping the order of keys.

    Raises:
        ValueError: a number is not finite.
    """
    # NaN is not valid JSON: the page's script would stop there silently.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def page_data(gathered: Gathered) -> dict[str, Any]:
    """Return the data of the page's script; rates and EERs are in %."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for name in gathered.sets:
        sets[name] = []
        for measured in gathered.on(name):
            # The curves of all spoofs, named '', and of the attacks that fit on the page.
            curves = {name: measured.curves[name] for name in ("", *measured.page_attacks)}
            rates = {name: curve.rates for name, curve in curves.items()}
            thresholds = {name: curve.thresholds for name, curve in curves.items()}
            sets[name].append({"curves": rates, "thresholds": thresholds})
    runs = []
    for course in training_courses(gathered):
        # By the words of `Line.series`.
        values = {"loss": course.loss, "rate": course.learning_rate, "eer": course.eers}
        further = {"losses": course.losses, "term": course.terms}
        runs.append({"name": course.name, **values, **further})
    return {
        "systems": gathered.systems,
        "labels": gathered.labels,
        "ticked": gathered.systems[:TICKED],
        "hidden": sorted(hidden_names(gathered)),
        "sets": sets,
        "runs": runs,
    }


def hidden_names(gathered: Gathered) -> set[str]:
    """Return the systems and runs that plots hide until they are ticked."""
    # If several networks of one run are systems, their names are longer than the run's.
    runs = [name for name in gathered.names if name not in gathered.systems]
    return {*gathered.systems[TICKED:], *runs[TICKED:]}


def training_courses(gathered: Gathered) -> list[TrainingCourse]:
    """Return the training course of each run."""
    return [
        training_course(name, run.training(), gathered.networks_of(index))
        for index, (name, run) in enumerate(zip(gathered.names, gathered.runs, strict=True))
    ]

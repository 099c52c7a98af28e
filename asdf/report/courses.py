"""How trainings went, as courses of points that the page and the plots for papers draw.

Invariant: a record that is malformed, or has no finite number, is left out of the course that it
would belong to; the others stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from asdf.report.curves import averaged, thinned

Record = Mapping[str, Any]
"""A line of metrics.jsonl."""


@dataclass(frozen=True)
class TrainingCourse:
    """The training of one run; a course is [epoch, value, epoch, value, ...].

    Attributes:
        smooth_loss: the means of stretches of the loss; empty for a short training.
        eers: set -> the course of the EER on it, in %.
        chosen: the epochs after which the networks were written whose results are shown.
    """

    name: str
    loss: list[float]
    smooth_loss: list[float]
    learning_rate: list[float]
    eers: dict[str, list[float]]
    chosen: list[float] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Whether no course has a point."""
        return not (self.loss or self.learning_rate or self.eers)


def training_course(
    name: str, records: Sequence[Record], shown_networks: Iterable[str] = ()
) -> TrainingCourse:
    """Return the course of a run's training from its records.

    Args:
        shown_networks: 'epoch.20', ...: those whose results are shown.
    """
    epochs, losses = _step_values(records, "loss")
    rate_epochs, rates = _step_values(records, "learning_rate")
    return TrainingCourse(
        name=name,
        loss=thinned(epochs, losses),
        smooth_loss=averaged(epochs, losses),
        learning_rate=thinned(rate_epochs, rates),
        eers=_eer_courses(records),
        chosen=_chosen_epochs(records, set(shown_networks)),
    )


def evaluation_records(records: Iterable[Record]) -> list[Record]:
    """Return the records of evaluations that hold EERs."""
    evaluations = []
    for record in records:
        if record.get("kind") == "evaluation" and isinstance(record.get("eer"), dict):
            evaluations.append(record)
    return evaluations


def network_of(record: Record) -> str:
    """Return the network that an evaluation is of, such as 'epoch.20'; '' if the record has none."""
    network = record.get("network")
    if network is None:
        return ""
    return str(network).removesuffix(".pt")


def is_finite_number(value: Any) -> TypeGuard[float]:
    """Whether a value of a record can be drawn."""
    return isinstance(value, int | float) and abs(value) < float("inf")


def _step_values(records: Iterable[Record], name: str) -> tuple[list[float], list[float]]:
    """Return the epochs and values of the training steps that have both; a loss may diverge."""
    epochs: list[float] = []
    values: list[float] = []
    for record in records:
        epoch = record.get("epoch")
        value = record.get(name)
        if record.get("kind") != "step":
            continue
        if is_finite_number(epoch) and is_finite_number(value):
            epochs.append(epoch)
            values.append(value)
    return epochs, values


def _eer_courses(records: Iterable[Record]) -> dict[str, list[float]]:
    courses: dict[str, list[float]] = {}
    for record in evaluation_records(records):
        epoch = record.get("epoch")
        for set_name, eer in record["eer"].items():
            if is_finite_number(epoch) and is_finite_number(eer):
                courses.setdefault(set_name, []).extend([epoch, round(100 * eer, 6)])
    return courses


def _chosen_epochs(records: Iterable[Record], networks: set[str]) -> list[float]:
    epochs: list[float] = []
    for record in evaluation_records(records):
        epoch = record.get("epoch")
        if network_of(record) in networks and is_finite_number(epoch):
            epochs.append(epoch)
    return epochs

"""The EERs of a run's networks on its validation sets, and which network is the best by them.

Invariant: whoever asks for the best network, the first validation set decides, by the one rule of
`best_first`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.json_lines import read_json_lines
from asdf.runs.layout import Layout
from asdf.runs.log import LOG
from asdf.runs.network_names import NetworkName

# The first versions recorded no precision and computed in this one.
_FIRST_PRECISION = "fp32"


def first_eer(eers: Mapping[str, float]) -> float:
    """Return the EER on the first of the validation sets."""
    return next(iter(eers.values()))


@dataclass(frozen=True)
class Evaluation:
    """A network's results on the validation sets.

    Attributes:
        step: optimiser steps of the run up to the network.
        epoch: the same in epochs, 2.5 in the middle of the third; None where a record does not say.
        eers: EER (a fraction) by validation set, in the order of `recipe.validation_sets`; never
            empty.
        scoring_precision: what the scores were computed in; None where a record does not say.
    """

    step: int
    epoch: float | None
    network: NetworkName
    eers: dict[str, float]
    scoring_precision: str | None = None

    @property
    def first(self) -> float:
        """The EER on the first validation set, by which networks are chosen."""
        return first_eer(self.eers)

    def record(self) -> dict[str, Any]:
        """Return the evaluation as evaluations.json, metrics.jsonl and callbacks have it."""
        record: dict[str, Any] = {"step": self.step}
        if self.epoch is not None:
            record["epoch"] = self.epoch
        record["network"] = self.network.file
        record["eer"] = dict(self.eers)
        if self.scoring_precision is not None:
            record["scoring_precision"] = self.scoring_precision
        return record

    @classmethod
    def from_record(cls, record: Any) -> Evaluation | None:
        """Return the evaluation that `record` describes, or None if it describes none."""
        if not isinstance(record, dict):
            return None
        step, network, eers = (record.get(name) for name in ("step", "network", "eer"))
        if not isinstance(step, int) or not isinstance(network, str):
            return None
        if not isinstance(eers, dict) or not eers:
            return None
        if not all(isinstance(eer, float | int) for eer in eers.values()):
            return None
        name = NetworkName.parse(network)
        return cls(step, record.get("epoch"), name, eers, record.get("scoring_precision"))


def evaluations_in(records: Iterable[Any]) -> list[Evaluation]:
    """Return the evaluations among `records`; the others are left out."""
    evaluations = (Evaluation.from_record(record) for record in records)
    return [evaluation for evaluation in evaluations if evaluation is not None]


def metrics_evaluations(records: Iterable[dict[str, Any]]) -> list[Evaluation]:
    """Return the evaluations among the lines of metrics.jsonl."""
    return evaluations_in(record for record in records if record.get("kind") == "evaluation")


def best_first(evaluations: Iterable[Evaluation]) -> list[Evaluation]:
    """Return the evaluations from the lowest EER on the first validation set to the highest.

    Of equal EERs the later network comes first: it has been trained for longer.
    """
    return sorted(evaluations, key=lambda evaluation: (evaluation.first, -evaluation.step))


@dataclass(frozen=True)
class Improvement:
    """The evaluation that reached the lowest EER first, and the number of evaluations after it."""

    evaluation: Evaluation
    evaluations_since: int


def last_improvement(evaluations: list[Evaluation]) -> Improvement:
    """Return when the EER on the first validation set last became lower, for stopping early.

    Unlike `best_first`, the first of equal EERs counts: to reach the same EER again is no
    improvement.

    Args:
        evaluations: in the order of training, at least one.
    """
    eers = [evaluation.first for evaluation in evaluations]
    index = eers.index(min(eers))
    return Improvement(evaluations[index], len(evaluations) - 1 - index)


def write_evaluations(layout: Layout, evaluations: list[Evaluation]) -> None:
    """Write networks/evaluations.json.

    Raises:
        AsdfError: it cannot be written.
    """
    records = [evaluation.record() for evaluation in evaluations]
    write_text(layout.evaluations, json.dumps(records, indent=1) + "\n")


def read_evaluations(layout: Layout) -> list[Evaluation]:
    """Return what `write_evaluations` wrote; an empty list where there is no such file.

    Instead of a damaged file metrics.jsonl is read, with a warning: each evaluation is a line of
    it as well.

    Raises:
        AsdfError: the file is damaged, and metrics.jsonl holds no evaluations.
    """
    path = layout.evaluations
    try:
        records = json.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        return _recover_evaluations(layout, f"cannot be read ({error})")
    if isinstance(records, list):
        evaluations = evaluations_in(records)
        # A list with one damaged record might leave out the best network.
        if len(evaluations) == len(records):
            return evaluations
    return _recover_evaluations(layout, "is no list of evaluations")


def _recover_evaluations(layout: Layout, damage: str) -> list[Evaluation]:
    """Return the evaluations that metrics.jsonl holds; `damage` says why they are needed."""
    # Not begun anew: without its history the run would choose and remove other networks.
    evaluations = metrics_evaluations(read_json_lines(layout.metrics))
    if not evaluations:
        raise AsdfError(
            f"{layout.evaluations} {damage}, and {layout.metrics} has no evaluations to replace "
            "them. Get the file from a backup, or remove it: the networks then count as not "
            "evaluated, and none of them can be the best."
        )
    LOG.warning(
        "warning: %s %s; its %d evaluations are read from %s",
        layout.evaluations,
        damage,
        len(evaluations),
        layout.metrics,
    )
    return evaluations


def evaluated_networks(layout: Layout) -> list[NetworkName]:
    """Return the networks that have been evaluated and still exist, best first.

    Raises:
        AsdfError: as `read_evaluations`.
    """
    names = [evaluation.network for evaluation in best_first(read_evaluations(layout))]
    return [name for name in names if layout.network_file(name).exists()]


def other_precisions(evaluations: list[Evaluation], precision: str) -> str:
    """Return a remark if EERs were computed in other precisions than `precision`, else ''."""
    precisions = (item.scoring_precision or _FIRST_PRECISION for item in evaluations)
    others = [name for name in dict.fromkeys(precisions) if name != precision]
    if not others:
        return ""
    return (
        "networks were validated with computing.scoring_precision = "
        f"{', '.join(map(repr, others))} so far, from here on {precision!r}: small differences "
        "between their EERs, by which the best is chosen, may come from that"
    )

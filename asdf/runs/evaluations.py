"""The results of a run's networks on its validation sets, and which network is the best by them.

Invariant: whoever needs the best network, `network.validation_metric` on the first validation
set decides, by the one rule of `best_first`. Only values of one metric on one set are compared, and
only those of the same recordings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.json_lines import read_json_lines
from asdf.runs.layout import Layout
from asdf.runs.log import LOG
from asdf.runs.network_names import NetworkName
from asdf.text import and_more

# The first versions recorded no precision and computed in this one.
_FIRST_PRECISION = "fp32"
# The default of `network.validation_metric`, and what every record has.
EER = "eer"
_SHOWN = 5


def first_value(values: Mapping[str, float]) -> float:
    """Return the value on the first of the validation sets."""
    return next(iter(values.values()))


@dataclass(frozen=True)
class ChosenBy:
    """The metric that networks are chosen by, where it is not the EER, and its values.

    Attributes:
        metric: Metric as `network.validation_metric` names it.
        values: Values by validation set, as the EERs.
    """

    metric: str
    values: dict[str, float]
    lower_is_better: bool = True


@dataclass(frozen=True)
class ValidationResult:
    """What a validation computes: EERs by set, at least one, and what networks are chosen by.

    Attributes:
        recordings: digests of the sets' recordings; empty where they were not computed.
        losses: means of the training's loss by set; sets of which it is not known are left out.
    """

    eers: dict[str, float]
    chosen_by: ChosenBy | None = None
    recordings: Mapping[str, str] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """A network's results on the validation sets.

    Attributes:
        step: optimiser steps of the run up to the network.
        epoch: the same in epochs, 2.5 in the middle of the third; None where a record does not say.
        eers: EER (a fraction) by validation set, in the order of `recipe.validation_sets`; never
            empty.
        scoring_precision: Precision that the scores were computed in; None where a record does not
            say.
        chosen_by: the metric by which networks were chosen then; None for the EER.
        recordings: digests of the sets' recordings; empty where a record does not say.
        stale: sets whose recordings have been replaced since.
        losses: means of the training's loss by validation set; those not known are left out.
    """

    step: int
    epoch: float | None
    network: NetworkName
    eers: dict[str, float]
    scoring_precision: str | None = None
    chosen_by: ChosenBy | None = None
    recordings: Mapping[str, str] = field(default_factory=dict)
    stale: tuple[str, ...] = ()
    losses: Mapping[str, float] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The metric by which networks were chosen then."""
        return self.chosen_by.metric if self.chosen_by else EER

    def values(self, metric: str) -> Mapping[str, float]:
        """Return the values of a metric by validation set; none where it was not computed."""
        if metric == EER:
            return self.eers
        if self.chosen_by is not None and self.chosen_by.metric == metric:
            return self.chosen_by.values
        return {}

    def cost(self, metric: str, set_name: str) -> float | None:
        """Return a number that is lower for a better network; None where it is not known."""
        value = self.values(metric).get(set_name)
        if value is None or metric == EER or self.chosen_by is None:
            return value
        return value if self.chosen_by.lower_is_better else -value

    def record(self) -> dict[str, Any]:
        """Return the evaluation as evaluations.json, metrics.jsonl and callbacks have it."""
        record: dict[str, Any] = {"step": self.step}
        if self.epoch is not None:
            record["epoch"] = self.epoch
        record["network"] = self.network.file
        record["eer"] = dict(self.eers)
        if self.losses:
            record["validation_loss"] = dict(self.losses)
        if self.scoring_precision is not None:
            record["scoring_precision"] = self.scoring_precision
        chosen_by = self.chosen_by
        if chosen_by is not None:
            record["validation_metric"] = chosen_by.metric
            record["lower_is_better"] = chosen_by.lower_is_better
            record[chosen_by.metric] = dict(chosen_by.values)
        if self.recordings:
            record["recordings"] = dict(self.recordings)
        if self.stale:
            record["stale"] = list(self.stale)
        return record

    @classmethod
    def from_record(cls, record: Any) -> Evaluation | None:
        """Return the evaluation that `record` describes, or None if it describes none."""
        if not isinstance(record, dict):
            return None
        step, network, eers = (record.get(name) for name in ("step", "network", "eer"))
        if not isinstance(step, int) or not isinstance(network, str):
            return None
        if not _are_values(eers):
            return None
        chosen_by = None
        metric = record.get("validation_metric")
        if metric is not None:
            values = record.get(metric) if isinstance(metric, str) else None
            if not _are_values(values):
                return None
            chosen_by = ChosenBy(metric, values, bool(record.get("lower_is_better", True)))
        name = NetworkName.parse(network)
        precision = record.get("scoring_precision")
        recordings = record.get("recordings")
        if not isinstance(recordings, dict):
            recordings = {}
        stale = record.get("stale")
        losses = record.get("validation_loss")
        return cls(
            step=step,
            epoch=record.get("epoch"),
            network=name,
            eers=eers,
            scoring_precision=precision,
            chosen_by=chosen_by,
            recordings=recordings,
            stale=tuple(map(str, stale)) if isinstance(stale, list) else (),
            losses=losses if _are_values(losses) else {},
        )


def _are_values(entry: Any) -> TypeGuard[dict[str, float]]:
    """Return whether an entry of a record has the values of a metric by set."""
    if not isinstance(entry, dict) or not entry:
        return False
    return all(isinstance(value, float | int) for value in entry.values())


def evaluations_in(records: Iterable[Any]) -> list[Evaluation]:
    """Return the evaluations among `records`; the others are left out."""
    evaluations = (Evaluation.from_record(record) for record in records)
    return [evaluation for evaluation in evaluations if evaluation is not None]


def metrics_evaluations(records: Iterable[dict[str, Any]]) -> list[Evaluation]:
    """Return the evaluations among the lines of metrics.jsonl."""
    return evaluations_in(record for record in records if record.get("kind") == "evaluation")


@dataclass(frozen=True)
class _Judged:
    """An evaluation with the number by which it is compared, the lower the better."""

    evaluation: Evaluation
    cost: float


def _judge(evaluations: Iterable[Evaluation], metric: str | None) -> list[_Judged]:
    """Return the evaluations that have a value of the metric on one set, in their order.

    The set is the first one of the latest evaluation that has the metric. A run that was restarted
    with another metric, other sets or other recordings has evaluations that say nothing by these.

    Args:
        metric: None: that of the latest evaluation.
    """
    evaluations = list(evaluations)
    newest_first = sorted(evaluations, key=lambda evaluation: evaluation.step, reverse=True)
    if metric is None and newest_first:
        metric = newest_first[0].metric
    metric = metric or EER
    latest = next((known for known in newest_first if known.values(metric)), None)
    if latest is None:
        return []
    set_name = next(iter(latest.values(metric)))
    recordings = latest.recordings.get(set_name)
    judged = []
    for evaluation in evaluations:
        cost = evaluation.cost(metric, set_name)
        is_of_others = recordings not in (None, evaluation.recordings.get(set_name, recordings))
        if cost is not None and not is_of_others:
            judged.append(_Judged(evaluation, cost))
    return judged


def best_first(evaluations: Iterable[Evaluation], metric: str | None = None) -> list[Evaluation]:
    """Return the evaluations from the best on the first validation set to the worst.

    Of equals the later network comes first: it has been trained for longer. Evaluations that do not
    know the metric are left out.

    Args:
        metric: None: that of the latest evaluation.
    """
    judged = _judge(evaluations, metric)
    judged.sort(key=lambda known: (known.cost, -known.evaluation.step))
    return [known.evaluation for known in judged]


@dataclass(frozen=True)
class Improvement:
    """The evaluation that reached the best value first, and the number of evaluations after it."""

    evaluation: Evaluation
    evaluations_since: int


def best_network(training: list[dict[str, Any]], networks: Sequence[str]) -> str | None:
    """Return the network that is the best on the first validation set, by the rule of `best_first`.

    Without an evaluation of any of `networks` it is the last one; None if there is none.
    """
    for evaluation in best_first(metrics_evaluations(training)):
        if str(evaluation.network) in networks:
            return str(evaluation.network)
    return networks[-1] if networks else None


def last_improvement(
    evaluations: list[Evaluation], metric: str | None = None
) -> Improvement | None:
    """Return when the metric on the first validation set last improved, for stopping early.

    Unlike `best_first`, the first of equals counts: the same EER again is not an improvement.

    Args:
        evaluations: Evaluations in the order of training.
        metric: None: that of the latest evaluation.

    Returns:
        None where no evaluation knows the metric.
    """
    judged = _judge(evaluations, metric)
    if not judged:
        return None
    costs = [known.cost for known in judged]
    index = costs.index(min(costs))
    return Improvement(judged[index].evaluation, len(judged) - 1 - index)


def mark_stale(
    evaluations: Iterable[Evaluation], recordings: Mapping[str, str]
) -> list[Evaluation]:
    """Return the evaluations, each with those of its sets whose recordings are others now.

    Args:
        recordings: digests of the sets' recordings now; of other sets the marks stay.
    """
    marked = []
    for evaluation in evaluations:
        stale = [name for name in evaluation.stale if name not in recordings]
        for name, digest in recordings.items():
            if evaluation.recordings.get(name, digest) != digest:
                stale.append(name)
        marked.append(replace(evaluation, stale=tuple(stale)))
    return marked


def describe_stale(evaluations: Iterable[Evaluation]) -> list[str]:
    """Return a sentence for each set of which some evaluations are stale."""
    by_set: dict[str, list[str]] = {}
    for evaluation in evaluations:
        for name in evaluation.stale:
            by_set.setdefault(name, []).append(str(evaluation.network))
    sentences = []
    for name, networks in by_set.items():
        sentences.append(
            f"recordings of {name} have been replaced since the validation of "
            f"{and_more(networks, _SHOWN)}, which is stale: its results are not compared with "
            "those of the recordings as they are now"
        )
    return sentences


def other_metrics(evaluations: list[Evaluation], metric: str) -> str:
    """Return a remark if networks were validated without `metric`, else ''."""
    without = [known for known in evaluations if not known.values(metric)]
    if not without:
        return ""
    return (
        f"{len(without)} of the {len(evaluations)} networks so far were validated by "
        f"{without[-1].metric}, without network.validation_metric = {metric!r}: none of these can "
        "be the best by it, and an early stop does not count them"
    )


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
    return _recover_evaluations(layout, "is not a list of evaluations")


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


def evaluated_networks(layout: Layout, metric: str | None = None) -> list[NetworkName]:
    """Return the networks that have been evaluated by `metric` and still exist, best first.

    Args:
        metric: None: that of the latest evaluation.

    Raises:
        AsdfError: as `read_evaluations`.
    """
    names = [evaluation.network for evaluation in best_first(read_evaluations(layout), metric)]
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
        "between their EERs, by which the best is chosen, may come from that. To go on as before "
        f"set computing.scoring_precision = {others[-1]!r}"
    )

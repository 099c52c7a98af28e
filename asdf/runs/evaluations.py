"""The results of a run's networks on its validation sets, and the choice of the best network.

Invariant: the best network is chosen everywhere by `best_first`, from `network.validation_metric`
on the first validation set. Only values of the same metric on the same set and the same recordings
are compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from asdf.errors import AsdfError
from asdf.runs.files import read_json_lines, write_text
from asdf.runs.layout import Layout, NetworkName
from asdf.runs.log import LOG
from asdf.text import and_more

# The first versions recorded no precision and computed in this one.
_FIRST_PRECISION = "fp32"
# The default of `network.validation_metric`, present in every record.
EER = "eer"
_SHOWN = 5


def first_value(values: Mapping[str, float]) -> float:
    """Return the value on the first validation set."""
    return next(iter(values.values()))


@dataclass(frozen=True)
class ChosenBy:
    """The metric that networks are chosen by, if it is not the EER, and its values.

    Attributes:
        metric: Metric as `network.validation_metric` names it.
        values: Values by validation set.
    """

    metric: str
    values: dict[str, float]
    lower_is_better: bool = True


@dataclass(frozen=True)
class ValidationResult:
    """The results of a validation: EERs by set, at least one, and the metric of the choice.

    Attributes:
        recordings: Digests of the sets' recordings; empty if they were not computed.
        losses: Mean training loss by set; sets without a known loss are left out.
    """

    eers: dict[str, float]
    chosen_by: ChosenBy | None = None
    recordings: Mapping[str, str] = field(default_factory=dict)
    losses: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """A network's results on the validation sets.

    Attributes:
        step: Optimiser steps of the run up to this network.
        epoch: Epochs up to this network, such as 2.5 in the middle of the third; None if a record
            does not state it.
        eers: EER (a fraction) by validation set, in the order of `recipe.validation_sets`; never
            empty.
        scoring_precision: Precision of the computation of scores; None if a record does not state
            it.
        chosen_by: Metric by which networks were chosen then; None for the EER.
        recordings: Digests of the sets' recordings; empty if a record does not state them.
        stale: Sets whose recordings have been replaced since.
        losses: Mean training loss by validation set; sets without a known loss are left out.
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
        """Return the values of a metric by validation set; empty if it was not computed."""
        if metric == EER:
            return self.eers
        if self.chosen_by is not None and self.chosen_by.metric == metric:
            return self.chosen_by.values
        return {}

    def cost(self, metric: str, set_name: str) -> float | None:
        """Return a number that is lower for a better network; None if it is unknown."""
        value = self.values(metric).get(set_name)
        if value is None or metric == EER or self.chosen_by is None:
            return value
        return value if self.chosen_by.lower_is_better else -value

    def record(self) -> dict[str, Any]:
        """Return the evaluation in the form of evaluations.json and metrics.jsonl."""
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
        """Return the evaluation that `record` describes, or None if it is not an evaluation."""
        if not isinstance(record, dict):
            return None
        names = ("step", "network", "eer", "validation_metric", "validation_loss")
        entries: tuple[Any, ...] = tuple(map(record.get, names))
        step, network, eers, metric, losses = entries
        values: Any = None if metric is None else record.get(str(metric))
        is_whole = isinstance(step, int) and isinstance(network, str) and _are_values(eers)
        if not is_whole or (metric is not None and not _are_values(values)):
            return None
        chosen_by = None
        if metric is not None:
            chosen_by = ChosenBy(metric, values, bool(record.get("lower_is_better", True)))
        return cls(
            step=step,
            epoch=record.get("epoch"),
            network=NetworkName.parse(network),
            eers=eers,
            scoring_precision=record.get("scoring_precision"),
            chosen_by=chosen_by,
            recordings=record.get("recordings", {}),
            stale=tuple(record.get("stale", ())),
            losses=losses if _are_values(losses) else {},
        )


def _are_values(entry: Any) -> TypeGuard[dict[str, float]]:
    """Return whether an entry of a record holds the values of a metric by set."""
    if not isinstance(entry, dict) or not entry:
        return False
    return all(isinstance(value, float | int) for value in entry.values())


def evaluations_in(records: Iterable[Any]) -> list[Evaluation]:
    """Return the evaluations among `records`, skipping other records."""
    evaluations = (Evaluation.from_record(record) for record in records)
    return [evaluation for evaluation in evaluations if evaluation is not None]


def metrics_evaluations(records: Iterable[dict[str, Any]]) -> list[Evaluation]:
    """Return the evaluations among the lines of metrics.jsonl."""
    return evaluations_in(record for record in records if record.get("kind") == "evaluation")


def _with_costs(
    evaluations: Iterable[Evaluation], metric: str | None
) -> list[tuple[float, Evaluation]]:
    """Return the evaluations that have a value of the metric on one set, with their costs.

    The set is the first one of the latest evaluation that has the metric. A run restarted with
    another metric, other sets or other recordings has evaluations that cannot be compared.

    Args:
        metric: Metric to compare; None for that of the latest evaluation.
    """
    evaluations = list(evaluations)
    newest_first = sorted(evaluations, key=lambda evaluation: evaluation.step, reverse=True)
    if metric is None and newest_first:
        metric = newest_first[0].metric
    metric = metric or EER
    latest = next((one for one in newest_first if one.values(metric)), None)
    if latest is None:
        return []
    set_name = next(iter(latest.values(metric)))
    recordings = latest.recordings.get(set_name)
    known = []
    for evaluation in evaluations:
        cost = evaluation.cost(metric, set_name)
        # Evaluations of earlier versions, without digests, count as of the same recordings.
        is_of_others = recordings not in (None, evaluation.recordings.get(set_name, recordings))
        if cost is not None and not is_of_others:
            known.append((cost, evaluation))
    return known


def best_first(evaluations: Iterable[Evaluation], metric: str | None = None) -> list[Evaluation]:
    """Return the evaluations from the best on the first validation set to the worst.

    Of equal networks, the later one comes first, since it has been trained for longer. Evaluations
    without the metric are left out.

    Args:
        metric: Metric to compare; None for that of the latest evaluation.
    """
    known = _with_costs(evaluations, metric)
    known.sort(key=lambda entry: (entry[0], -entry[1].step))
    return [evaluation for _, evaluation in known]


@dataclass(frozen=True)
class Improvement:
    """The first evaluation with the best value, and the number of evaluations after it."""

    evaluation: Evaluation
    evaluations_since: int


def best_network(training: list[dict[str, Any]], networks: Sequence[str]) -> str | None:
    """Return the best network on the first validation set, as defined by `best_first`.

    If none of `networks` was evaluated, it is the last one; None without networks.
    """
    for evaluation in best_first(metrics_evaluations(training)):
        if str(evaluation.network) in networks:
            return str(evaluation.network)
    return networks[-1] if networks else None


def last_improvement(
    evaluations: list[Evaluation], metric: str | None = None
) -> Improvement | None:
    """Return when the metric on the first validation set last improved, for early stopping.

    Unlike in `best_first`, the first of equal networks counts: repeating an EER is no improvement.

    Args:
        evaluations: Evaluations in the order of training.
        metric: Metric to compare; None for that of the latest evaluation.

    Returns:
        Latest improvement; None if no evaluation has the metric.
    """
    known = _with_costs(evaluations, metric)
    if not known:
        return None
    costs = [cost for cost, _ in known]
    index = costs.index(min(costs))
    return Improvement(known[index][1], len(known) - 1 - index)


def mark_stale(
    evaluations: Iterable[Evaluation], recordings: Mapping[str, str]
) -> list[Evaluation]:
    """Return the evaluations, marking the sets whose recordings have changed.

    Args:
        recordings: Current digests of the sets' recordings; the marks of other sets stay.
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
    """Return a sentence for each set with stale evaluations."""
    by_set: dict[str, list[str]] = {}
    for evaluation in evaluations:
        for name in evaluation.stale:
            by_set.setdefault(name, []).append(str(evaluation.network))
    sentences = []
    for name, networks in by_set.items():
        sentences.append(
            f"recordings of {name} have been replaced since the validation of "
            f"{and_more(networks, _SHOWN)}, which is stale: its results are not compared with "
            "those of the present recordings"
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
    """Return the evaluations in networks/evaluations.json; empty if the file does not exist.

    A damaged file is replaced, with a warning, by metrics.jsonl, which also has a line for each
    evaluation.

    Raises:
        AsdfError: the file is damaged, and metrics.jsonl holds no evaluations.
    """
    path = layout.evaluations
    damage = "is not a list of evaluations"
    try:
        records = json.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        records, damage = None, f"cannot be read ({error})"
    if isinstance(records, list):
        evaluations = evaluations_in(records)
        # A list with one damaged record might lack the best network.
        if len(evaluations) == len(records):
            return evaluations
    # Starting over without history would choose and remove other networks.
    evaluations = metrics_evaluations(read_json_lines(layout.metrics))
    if not evaluations:
        raise AsdfError(
            f"{path} {damage}, and {layout.metrics} has no evaluations to replace them. Restore "
            "the file from a backup, or remove it: the networks then count as not evaluated, and "
            "none of them can be the best."
        )
    words = "warning: %s %s; its %d evaluations are read from %s"
    LOG.warning(words, path, damage, len(evaluations), layout.metrics)
    return evaluations


def evaluated_networks(layout: Layout, metric: str | None = None) -> list[NetworkName]:
    """Return the existing networks that were evaluated by `metric`, best first.

    Args:
        metric: Metric to compare; None for that of the latest evaluation.

    Raises:
        AsdfError: as `read_evaluations`.
    """
    names = [evaluation.network for evaluation in best_first(read_evaluations(layout), metric)]
    return [name for name in names if layout.network_file(name).exists()]


def other_precisions(evaluations: list[Evaluation], precision: str) -> str:
    """Return a remark if EERs were computed in another precision than `precision`, else ''."""
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

"""Trainings of the runs: how each one ended, its course, and its evaluations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import starmap

from asdf.report.courses import Record, is_finite_number
from asdf.report.drawing import Figure, training_figure
from asdf.report.gathering import Gathered
from asdf.runs.evaluations import Evaluation, metrics_evaluations
from asdf.tables.page_cells import PageTable, as_page
from asdf.tables.table import Column, Columns, Table, Value, counts, each, rate, texts
from asdf.text import count_of
from asdf.trials.how_scored import in_precision
from asdf.trials.run_folder import RunFolder

# If more runs ended alike, they are counted, and listed on request.
_FEW_RUNS = 3


@dataclass(frozen=True)
class EndedAlike:
    """Runs whose training ended for the same reason."""

    reason: str
    names: list[str]

    @property
    def is_folded(self) -> bool:
        """Whether there are too many runs to list at once."""
        return len(self.names) > _FEW_RUNS


@dataclass(frozen=True)
class TrainingSection:
    """The content of the page about the trainings."""

    ends: list[EndedAlike]
    plot: Figure
    evaluations: PageTable


def training_section(gathered: Gathered) -> TrainingSection | None:
    """Return the courses and ends of the trainings; None if no run recorded one."""
    records = list(map(RunFolder.training, gathered.runs))
    if not any(records):
        return None
    groups: dict[str, list[str]] = {}
    for name, training in zip(gathered.names, records, strict=True):
        groups.setdefault(_describe_end(training), []).append(name)
    return TrainingSection(
        ends=list(starmap(EndedAlike, groups.items())),
        plot=training_figure(gathered),
        evaluations=_evaluations_table(gathered, records),
    )


def _describe_end(training: Sequence[Record]) -> str:
    """Return 'ended after 4 epochs (network.max_epochs)' for 'network.max_epochs = 4'."""
    ends = [record for record in training if record.get("kind") == "end"]
    if not ends:
        return "still running, or killed"
    # A run that was started again has an end for each start.
    reason = str(ends[-1].get("reason") or "")
    limit = re.fullmatch(r"(network\.max_(epoch|step)s) = (\d+)", reason)
    if limit is None:
        return f"ended: {reason}"
    setting, unit, digits = limit.groups()
    return f"ended after {count_of(int(digits), unit)} ({setting})"


def _evaluations_table(gathered: Gathered, records: Sequence[Sequence[Record]]) -> PageTable:
    """Return the evaluations during training, run by run."""
    names = []
    evaluations = []
    for name, run, training in zip(gathered.names, gathered.runs, records, strict=True):
        stale = {known.step: known.stale for known in run.evaluations()}
        for evaluation in metrics_evaluations(training):
            names.append(name)
            # Evaluations are marked if they have become stale since.
            marked = replace(evaluation, stale=stale.get(evaluation.step, ()))
            evaluations.append(marked)
    columns: Columns = [
        texts("Network", [str(evaluation.network) for evaluation in evaluations]),
        Column("epoch", "Epoch", is_count=True).with_values(each(evaluations, "epoch")),
        counts("Step", each(evaluations, "step")),
        *_result_columns(evaluations),
    ]
    return as_page(Table(names, columns, "Run"), "Evaluations during training")


def _result_columns(evaluations: Sequence[Evaluation]) -> Columns:
    """Return EERs, values of other selection metrics, and losses, by set."""
    columns: Columns = []
    for set_name in dict.fromkeys(name for known in evaluations for name in known.eers):
        values = []
        for known in evaluations:
            is_stale = set_name in known.stale
            remark = ", of recordings that were replaced since" if is_stale else ""
            values.append(_value(known.eers.get(set_name), remark))
        columns.append((rate("eer", f"{set_name} EER", states_unit=True), values))
    others: dict[tuple[str, str], None] = {}
    for known in evaluations:
        if known.chosen_by is not None:
            others |= {(known.metric, set_name): None for set_name in known.chosen_by.values}
    for metric, set_name in others:
        values = [_value(known.values(metric).get(set_name)) for known in evaluations]
        columns.append((Column(metric, f"{set_name} {metric}"), values))
    for set_name in dict.fromkeys(name for known in evaluations for name in known.losses):
        values = [_value(known.losses.get(set_name)) for known in evaluations]
        columns.append((Column("loss", f"{set_name} loss"), values))
    precisions = each(evaluations, "scoring_precision")
    if any(map(in_precision, precisions)):
        columns.append(Column("precision", "Scored in").with_texts(precisions))
    return columns


def _value(number: float | None, remark: str = "") -> Value:
    """Return a number of a record as a value; not every network has one on every set."""
    return Value(number if is_finite_number(number) else None, remark=remark)

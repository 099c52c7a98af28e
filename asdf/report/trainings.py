"""How the runs were trained: how each training ended, its course, and its evaluations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import starmap

from asdf.report.courses import Record, is_finite_number
from asdf.report.drawing import Figure, training_figure
from asdf.report.gathering import Gathered
from asdf.runs.evaluations import Evaluation, metrics_evaluations
from asdf.tables.page import ABSENT, Cell, PageTable, head_cells
from asdf.trials.how_scored import in_precision
from asdf.trials.run_folder import RunFolder

# More runs than this that ended alike are counted, and named where the reader asks for it.
_FEW_RUNS = 3


@dataclass(frozen=True)
class EndedAlike:
    """The runs whose training ended for the same reason."""

    reason: str
    names: list[str]

    @property
    def is_folded(self) -> bool:
        """Whether they are too many to be named at once."""
        return len(self.names) > _FEW_RUNS


@dataclass(frozen=True)
class TrainingSection:
    """Everything that the page shows of the trainings."""

    ends: list[EndedAlike]
    plot: Figure
    evaluations: PageTable


def training_section(gathered: Gathered) -> TrainingSection | None:
    """Return how the trainings went; None where no run has a record of one."""
    records = list(map(RunFolder.training, gathered.runs))
    if not any(records):
        return None
    return TrainingSection(
        ends=_group_ends(gathered.names, records),
        plot=training_figure(gathered),
        evaluations=_evaluations_table(gathered, records),
    )


def _group_ends(names: Sequence[str], records: Sequence[Sequence[Record]]) -> list[EndedAlike]:
    groups: dict[str, list[str]] = {}
    for name, training in zip(names, records, strict=True):
        groups.setdefault(_describe_end(training), []).append(name)
    return list(starmap(EndedAlike, groups.items()))


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
    count = int(digits)
    plural = "" if count == 1 else "s"
    return f"ended after {count:,} {unit}{plural} ({setting})"


def _evaluations_table(gathered: Gathered, records: Sequence[Sequence[Record]]) -> PageTable:
    """Return the evaluations during training, run by run."""
    names = gathered.names
    by_run = list(map(_evaluations_of, gathered.runs, records))
    columns = _columns_of([evaluation for run in by_run for evaluation in run])
    rows = []
    for name, evaluations in zip(names, by_run, strict=True):
        for evaluation in evaluations:
            row = [Cell(name), Cell(str(evaluation.network))]
            row += [Cell(evaluation.epoch), Cell(evaluation.step)]
            rows.append([*row, *columns.cells(evaluation)])
    return PageTable(
        "Evaluations during training",
        head_cells(["Run", "Network", "Epoch", "Step", *columns.head()]),
        rows,
    )


def _evaluations_of(run: RunFolder, records: Sequence[Record]) -> list[Evaluation]:
    """Return the evaluations that a training logged, marked as they have been since."""
    stale = {known.step: known.stale for known in run.evaluations()}
    evaluations = []
    for evaluation in metrics_evaluations(records):
        evaluations.append(replace(evaluation, stale=stale.get(evaluation.step, ())))
    return evaluations


@dataclass(frozen=True)
class _ResultColumns:
    """The columns with results of evaluations.

    Attributes:
        sets: whose EERs have a column each.
        others: (metric, set), where networks were chosen by another metric than the EER.
        losses: sets on which the training's loss is known.
    """

    sets: list[str]
    others: list[tuple[str, str]]
    losses: list[str]
    with_precision: bool

    def head(self) -> list[str]:
        head = [f"{set_name} EER %" for set_name in self.sets]
        head += [f"{set_name} {metric}" for metric, set_name in self.others]
        head += [f"{set_name} loss" for set_name in self.losses]
        if self.with_precision:
            head.append("Scored in")
        return head

    def cells(self, evaluation: Evaluation) -> list[Cell]:
        row = []
        for set_name in self.sets:
            cell = _eer_cell(evaluation.eers.get(set_name))
            if set_name in evaluation.stale:
                cell = replace(cell, remark=", of recordings that were replaced since")
            row.append(cell)
        for metric, set_name in self.others:
            row.append(_value_cell(evaluation.values(metric).get(set_name)))
        row += [_value_cell(evaluation.losses.get(set_name)) for set_name in self.losses]
        if self.with_precision:
            row.append(Cell(evaluation.scoring_precision))
        return row


def _columns_of(evaluations: Sequence[Evaluation]) -> _ResultColumns:
    sets: dict[str, None] = {}
    others: dict[tuple[str, str], None] = {}
    losses: dict[str, None] = {}
    with_precision = False
    for evaluation in evaluations:
        sets.update(dict.fromkeys(evaluation.eers))
        losses.update(dict.fromkeys(evaluation.losses))
        with_precision = with_precision or bool(in_precision(evaluation.scoring_precision))
        if evaluation.chosen_by is not None:
            for set_name in evaluation.chosen_by.values:
                others[evaluation.metric, set_name] = None
    return _ResultColumns(list(sets), list(others), list(losses), with_precision)


def _eer_cell(eer: float | None) -> Cell:
    """Return an EER (a fraction) in %; not every network has one on every set."""
    if not is_finite_number(eer):
        return Cell(ABSENT)
    return Cell(f"{100 * eer:.2f}", 100 * eer)


def _value_cell(value: float | None) -> Cell:
    """Return a loss, or a value of the metric that networks were chosen by."""
    if not is_finite_number(value):
        return Cell(ABSENT)
    return Cell(f"{value:.4f}", value)

"""EERs of several systems by the values of a column, for tables and heat maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from asdf.metrics.results import Condition
from asdf.metrics.summary import Summary
from asdf.tables.labels import labels_of
from asdf.tables.table import Columns, rate


@dataclass(frozen=True)
class ConditionTable:
    """The conditions of a column: `systems` maps value to condition, for each system.

    Attributes:
        values: Values that any system has, in alphabetical order.
    """

    column: str
    values: list[str]
    systems: list[dict[str, Condition]]

    def eers(self, value: str) -> list[float | None]:
        """Return the EER (a fraction) of each system on a value; None for a system without it."""
        eers: list[float | None] = []
        for conditions in self.systems:
            condition = conditions.get(value)
            eers.append(None if condition is None else condition.result.eer)
        return eers


def columns_of(summaries: Sequence[Summary]) -> list[str]:
    """Return the columns for which any of the summaries has conditions."""
    # As keys: each column once, in the order of the first system that has it.
    columns: dict[str, None] = {}
    for summary in summaries:
        columns.update(dict.fromkeys(summary.columns))
    return list(columns)


def condition_table(summaries: Sequence[Summary], column: str) -> ConditionTable:
    """Return the conditions of the systems by the values of `column`."""
    systems = []
    values: set[str] = set()
    for summary in summaries:
        conditions = {condition.value: condition for condition in summary.of_column(column)}
        systems.append(conditions)
        values.update(conditions)
    return ConditionTable(column, sorted(values), systems)


def eer_columns(
    summaries: Sequence[Summary], column: str, total: Literal["mean", "pooled"], label: int = 0
) -> Columns:
    """Return a column of EERs for each value of `column`, and one of mean or pooled EERs.

    Args:
        label: Maximum length of headings, which are shortened to it; 0: no limit.
    """
    conditions = condition_table(summaries, column)
    columns: Columns = []
    for value, heading in zip(conditions.values, _headings(conditions.values, label), strict=True):
        columns.append(rate(heading, digits=3).with_values(conditions.eers(value)))
    totals = []
    for summary in summaries:
        # A system may lack the column. Its mean over no values is not defined, and a pooled EER
        # alone in its row would look like that of the conditions.
        eer = None
        if column in summary.columns:
            eer = summary.average(column).eer if total == "mean" else summary.result.eer
        totals.append(eer)
    return [*columns, rate(total, digits=3).with_values(totals)]


def macro_f1_columns(summaries: Sequence[Summary], column: str, label: int = 0) -> Columns:
    """Return a column of macro-F1s for each value of `column`, and those of means and pooled."""
    conditions = condition_table(summaries, column)
    values = conditions.values
    columns: Columns = []
    for value, heading in zip(values, _headings(values, label), strict=True):
        cells = []
        for by_value in conditions.systems:
            known = by_value.get(value)
            decided = None if known is None else known.decisions
            cells.append(None if decided is None else decided.values()["macro_f1"])
        columns.append(rate(heading).with_values(cells))
    means = []
    pooled = []
    for summary in summaries:
        means.append(summary.average_decisions(column).get("macro_f1"))
        decisions = summary.decisions
        pooled.append(decisions.value("macro_f1") if decisions else None)
    return [*columns, rate("mean").with_values(means), rate("pooled").with_values(pooled)]


def value_heading(value: str) -> str:
    """Return the value of a condition as a heading, quoted if a row of our own has its name."""
    return f"'{value}'" if value in ("mean", "pooled") else value


def _headings(values: Sequence[str], label: int) -> list[str]:
    shown = labels_of(values, label) if label else values
    return list(map(value_heading, shown))

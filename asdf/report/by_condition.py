"""EERs of several systems by the values of a column, as tables and heat maps show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asdf.metrics.conditions import Condition
from asdf.metrics.summary import Summary


@dataclass(frozen=True)
class ConditionTable:
    """The conditions of a column: `systems` has value -> condition, one entry for each system.

    Attributes:
        values: those that any system has, in alphabetical order.
    """

    column: str
    values: list[str]
    systems: list[dict[str, Condition]]

    def eers(self, value: str) -> list[float | None]:
        """Return the EER (a fraction) of each system on a value; None where it has none."""
        eers: list[float | None] = []
        for conditions in self.systems:
            condition = conditions.get(value)
            eers.append(None if condition is None else condition.result.eer)
        return eers


def columns_of(summaries: Sequence[Summary]) -> list[str]:
    """Return the columns that any of the summaries has conditions of."""
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

"""EERs by attack, codec and other conditions, for tables, heat maps and the page.

Invariant: a colour means the same EER in all tables of the page, on one hue from pale to deep, and
each cell shows its number. An EER over few trials has no colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from asdf.metrics.results import FEW, Condition
from asdf.metrics.summary import Summary
from asdf.report.gathering import Gathered
from asdf.tables.page_cells import HEAT_STEPS, Cell, as_page, count_cell
from asdf.tables.table import RATE, Columns, Table, Value, each, labels_of, rate

_LABEL = 18
# A table of up to this many values fits next to the DET curves.
_SMALL = 6


@dataclass(frozen=True)
class ConditionTable:
    """The conditions of a column: `systems` maps value to condition, for each system.

    Attributes:
        values: Values that any system has, in alphabetical order.
    """

    column: str
    values: list[str]
    systems: list[dict[str, Condition]]

    def of(self, value: str) -> list[Condition | None]:
        """Return the condition of each system for a value; None for a system without it."""
        return [conditions.get(value) for conditions in self.systems]

    def eers(self, value: str) -> list[float | None]:
        """Return the EER (a fraction) of each system on a value; None for a system without it."""
        return [None if known is None else known.result.eer for known in self.of(value)]


def columns_of(summaries: Sequence[Summary]) -> list[str]:
    """Return the columns for which any of the summaries has conditions."""
    # As keys: each column once, in the order of the first system that has it.
    return list(dict.fromkeys(column for summary in summaries for column in summary.columns))


def condition_table(summaries: Sequence[Summary], column: str) -> ConditionTable:
    """Return the conditions of the systems by the values of `column`."""
    systems = []
    for summary in summaries:
        systems.append({condition.value: condition for condition in summary.of_column(column)})
    return ConditionTable(column, sorted(set().union(*systems)), systems)


def eer_columns(
    summaries: Sequence[Summary], column: str, total: Literal["mean", "pooled"], label: int = 0
) -> Columns:
    """Return a column of EERs for each value of `column`, and one of mean or pooled EERs.

    Args:
        label: Maximum length of headings, which are shortened to it; 0: no limit.
    """
    conditions = condition_table(summaries, column)
    named = zip(conditions.values, _headings(conditions.values, label), strict=True)
    columns = [rate(name, digits=3).with_values(conditions.eers(value)) for value, name in named]
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
    columns: Columns = []
    for value, heading in zip(conditions.values, _headings(conditions.values, label), strict=True):
        decided = [known and known.decisions for known in conditions.of(value)]
        macro_f1s = [known.values()["macro_f1"] if known else None for known in decided]
        columns.append(rate(heading).with_values(macro_f1s))
    means = [summary.average_decisions(column).get("macro_f1") for summary in summaries]
    pooled = [known.value("macro_f1") if known else None for known in each(summaries, "decisions")]
    return [*columns, rate("mean").with_values(means), rate("pooled").with_values(pooled)]


def value_heading(value: str) -> str:
    """Return the value of a condition as a heading, quoted if a row of our own has its name."""
    return f"'{value}'" if value in ("mean", "pooled") else value


def _headings(values: Sequence[str], label: int) -> list[str]:
    shown = labels_of(values, label) if label else values
    return list(map(value_heading, shown))


@dataclass(frozen=True)
class HeatMaps:
    """The heat maps of a set.

    Attributes:
        maps: Column and table of each map.
        steps: Ranges of EERs in % for each colour, in words.
        few: Number of trials of a class below which an EER has no colour.
    """

    maps: list[dict[str, Any]]
    steps: list[str]
    few: int
    is_small: bool


def heat_maps(gathered: Gathered, set_name: str) -> HeatMaps | None:
    """Return a heat map for each column of conditions; None if there is no such column."""
    measured = gathered.on(set_name)
    summaries = gathered.summaries_on(set_name)
    maps = []
    is_small = True
    names = each(measured, "system")
    for column_name in columns_of(summaries):
        conditions = condition_table(summaries, column_name)
        is_small = is_small and max(map(len, conditions.systems)) <= _SMALL
        pooled = each(summaries, "result.eer")
        columns: Columns = [rate("all", is_shaded=True).with_values(pooled)]
        numbers = [max(each(summaries, "result.spoof"))]
        against = "all bona fide trials"
        labels = labels_of(conditions.values, _LABEL)
        for value, label in zip(conditions.values, labels, strict=True):
            known = conditions.of(value)
            column = rate(value, label, whole_name=value, is_shaded=True)
            columns.append((column, list(map(_condition_value, known))))
            # Systems may lack trials; the count of the set is the largest one.
            numbers.append(max(found.result.spoof for found in known if found is not None))
            if any(found.bona_fide == "same" for found in known if found is not None):
                against = f"bona fide trials of the same {column_name}"
        table = Table(names, columns, "System", labels=[gathered.labels[name] for name in names])
        caption = f"EER in % on {set_name} by {column_name}, against {against}"
        page = as_page(table, caption, "heat")
        # A row of trial counts, which the page's script keeps at the top in any sort order.
        spoofs = [Cell("Spoof trials", "", "pooled"), *map(count_cell, numbers)]
        maps.append({"column": column_name, "table": replace(page, rows=[spoofs, *page.rows])})
    return HeatMaps(maps, step_words(), FEW, is_small) if maps else None


def step_words() -> list[str]:
    """Return the ranges of EERs in % of the colours."""
    between = [f"{low:g}–{high:g}" for low, high in pairwise(HEAT_STEPS)]
    return [f"< {HEAT_STEPS[0]:g}", *between, f"≥ {HEAT_STEPS[-1]:g}"]


def _condition_value(condition: Condition | None) -> Value:
    """Return the EER of a condition with its interval as a tooltip; grey over few trials."""
    if condition is None:
        return Value()
    result = condition.result
    words = f"{result.bona_fide:,} bona fide and {result.spoof:,} spoof trials"
    if condition.interval is not None:
        words = f"95 % interval {RATE.format_bounds(condition.interval, '–')} %; {words}"
    if condition.few:
        words += f"; fewer than {FEW} of a class: too few to say anything"
    return Value(result.eer, title=words, css="few" if condition.few else "")

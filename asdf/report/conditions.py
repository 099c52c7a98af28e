"""Results by attack, codec and other conditions: tables whose cells are coloured by their EER.

Invariant: a colour means the same EER in all tables, on one hue from pale to deep, and each cell
shows its number. An EER over few trials has no colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from asdf.metrics.results import FEW, Condition
from asdf.report.by_condition import ConditionTable, columns_of, condition_table
from asdf.report.gathering import Gathered, Measurement
from asdf.tables.labels import labels_of
from asdf.tables.page_cells import HEAT_STEPS, Cell, PageTable, as_page, count_cell
from asdf.tables.table import RATE, Columns, Table, Value, each, rate

_LABEL = 18
# A table of up to this many values fits next to the DET curves.
_SMALL = 6


@dataclass(frozen=True)
class HeatMap:
    """The EERs of the systems by the values of a column."""

    column: str
    table: PageTable


@dataclass(frozen=True)
class HeatMaps:
    """The heat maps of a set.

    Attributes:
        steps: Ranges of EERs in % for each colour, in words.
        few: Number of trials of a class below which an EER has no colour.
    """

    maps: list[HeatMap]
    steps: list[str]
    few: int
    is_small: bool


def heat_maps(gathered: Gathered, set_name: str) -> HeatMaps | None:
    """Return a heat map for each column of conditions; None if there is no such column."""
    measured = gathered.on(set_name)
    summaries = gathered.summaries_on(set_name)
    maps = []
    is_small = True
    for column in columns_of(summaries):
        conditions = condition_table(summaries, column)
        is_small = is_small and max(map(len, conditions.systems)) <= _SMALL
        maps.append(HeatMap(column, _heat_table(gathered, set_name, measured, conditions)))
    if not maps:
        return None
    return HeatMaps(maps, step_words(), FEW, is_small)


def _heat_table(
    gathered: Gathered, set_name: str, measured: Sequence[Measurement], conditions: ConditionTable
) -> PageTable:
    """Return a row of trial counts, then one for each system; a column for each value."""
    pooled = each(measured, "summary.result.eer")
    columns: Columns = [rate("all", is_shaded=True).with_values(pooled)]
    numbers = [max(system.summary.result.spoof for system in measured)]
    labels = labels_of(conditions.values, _LABEL)
    for value, label in zip(conditions.values, labels, strict=True):
        known = [by_value.get(value) for by_value in conditions.systems]
        column = rate(value, label, whole_name=value, is_shaded=True)
        columns.append((column, list(map(_condition_value, known))))
        # Systems may lack trials; the count of the set is the largest one.
        numbers.append(max(found.result.spoof for found in known if found is not None))
    names = each(measured, "system")
    table = Table(names, columns, "System", labels=[gathered.labels[name] for name in names])
    known_conditions = [found for by_value in conditions.systems for found in by_value.values()]
    against = "all bona fide trials"
    if any(condition.bona_fide == "same" for condition in known_conditions):
        against = f"bona fide trials of the same {conditions.column}"
    caption = f"EER in % on {set_name} by {conditions.column}, against {against}"
    page = as_page(table, caption, "heat")
    # The page's script keeps a row of this class at the top in any sort order.
    spoofs = [Cell("Spoof trials", "", "pooled"), *map(count_cell, numbers)]
    return replace(page, rows=[spoofs, *page.rows])


def step_words() -> list[str]:
    """Return the ranges of EERs in % of the colours."""
    words = [f"< {HEAT_STEPS[0]:g}"]
    for low, high in pairwise(HEAT_STEPS):
        words.append(f"{low:g}–{high:g}")
    return [*words, f"≥ {HEAT_STEPS[-1]:g}"]


def _condition_value(condition: Condition | None) -> Value:
    """Return the EER of a condition with its interval as a tooltip; grey over few trials."""
    if condition is None:
        return Value()
    result = condition.result
    words = []
    if condition.interval is not None:
        words.append(f"95 % interval {RATE.format_bounds(condition.interval, '–')} %")
    words.append(f"{result.bona_fide:,} bona fide and {result.spoof:,} spoof trials")
    if condition.few:
        words.append(f"fewer than {FEW} of a class: too few to say anything")
    css = "few" if condition.few else ""
    return Value(result.eer, title="; ".join(words), css=css)

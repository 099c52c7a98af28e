"""Results by attack, codec and other conditions: tables whose cells are coloured by their EER.

Invariant: the colours of all tables mean the same EERs, one hue from pale to deep, and each cell has its number. What
few trials stand behind has no colour.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from asdf.metrics.conditions import FEW, Condition
from asdf.report.gathering import Gathered, Measurement
from asdf.report.markup import (
    Cell,
    Content,
    Html,
    markup,
    name_cell,
    percent,
    table,
    tag,
)
from asdf.report.names import labels_of

HEAT_STEPS = (0.5, 1, 2, 5, 10, 20, 30, 40)
"""EERs in % at which the colour of a cell changes."""


def heat_maps(gathered: Gathered, name: str) -> Html:
    """One table for each column of conditions: systems by values, coloured by the EER."""
    measured = gathered.on(name)
    columns = list(dict.fromkeys(column for one in measured for column in one.summary.columns))
    tables = tag("div", *(_heat_map(gathered, name, column) for column in columns), class_="heats")
    return markup(tables, _heat_key()) if columns else Html()


def _heat_map(gathered: Gathered, name: str, column: str) -> Html:
    measured, labels = gathered.on(name), gathered.labels
    by_system = [
        {one.value: one for one in system.summary.of_column(column)} for system in measured
    ]
    values = sorted({value for conditions in by_system for value in conditions})
    same = any(one.bona_fide == "same" for conditions in by_system for one in conditions.values())
    counts: list[Cell | Content] = [Cell("Spoof trials", "", "pooled"), _count(_spoofs(measured))]
    for value in values:
        known = [conditions[value] for conditions in by_system if value in conditions]
        counts.append(_count(max(one.result.spoof for one in known)))
    rows = [counts]
    for system, conditions in zip(measured, by_system, strict=True):
        row: list[Cell | Content] = [name_cell(system.system, labels[system.system])]
        row.append(_heat_cell(system.summary.result.eer))
        row += [_condition_cell(conditions.get(value)) for value in values]
        rows.append(row)
    against = f"bona fide trials of the same {column}" if same else "all bona fide trials"
    caption = f"EER in % on {name} by {column}, against {against}"
    heads = [
        name_cell(value, label) for value, label in zip(values, labels_of(values, 18), strict=True)
    ]
    head: list[Cell | Content] = ["System", "all", *heads]
    return tag("div", tag("h3", f"By {column}"), table(caption, head, rows, class_="heat"))


def _count(trials: int) -> Cell:
    return Cell(f"{trials:,}", trials)


def _heat_key() -> Html:
    steps = [
        f"< {HEAT_STEPS[0]:g}",
        *(f"{low:g}–{high:g}" for low, high in pairwise(HEAT_STEPS)),
        f"≥ {HEAT_STEPS[-1]:g}",
    ]
    cells = [tag("span", text, class_=f"h{number}") for number, text in enumerate(steps)]
    cells.append(tag("span", f"fewer than {FEW} trials of a class", class_="few"))
    return tag("p", tag("span", "EER %", class_="label"), *cells, class_="heat-key")


def _condition_cell(condition: Condition | None) -> Cell:
    """The EER of a condition with its interval for the pointer; grey where few trials stand behind it."""
    if condition is None:
        return Cell("–")
    rate, result, interval = condition.result.eer, condition.result, condition.interval
    words = [f"{result.bona_fide:,} bona fide and {result.spoof:,} spoof trials"]
    if interval is not None:
        words.insert(0, f"95 % interval {percent(interval.low)}–{percent(interval.high)} %")
    if condition.few:
        words.append(f"fewer than {FEW} of a class: too few to say anything")
        return Cell(percent(rate), 100 * rate, "few", title="; ".join(words))
    return replace(_heat_cell(rate), title="; ".join(words))


def _heat_cell(rate: float) -> Cell:
    return Cell(percent(rate), 100 * rate, f"h{heat_step(rate)}")


def heat_step(rate: float) -> int:
    """The number of the colour of an EER (a fraction)."""
    return sum(100 * rate >= step for step in HEAT_STEPS)


def _spoofs(measured: list[Measurement]) -> int:
    return max(one.summary.result.spoof for one in measured)

"""Results by attack, codec and other conditions: tables whose cells are coloured by their EER.

Invariant: the colours of all tables mean the same EERs, one hue from pale to deep, and each cell has its number.
"""

from __future__ import annotations

from itertools import pairwise

from asdf.evaluation.report.gathering import Measurement
from asdf.evaluation.report.markup import Cell, Content, Html, markup, percent, table, tag

HEAT_STEPS = (0.5, 1, 2, 5, 10, 20, 30, 40)
"""EERs in % at which the colour of a cell changes."""


def heat_maps(name: str, measured: list[Measurement]) -> Html:
    """One table for each column of conditions: values by systems, coloured by the EER."""
    columns = list(dict.fromkeys(column for one in measured for column in one.summary.columns))
    tables = tag("div", *(_heat_map(name, column, measured) for column in columns), class_="heats")
    return markup(tables, _heat_key()) if columns else Html()


def _heat_map(name: str, column: str, measured: list[Measurement]) -> Html:
    by_system = [{one.value: one for one in system.summary.of_column(column)} for system in measured]
    values = sorted({value for conditions in by_system for value in conditions})
    same = any(one.bona_fide == "same" for conditions in by_system for one in conditions.values())
    rows: list[list[Cell | Content]] = []
    pooled: list[Cell | Content] = [Cell("all", "", "pooled"), Cell(f"{_spoofs(measured):,}", _spoofs(measured))]
    rows.append(pooled + [_heat_cell(one.summary.result.eer) for one in measured])
    for value in values:
        counts = [conditions[value].result.spoof for conditions in by_system if value in conditions]
        cells = [_heat_cell(c[value].result.eer) if value in c else Cell("–") for c in by_system]
        rows.append([value, Cell(f"{max(counts):,}", max(counts)), *cells])
    against = f"bona fide trials of the same {column}" if same else "all bona fide trials"
    caption = f"EER in % on {name} by {column}, against {against}"
    head = [column.capitalize(), "Spoof trials", *(one.system for one in measured)]
    return tag("div", tag("h3", f"By {column}"), table(caption, head, rows, class_="heat"))


def _heat_key() -> Html:
    steps = [
        f"< {HEAT_STEPS[0]:g}",
        *(f"{low:g}–{high:g}" for low, high in pairwise(HEAT_STEPS)),
        f"≥ {HEAT_STEPS[-1]:g}",
    ]
    cells = [tag("span", text, class_=f"h{number}") for number, text in enumerate(steps)]
    return tag("p", tag("span", "EER %", class_="label"), *cells, class_="heat-key")


def _heat_cell(rate: float) -> Cell:
    return Cell(percent(rate), 100 * rate, f"h{sum(100 * rate >= step for step in HEAT_STEPS)}")


def _spoofs(measured: list[Measurement]) -> int:
    return max(one.summary.result.spoof for one in measured)

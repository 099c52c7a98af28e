"""The table of generalisation: on the page, as text and JSON of a run, and in LaTeX."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from asdf.metrics.over_seeds import Spread
from asdf.report.generalisation import Generalisation, SetRow, TotalRow
from asdf.report.latex_cells import SEEDS_LEAD, spread_cell
from asdf.report.names import labels_of
from asdf.report.seed_results import OverSeeds
from asdf.tables.latex import latex_text, tabulars
from asdf.tables.page import (
    ABSENT,
    Cell,
    PageTable,
    count_cell,
    head_cells,
    interval_text,
    name_cell,
    percent,
)
from asdf.text import aligned

_LABEL = 24
_DAGGER = r"$^\dagger$"


def generalisation_table(known: Generalisation) -> PageTable:
    """Return a row per set, then averages and pooled results; a column per configuration."""
    labels = labels_of(known.configurations, _LABEL)
    head = [*head_cells(["Set", "Corpus", "Bona fide", "Spoof"])]
    for name, label in zip(known.configurations, labels, strict=True):
        head.append(name_cell(name, label))
    has_published = any(row.published for row in known.sets)
    if has_published:
        head.append(Cell("Published EER %"))
    rows = []
    for row in known.sets:
        cells = [Cell(row.name), Cell(row.corpus_words())]
        cells += _result_cells(known, row)
        if has_published:
            cells.append(Cell(row.published or ABSENT))
        rows.append(cells)
    for total in known.totals:
        cells = [Cell(total.name, css="total"), Cell("")]
        cells += _result_cells(known, total)
        if has_published:
            cells.append(Cell(ABSENT))
        rows.append(cells)
    caption = f"EER in %, trained on {', '.join(known.trained_on)}"
    return PageTable(caption, head, rows, "generalisation")


def _result_cells(known: Generalisation, row: SetRow | TotalRow) -> list[Cell]:
    cells = [count_cell(row.bona_fide), count_cell(row.spoof)]
    for name in known.configurations:
        cell = _spread_cell(row.eers.get(name))
        if isinstance(row, TotalRow) and row.leader == name:
            cell = replace(cell, css="best", mark="best")
        cells.append(cell)
    return cells


def _spread_cell(spread: Spread | None) -> Cell:
    if spread is None:
        return Cell(ABSENT)
    text = percent(spread.mean)
    if spread.deviation is not None:
        text += f" ± {percent(spread.deviation)}"
    cell = Cell(text, 100 * spread.mean)
    if spread.interval is None:
        return cell
    return replace(cell, interval=interval_text(spread.interval))


def generalisation_text(known: Generalisation) -> str:
    """Return the table as aligned text; it ends with a line break."""
    rows = [["set", "corpus", "bona fide", "spoof"]]
    for name in known.configurations:
        rows[0] += [f"{name} EER %", "95 %"]
    all_rows: list[SetRow | TotalRow] = [*known.sets, *known.totals]
    for row in all_rows:
        corpus = row.corpus_words() if isinstance(row, SetRow) else ""
        cells = [row.name, corpus, str(row.bona_fide), str(row.spoof)]
        for name in known.configurations:
            cells += _text_cells(row.eers.get(name))
        rows.append(cells)
    lines = aligned(rows, right=range(2, len(rows[0])))
    return "".join(f"{line}\n" for line in [*lines, *_published_lines(known)])


def _published_lines(known: Generalisation) -> list[str]:
    lines = []
    for row in known.sets:
        if row.published:
            lines.append(f"published on {row.name}: {row.published}")
    return lines


def _text_cells(spread: Spread | None) -> list[str]:
    if spread is None:
        return ["-", "-"]
    text = f"{100 * spread.mean:.4f}"
    if spread.deviation is not None:
        text += f" +- {100 * spread.deviation:.4f}"
    interval = spread.interval
    if interval is None:
        return [text, "-"]
    return [text, f"{100 * interval.low:.3f} .. {100 * interval.high:.3f}"]


def generalisation_json(known: Generalisation) -> str:
    """Return the table with all digits, EERs as fractions."""
    record = {
        "trained_on": list(known.trained_on),
        "sets": [
            {**_record(row), "is_own": row.is_own, "remark": row.remark.removeprefix(", ")}
            for row in known.sets
        ],
        "totals": [{**_record(row), "sets": list(row.sets)} for row in known.totals],
    }
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def _record(row: SetRow | TotalRow) -> dict[str, Any]:
    eers = {}
    for name, spread in row.eers.items():
        interval = spread.interval
        eers[name] = {
            "mean": spread.mean,
            "deviation": spread.deviation,
            "values": list(spread.values),
            "interval_95": None if interval is None else [interval.low, interval.high],
        }
    return {"name": row.name, "bona_fide": row.bona_fide, "spoof": row.spoof, "eer": eers}


def generalisation_to_latex(
    known: Generalisation, over: OverSeeds, leading: dict[str, dict[str, str]]
) -> str:
    """Return a table of configurations by set, with averages and pooled results."""
    columns = []
    for row in known.sets:
        heading = latex_text(row.name) + (_DAGGER if row.is_own else "")
        leader = _set_leader(row.name, over, leading)
        columns.append([heading, *_latex_cells(known, row, leader)])
    for total in known.totals:
        columns.append([latex_text(total.name), *_latex_cells(known, total, total.leader)])
    notes = [f"trained on {', '.join(known.trained_on)}; EER in per cent"]
    if any(row.is_own for row in known.sets):
        notes.append("sets with a dagger are of the corpus that was trained on")
    for row in known.sets:
        if row.remark:
            notes.append(f"{row.name}: {row.remark.removeprefix(', ')}")
    if any("textbf" in cell for column in columns for cell in column):
        notes.append(f"bold: {SEEDS_LEAD}")
    labels = map(latex_text, labels_of(known.configurations, _LABEL))
    return "% generalisation\n" + tabulars(["System", *labels], columns, notes)


def _set_leader(name: str, over: OverSeeds, leading: dict[str, dict[str, str]]) -> str:
    results = over.by_set.get(name, [])
    if results:
        return results[0].name if over.is_leading(results[0]) else ""
    return leading.get(name, {}).get("eer", "")


def _latex_cells(known: Generalisation, row: SetRow | TotalRow, leader: str) -> Sequence[str]:
    cells = []
    for name in known.configurations:
        spread = row.eers.get(name)
        if spread is None:
            cells.append("--")
        else:
            cells.append(spread_cell(spread, is_best=name == leader))
    return cells

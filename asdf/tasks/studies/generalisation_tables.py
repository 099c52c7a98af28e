"""The table of generalisation: on the page, as text and JSON of a run, and as LaTeX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asdf.tables.booktabs import as_latex
from asdf.tables.labels import labels_of
from asdf.tables.page_cells import PageTable, as_page
from asdf.tables.plain_json import as_json
from asdf.tables.plain_text import as_lines
from asdf.tables.table import Column, Columns, Table, Value, counts, each, rate, texts
from asdf.tasks.studies.generalisation import Generalisation, SetRow, TotalRow
from asdf.tasks.studies.seed_results import OverSeeds
from asdf.tasks.studies.seed_tables import SEEDS_LEAD

_LABEL = 24
_DAGGER = r"$^\dagger$"


def generalisation_table(known: Generalisation) -> PageTable:
    """Return a row per set, then averages and pooled results; a column per configuration."""
    columns = _trial_columns(known, ("Corpus", "Bona fide", "Spoof"))
    labels = labels_of(known.configurations, _LABEL)
    for name, label in zip(known.configurations, labels, strict=True):
        columns.append((rate(name, label, whole_name=name), _values(known, name)))
    if any(row.published for row in known.sets):
        published = [row.published or None for row in known.sets] + [None] * len(known.totals)
        columns.append(Column("published", "Published EER %").with_texts(published))
    table = Table(each(known.rows, "name"), columns, "Set")
    return as_page(table, f"EER in %, trained on {', '.join(known.trained_on)}", "generalisation")


def generalisation_text(known: Generalisation) -> str:
    """Return the table as aligned text; it ends with a line break."""
    columns = _trial_columns(known, ("corpus", "bona fide", "spoof"))
    for name in known.configurations:
        values = _values(known, name)
        columns.append((rate(name, digits=4, states_unit=True, plus_minus="+-"), values))
        finer = rate("95 %", digits=3)
        bounds = [value.intervals.get("trials") for value in values]
        shown = ["-" if known is None else finer.format_bounds(known, " .. ") for known in bounds]
        columns.append(texts("95 %", shown))
    lines = as_lines(Table(each(known.rows, "name"), columns, "set"))
    for row in known.sets:
        if row.published:
            lines.append(f"published on {row.name}: {row.published}")
    return "".join(f"{line}\n" for line in lines)


def _trial_columns(known: Generalisation, headings: tuple[str, str, str]) -> Columns:
    """Return the corpus of each set, and its numbers of trials."""
    corpus, bona_fide, spoof = headings
    words = [*(row.corpus_words() for row in known.sets), *("" for _ in known.totals)]
    return [
        texts(corpus, words, is_left=True),
        counts(bona_fide, each(known.rows, "bona_fide")),
        counts(spoof, each(known.rows, "spoof")),
    ]


def _values(known: Generalisation, name: str) -> list[Value]:
    """Return the EERs of a configuration by row; averages and pooled EERs are tested."""
    values = [Value.of_spread(row.eers.get(name)) for row in known.sets]
    for total in known.totals:
        values.append(Value.of_spread(total.eers.get(name), is_best=total.leader == name))
    return values


def generalisation_json(known: Generalisation) -> str:
    """Return the table with all digits, EERs as fractions."""
    sets = []
    for row in known.sets:
        remark = row.remark.removeprefix(", ")
        sets.append({**_record(row), "is_own": row.is_own, "remark": remark})
    totals = [{**_record(row), "sets": list(row.sets)} for row in known.totals]
    return as_json({"trained_on": list(known.trained_on), "sets": sets, "totals": totals})


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
    known: Generalisation, over: OverSeeds, leading: Mapping[str, Mapping[str, str]]
) -> str:
    """Return a table of configurations by set, with averages and pooled results."""
    columns: Columns = []
    for row in known.rows:
        is_own = False
        if isinstance(row, TotalRow):
            leader = row.leader
        else:
            is_own = row.is_own
            results = over.by_set.get(row.name, [])
            leader = leading.get(row.name, {}).get("eer", "")
            if results:
                # Where seeds were compared, the test over seeds counts, not that of one network.
                leader = results[0].name if over.is_leading(results[0]) else ""
        values = []
        for name in known.configurations:
            values.append(Value.of_spread(row.eers.get(name), is_best=name == leader))
        columns.append((rate(row.name, paper_mark=_DAGGER if is_own else ""), values))
    notes = [f"trained on {', '.join(known.trained_on)}; EER in per cent"]
    if any(row.is_own for row in known.sets):
        notes.append("sets with a dagger are of the corpus that was trained on")
    for row in known.sets:
        if row.remark:
            notes.append(f"{row.name}: {row.remark.removeprefix(', ')}")
    if any(value.is_best for _, values in columns for value in values):
        notes.append(f"bold: {SEEDS_LEAD}")
    labels = labels_of(known.configurations, _LABEL)
    return "% generalisation\n" + as_latex(
        Table(known.configurations, columns, "System", notes, labels)
    )

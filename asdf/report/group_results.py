"""Groups compared, as tables and sentences, for text, LaTeX, CSV, JSON and a page.

Invariant: a gap is always shown with its interval, its test, and the change that one trial of the
smallest group makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from asdf.metrics.groups import Group, GroupStudy
from asdf.metrics.results import FEW
from asdf.metrics.summary import Summary
from asdf.report.document import Document, Section, document_page
from asdf.tables.labels import labels_of
from asdf.tables.page_cells import as_page
from asdf.tables.table import RATE, Columns, Table, Value, counts, each, rate, texts
from asdf.text import and_more, p_value_text

GROUP_COLUMNS = (
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "p_holm",
    "miss",
    "false_alarm",
)
"""Columns of a CSV that have values only for groups."""

_LABEL = 24
_SHOWN = 5
_SIGNIFICANT = 0.05


def group_table(study: GroupStudy, notes: Sequence[str] = ()) -> Table:
    """Return a row per group: EER, difference to all other groups, rates at one threshold."""
    groups = study.groups
    eers = []
    differences = []
    bounds = []
    trials = []
    for group in groups:
        eers.append(Value(group.eer.value, {"trials": group.eer}))
        number, interval, _ = RATE.format_difference(group.difference)
        differences.append(number)
        bounds.append(interval)
        trials.append(f"{group.bona_fide:,} + {group.spoof:,}")
    columns: Columns = [
        (rate("eer", "EER %", over={"trials": "95 %"}), eers),
        texts("others", differences),
        texts("95 % of it", bounds),
        texts("p", list(map(_p_text, each(groups, "difference.p_value")))),
        texts("p Holm", list(map(_p_text, each(groups, "p_corrected")))),
        rate("miss", "miss %").with_values(each(groups, "miss")),
        rate("false_alarm", "f. alarm %").with_values(each(groups, "false_alarm")),
        texts("trials", trials),
    ]
    if study.over == "speakers":
        columns.append(counts("speakers", each(groups, "speakers")))
    names = each(groups, "value")
    return Table(names, columns, study.column, notes, labels_of(names, _LABEL))


def _p_text(p_value: float) -> str:
    return p_value_text(p_value).removeprefix("= ")


def gap_sentence(study: GroupStudy) -> str:
    """Return the gap with its interval and its test."""
    eers = dict(zip(each(study.groups, "value"), each(study.groups, "eer"), strict=True))
    gap = study.gap
    over = gap.describe_groups(study.over)
    interval = RATE.format_bounds(gap, " .. ")
    p_value = 1.0 if gap.p_value is None else gap.p_value
    text = (
        f"gap {RATE.format(gap.value)} %: {study.worst} {RATE.format(eers[study.worst].value)} %, "
        f"{study.best} {RATE.format(eers[study.best].value)} %; 95 % of the difference of these "
        f"two {interval} over {over}; p {p_value_text(p_value)}, groups permuted among "
        f"{study.permuted}"
    )
    if p_value >= _SIGNIFICANT:
        text += ": chance makes gaps as large"
    return text


def remarks(study: GroupStudy) -> list[str]:
    """Return the limitations of the numbers of a column."""
    fewer = [min(group.bona_fide, group.spoof) for group in study.groups]
    fewest = min(fewer)
    smallest = study.groups[fewer.index(fewest)].value
    sentences = [
        f"{smallest} has {fewest:,} trials of a class: one of them moves its EER by up to "
        f"{100 / fewest:.1f} %.",
        f"others: EER minus that of all other groups together; p Holm: corrected for all groups "
        f"of all columns; miss, f. alarm: at one threshold for all, {study.threshold:.4f}.",
    ]
    if study.left_out:
        shown = and_more(study.left_out, _SHOWN)
        sentences.append(f"Not compared, with fewer than {FEW} trials of a class: {shown}.")
    return sentences


def group_record(study: GroupStudy) -> dict[str, Any]:
    """Return a column's comparison with all digits."""
    return asdict(study)


def group_rows(study: GroupStudy) -> list[dict[str, Any]]:
    """Return rows of a CSV: one for each group, then the gap."""
    rows = []
    for group in study.groups:
        rows.append({"kind": "group", "column": study.column, **_numbers(group)})
    gap = study.gap
    value = f"{study.worst} - {study.best}"
    bounds = {"difference_low": gap.low, "difference_high": gap.high, "p": gap.p_value}
    row = {"kind": "gap", "column": study.column, "value": value, "difference": gap.value}
    rows.append({**row, **bounds})
    return rows


def _numbers(group: Group) -> dict[str, Any]:
    return {
        "value": group.value,
        "against": "same",
        "bona_fide": group.bona_fide,
        "spoof": group.spoof,
        "eer": group.eer.value,
        "eer_low": group.eer.low,
        "eer_high": group.eer.high,
        "difference": group.difference.value,
        "difference_low": group.difference.low,
        "difference_high": group.difference.high,
        "p": group.difference.p_value,
        "p_holm": group.p_corrected,
        "miss": group.miss,
        "false_alarm": group.false_alarm,
    }


def groups_page(
    summaries: Sequence[Summary],
    facts: Sequence[str],
) -> str:
    """Return the page of the groups of all systems.

    Args:
        facts: Facts in small print, such as versions and the command.
    """
    sections: list[Section] = []
    lead = []
    for number, summary in enumerate(summaries):
        for study in summary.groups:
            title = f"{summary.name} by {study.column}"
            table = as_page(group_table(study), f"EER in % by {study.column}")
            anchor = f"groups-{number}-{len(sections)}"
            sentence = gap_sentence(study)
            lead.append(f"{title}: {sentence}.")
            section = Section(anchor, title, [f"{sentence}."], [table], notes=remarks(study))
            sections.append(section)
    return document_page(Document("Groups compared", lead, sections, facts=facts))


def group_tables(summary: Summary) -> list[Table]:
    """Return the tables of a system for papers."""
    tables = []
    for study in summary.groups:
        notes = [f"{summary.name} by {study.column}: {gap_sentence(study)}", *remarks(study)]
        tables.append(replace(group_table(study), notes=notes))
    return tables

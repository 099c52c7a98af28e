"""Output of a study as text, CSV, JSON, LaTeX, a page and plots.

Invariant: every number is one of the study's; omitted and clipped recordings are stated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asdf.extras.robustness.making import CLEAN, Condition
from asdf.extras.robustness.running import CORRECTED, METRICS, Measured, Study
from asdf.metrics.bootstrap import SIGNIFICANT, Interval
from asdf.report import Document, Figure, Items, Legend, Section, Verdict, document_page
from asdf.tables.panels import Axis, Line, Panel, nice_ticks, tick_text
from asdf.tables.renderers import (
    PACKAGES,
    as_json,
    as_latex,
    as_page,
    as_text,
    records_of,
    table_csv,
)
from asdf.tables.table import Column, Columns, Table, Value, each, p_values, rate, texts
from asdf.text import count_of, lines_and_more

_SHOWN = 5
_PANEL = (340, 240)
_WORST = 3
_OVER = {"trials": "95 %"}


def study_files(
    study: Study, left_out: Mapping[str, str], made_by: Mapping[str, str]
) -> dict[str, str]:
    """Return the contents of all files of a study, by name.

    Args:
        left_out: Reasons for degradations that were not measured, by name.
        made_by: Provenance of the study: versions, command, digests.
    """
    tables = {network: condition_table(study, network) for network in study.judging}
    not_measured = [f"{name}: {reason}" for name, reason in left_out.items()]
    text = [_lead(study)]
    for network, table in tables.items():
        text += [_judging_sentence(study, network), *as_text(table)]
    for caption, table in _comparison_tables(study).items():
        text += [f"{caption}; below zero, the first of the two is better", *as_text(table)]
    text += _notes(study)
    if left_out:
        text.append(f"Not measured:{lines_and_more(not_measured, len(not_measured))}")
    text += _left_out_notes(study)
    results = results_table(study)
    content = {
        "made_by": dict(made_by),
        "bona_fide": study.counts[0],
        "spoof": study.counts[1],
        "intervals_over": _drawn(study),
        "thresholds": {
            name: {"threshold": judging.threshold, "source": judging.source}
            for name, judging in study.judging.items()
        },
        "results": records_of(results),
        "comparisons": records_of(differences_table(study)),
        "clipped_copies": study.clipped,
        "not_measured": dict(left_out),
        "left_out_trials": study.left_out,
    }
    facts = [f"{name}: {value}" for name, value in made_by.items()]
    return {
        "results.json": as_json(content),
        "results.csv": table_csv(results),
        "results.tex": "\n".join([PACKAGES, *map(as_latex, tables.values())]),
        "results.txt": "\n\n".join(text) + "\n",
        "report.html": study_page(study, tables, not_measured, facts),
    }


def results_table(study: Study) -> Table:
    """Return all results for programs, a row per detector and condition; rates are fractions."""
    rows = study.measured
    # Clean speech has no degradation, and no changes.
    facts: dict[str, tuple[Any, ...]] = {CLEAN: (None, None, None, None)}
    for known in study.conditions:
        change = known.degradation
        # The grade is NaN if there is none.
        facts[known.name] = (change.name, change.family, known.grade, change.unit)
    names, families, grades, units = zip(*(facts[row.condition] for row in rows), strict=True)
    columns: Columns = [
        texts("condition", each(rows, "condition")),
        texts("degradation", names),
        texts("family", families),
        Column("grade", "grade").with_values(grades),
        texts("unit", units),
    ]
    for metric in METRICS:
        values = [_value(row.values.get(metric)) for row in rows]
        columns.append((Column(metric, metric, over=_OVER), values))
        values = [_value(row.changes.get(metric)) for row in rows]
        columns.append((Column(f"{metric}_change", metric, over=_OVER), values))
    for metric in CORRECTED:
        corrected = [row.p_values.get(metric) for row in rows]
        columns.append(Column(f"{metric}_p_holm", metric).with_values(corrected))
    return Table(each(rows, "network"), columns, "network")


def differences_table(study: Study) -> Table:
    """Return the differences of detectors for programs, a row per pair and condition."""
    rows = study.compared
    columns: Columns = [
        texts("second", each(rows, "network")),
        texts("condition", each(rows, "condition")),
    ]
    for metric in CORRECTED:
        changes = [row.changes[metric] for row in rows]
        columns.append((Column(f"{metric}_difference", metric), list(map(_value, changes))))
        columns.append(Column(f"{metric}_p", metric).with_values(each(changes, "p_value")))
        corrected = [row.p_values[metric] for row in rows]
        columns.append(Column(f"{metric}_p_holm", metric).with_values(corrected))
    return Table(each(rows, "other"), columns, "first")


def _drawn(study: Study) -> str:
    return "speakers" if study.by_speakers else "trials"


def _rows_of(study: Study, network: str) -> list[Measured]:
    return [row for row in study.measured if row.network == network]


def _labels(study: Study, rows: Sequence[Measured]) -> list[str]:
    """Return the display names of conditions."""
    labels = {condition.name: condition.label for condition in study.conditions}
    return [labels.get(row.condition, CLEAN) for row in rows]


def condition_table(study: Study, network: str) -> Table:
    """Return the table of a detector: a row per condition, clean speech first."""
    rows = _rows_of(study, network)
    change = rate("eer_change", "change", over=_OVER, lower_is_better=None)
    columns: Columns = [
        (rate("eer", "EER %", over=_OVER), [_value(row.values["eer"]) for row in rows]),
        (change, [_value(row.changes.get("eer")) for row in rows]),
        p_values([row.p_values.get("eer") for row in rows]),
    ]
    for column in (
        rate("miss", "miss %"),
        rate("false_alarm", "false alarm %"),
        Column("min_dcf", "minDCF"),
        Column("cllr", "Cllr", digits=3, paper_digits=3),
    ):
        known = [row.values.get(column.key) for row in rows]
        columns.append((column, [_value(interval, in_title=True) for interval in known]))
    return Table(_labels(study, rows), columns, "condition")


def _value(interval: Interval | None, *, in_title: bool = False) -> Value:
    if interval is None:
        return Value()
    if in_title:
        bounds = f"{interval.low:.4g} to {interval.high:.4g}"
        return Value(interval.value, title=f"95 % over this set: {bounds}")
    return Value(interval.value, {"trials": interval})


def _comparison_tables(study: Study) -> dict[str, Table]:
    """Return a table of differences for each pair of detectors, by caption."""
    pairs: dict[tuple[str, str], list[Measured]] = {}
    for row in study.compared:
        pairs.setdefault((row.other, row.network), []).append(row)
    tables = {}
    for (first, second), rows in pairs.items():
        # Differences are second - first, of error rates.
        better = [second if row.changes["eer"].value < 0 else first for row in rows]
        p_values_of = [row.p_values["eer"] for row in rows]
        verdicts = []
        for name, p_value in zip(better, p_values_of, strict=True):
            verdicts.append(f"{name} is better" if p_value < SIGNIFICANT else "")
        column = rate("difference", "EER % difference", over=_OVER)
        columns: Columns = [
            (column, [_value(row.changes["eer"]) for row in rows]),
            p_values(p_values_of),
            texts("finding", verdicts, is_left=True),
        ]
        tables[f"{second} less {first}"] = Table(_labels(study, rows), columns, "condition")
    return tables


def _lead(study: Study) -> str:
    bona_fide, spoof = study.counts
    return (
        f"{bona_fide + spoof:,} recordings ({bona_fide:,} bona fide, {spoof:,} spoofed) as they "
        f"are and under {count_of(len(study.conditions), 'condition')}."
    )


def _judging_sentence(study: Study, network: str) -> str:
    judging = study.judging[network]
    return (
        f"{network}: misses and false alarms at the threshold {judging.threshold:.4g} on all "
        f"conditions, {judging.source}."
    )


def _notes(study: Study) -> list[str]:
    """Return the sentences that are needed to read the numbers."""
    lines = [
        f"Intervals of 95 %, bootstrap over {_drawn(study)}; changes are relative to clean speech "
        "on the same recordings (paired), with p-values for all conditions together (Holm)."
    ]
    if any(judging.calibration is not None for judging in study.judging.values()):
        lines.append(
            "Cllr is in bits, of likelihood ratios by a map that was learnt from the scores of "
            "clean speech: that of clean speech itself is a little too low."
        )
    if any(not judging.has_llrs for judging in study.judging.values()):
        lines.append("Without a Cllr: higher scores do not mean bona fide on clean speech.")
    if study.clipped:
        counts = ", ".join(f"{name} {count}" for name, count in study.clipped.items())
        lines.append(f"Copies with samples beyond full scale, which were clipped: {counts}.")
    return lines


def _left_out_notes(study: Study) -> list[str]:
    """Return the sentence on recordings that are in no result; [] without any."""
    reasons = [f"{name}: {reason}" for name, reason in study.left_out.items()]
    if not reasons:
        return []
    return [
        f"{len(reasons):,} recordings are excluded from all results, since a condition lacks "
        f"them:{lines_and_more(reasons, _SHOWN)}"
    ]


def study_page(
    study: Study, tables: Mapping[str, Table], not_measured: Sequence[str], facts: Sequence[str]
) -> str:
    """Return a study as a page; `facts` are the small print below its title."""
    caption = ": rates in % with intervals of 95 %"
    figures = grades_figures(study)
    words = ["What each degradation costs at its grades."]
    sections = [
        Section("grades", "Error rate by grade", words, figures=figures[:1]),
        Section(
            "conditions",
            "All conditions",
            [_judging_sentence(study, network) for network in tables],
            [as_page(table, network + caption) for network, table in tables.items()],
            # Degradations that were not measured have a section of their own below.
            notes=_notes(study) + _left_out_notes(study),
        ),
    ]
    if figures[1:]:
        words = ["Errors are at the one threshold of each detector, whatever the degradation."]
        sections.append(Section("costs", "Errors and costs by grade", words, figures=figures[1:]))
    if study.compared:
        pairs = _comparison_tables(study).items()
        compared = [as_page(table, f"EER in %: {name}") for name, table in pairs]
        words = ["Below zero the first detector is better; p-values hold for all rows (Holm)."]
        sections.append(Section("detectors", "Detectors against each other", words, compared))
    if not_measured:
        items = Items("Degradations that were not measured", "", not_measured)
        sections.append(Section("left-out", "Not measured", lists=[items]))
    alarms = list(filter(None, (worst_sentence(study, network) for network in study.judging)))
    title = f"Robustness of {', '.join(study.judging)}"
    return document_page(
        Document(title, Verdict(_lead(study)), sections, alarms=alarms, facts=facts)
    )


def worst_sentence(study: Study, network: str) -> str:
    """Return the conditions with the largest effect on a detector; '' if none is significant."""
    changed = [row for row in _rows_of(study, network) if row.p_values.get("eer", 1) < SIGNIFICANT]
    costly = [row for row in changed if row.changes["eer"].value > 0]
    costly = sorted(costly, key=lambda row: -row.changes["eer"].value)[:_WORST]
    named = zip(costly, _labels(study, costly), strict=True)
    worst = [f"{label} (EER {100 * row.values['eer'].value:.1f} %)" for row, label in named]
    return f"{network} suffers most from {', '.join(worst)}." if worst else ""


# What each figure shows, the label of its vertical axis, and its unit.
_FIGURES = (
    (rate("eer", "EER"), "EER", "%"),
    (rate("miss", "Misses"), "genuine called spoofed", "%"),
    (rate("false_alarm", "False alarms"), "spoofed called genuine", "%"),
    (Column("min_dcf", "minDCF"), "minDCF", ""),
    (Column("cllr", "Cllr", digits=3), "Cllr", "bits"),
)


def grades_figures(study: Study) -> list[Figure]:
    """Return a figure per metric, with a panel for each degradation with several grades."""
    graded: dict[str, list[Condition]] = {}
    for condition in study.conditions:
        graded.setdefault(condition.degradation.name, []).append(condition)
    # A single grade makes no line.
    several = [conditions for conditions in graded.values() if len(conditions) > 1]
    names = [(Line((), number), name) for number, name in enumerate(study.judging)]
    legends = [Legend("", names)] if len(names) > 1 else []
    figures = []
    for metric, axis, unit in _FIGURES:
        known = [row.values[metric.key] for row in study.measured if metric.key in row.values]
        if not several or not known:
            continue
        # Above zero even if nothing went wrong, since an axis needs a length.
        highest = max(value.high for value in known)
        top = max(0.01, 1.05 * highest) * (100 if metric.percent else 1)
        label = f"{axis} ({unit})" if unit else axis
        y_axis = Axis(0, top, nice_ticks(0, top, 4), label)
        panels = [grade_panel(study, conditions, metric, unit, y_axis) for conditions in several]
        text = "Bars are intervals of 95 %, the level line is clean speech."
        key = "grades" if metric.key == "eer" else f"grades-{metric.key}"
        figures.append(Figure(key, f"{metric.name} by grade", text, panels, legends=legends))
    return figures


def grade_panel(
    study: Study, conditions: Sequence[Condition], metric: Column, unit: str, y_axis: Axis
) -> Panel:
    degradation = conditions[0].degradation
    ticks = list(map(float, range(len(conditions))))
    labels = {tick: tick_text(c.grade) for tick, c in zip(ticks, conditions, strict=True)}
    scale = 100 if metric.percent else 1
    lines: list[Line] = []
    words = []
    for number, network in enumerate(study.judging):
        of_network = {row.condition: row.values for row in _rows_of(study, network)}
        # Not every detector has likelihood ratios.
        if metric.key not in of_network[CLEAN]:
            continue
        clean = scale * of_network[CLEAN][metric.key].value
        lines.append(Line([-0.4, clean, ticks[-1] + 0.4, clean], number, css="noise"))
        points: list[float] = []
        marks = []
        for tick, condition in zip(ticks, conditions, strict=True):
            known = of_network[condition.name][metric.key]
            lines.append(Line([tick, scale * known.low, tick, scale * known.high], number))
            points += [tick, scale * known.value]
            text = f"{metric.name} {metric.format(known.value)} {unit}".rstrip()
            words.append(f"{network}, {condition.label}: {text}")
            marks.append(f"{network}, {labels[tick]}: {text}")
        lines.append(Line(points, number, mark_words=marks))
    return Panel(
        Axis(-0.4, ticks[-1] + 0.4, ticks, degradation.unit, text=labels.__getitem__),
        y_axis,
        *_PANEL,
        title=degradation.name,
        description=f"{degradation.name}, {degradation.words}. {'; '.join(words)}",
        lines=lines,
    )

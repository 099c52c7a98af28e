"""Output of a study as text, CSV, JSON, LaTeX, a page and plots.

Invariant: every number is one of the study's; omitted and clipped recordings are stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asdf.extras.robustness.conditions import CLEAN, Condition
from asdf.extras.robustness.measuring import METRICS, Compared, Measured
from asdf.extras.robustness.running import Study
from asdf.metrics.bootstrap import SIGNIFICANT, Interval
from asdf.report import Document, Figure, Items, Legend, Section, document_page
from asdf.tables.booktabs import PACKAGES, as_latex
from asdf.tables.comma_separated import as_csv
from asdf.tables.page_cells import as_page
from asdf.tables.panels import Axis, Line, Panel, nice_ticks, tick_text
from asdf.tables.plain_json import as_json
from asdf.tables.plain_text import as_text
from asdf.tables.table import Column, Columns, Table, Value, p_values, rate, texts
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
    tables = {network: _condition_table(study, network) for network in study.judging}
    text = [_lead(study)]
    for network, table in tables.items():
        text += [_judging_sentence(study, network), *as_text(table)]
    for caption, table in _comparison_tables(study).items():
        text += [f"{caption}; below zero, the first of the two is better", *as_text(table)]
    text += _notes(study)
    if left_out:
        text.append(f"Not measured:{lines_and_more(_reasons(left_out), len(left_out))}")
    text += _left_out_notes(study)
    # Not the keys of a record: clean speech has no changes, and some networks have no Cllr.
    keys = ["network", "condition", "degradation", "family", "grade", "unit"]
    for metric in METRICS:
        keys += [metric, f"{metric}_low", f"{metric}_high"]
        keys += [f"{metric}_change", f"{metric}_change_low", f"{metric}_change_high"]
    keys += ["eer_p_holm", "min_dcf_p_holm"]
    records = _records(study)
    facts = [f"{name}: {value}" for name, value in made_by.items()]
    return {
        "results.json": _json(study, records, left_out, made_by),
        "results.csv": as_csv(keys, records),
        "results.tex": "\n".join([PACKAGES, *map(as_latex, tables.values())]),
        "results.txt": "\n\n".join(text) + "\n",
        "report.html": _page(study, tables, left_out, facts),
    }


def _json(
    study: Study,
    records: list[dict[str, Any]],
    left_out: Mapping[str, str],
    made_by: Mapping[str, str],
) -> str:
    thresholds = {}
    for name, judging in study.judging.items():
        thresholds[name] = {"threshold": judging.threshold, "source": judging.source}
    comparisons = []
    for row in study.compared:
        record: dict[str, Any] = {"first": row.first, "second": row.second}
        record["condition"] = row.condition
        for metric, interval in row.changes.items():
            record |= _interval_record(f"{metric}_difference", interval)
            record[f"{metric}_p"] = interval.p_value
            record[f"{metric}_p_holm"] = row.p_values[metric]
        comparisons.append(record)
    return as_json(
        {
            "made_by": dict(made_by),
            "bona_fide": study.counts[0],
            "spoof": study.counts[1],
            "intervals_over": _drawn(study),
            "thresholds": thresholds,
            "results": records,
            "comparisons": comparisons,
            "clipped_copies": study.clipped,
            "not_measured": dict(left_out),
            "left_out_trials": study.left_out,
        }
    )


def _records(study: Study) -> list[dict[str, Any]]:
    """Return the results as flat records of plain values; rates are fractions."""
    by_name = {condition.name: condition for condition in study.conditions}
    rows = []
    for measured in study.measured:
        row: dict[str, Any] = {"network": measured.network, "condition": measured.condition}
        condition = by_name.get(measured.condition)
        if condition is not None:
            degradation = condition.degradation
            # JSON has no NaN.
            grade = None if math.isnan(condition.grade) else condition.grade
            row |= {"degradation": degradation.name, "family": degradation.family}
            row |= {"grade": grade, "unit": degradation.unit}
        for metric in METRICS:
            row |= _interval_record(metric, measured.values.get(metric))
            row |= _interval_record(f"{metric}_change", measured.changes.get(metric))
        for metric, p_value in measured.p_values.items():
            row[f"{metric}_p_holm"] = p_value
        rows.append(row)
    return rows


def _interval_record(name: str, interval: Interval | None) -> dict[str, float]:
    if interval is None:
        return {}
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _drawn(study: Study) -> str:
    return "speakers" if study.by_speakers else "trials"


def _rows_of(study: Study, network: str) -> list[Measured]:
    return [row for row in study.measured if row.network == network]


def _labels(study: Study, rows: Sequence[Measured] | Sequence[Compared]) -> list[str]:
    """Return the display names of conditions."""
    labels = {condition.name: condition.label for condition in study.conditions}
    return [labels.get(row.condition, CLEAN) for row in rows]


def _condition_table(study: Study, network: str) -> Table:
    """Return the table of a detector: a row per condition, clean speech first."""
    rows = _rows_of(study, network)

    def numbers(metric: str) -> list[Value]:
        """Return numbers with intervals as tooltips; CSV and JSON have the intervals too."""
        values = []
        for row in rows:
            known = row.values.get(metric)
            if known is None:
                values.append(Value())
            else:
                title = f"95 % over this set: {known.low:.4g} to {known.high:.4g}"
                values.append(Value(known.value, title=title))
        return values

    columns: Columns = [
        (rate("eer", "EER %", over=_OVER), [_value(row.values["eer"]) for row in rows]),
        (
            rate("eer_change", "change", over=_OVER, lower_is_better=None),
            [_value(row.changes.get("eer")) for row in rows],
        ),
        p_values([row.p_values.get("eer") for row in rows]),
        (rate("miss", "miss %"), numbers("miss")),
        (rate("false_alarm", "false alarm %"), numbers("false_alarm")),
        (Column("min_dcf", "minDCF"), numbers("min_dcf")),
        (Column("cllr", "Cllr", digits=3, paper_digits=3), numbers("cllr")),
    ]
    return Table(_labels(study, rows), columns, "condition")


def _value(interval: Interval | None) -> Value:
    return Value() if interval is None else Value(interval.value, {"trials": interval})


def _comparison_tables(study: Study) -> dict[str, Table]:
    """Return a table of differences for each pair of detectors, by caption."""
    pairs: dict[tuple[str, str], list[Compared]] = {}
    for row in study.compared:
        pairs.setdefault((row.first, row.second), []).append(row)
    tables = {}
    for (first, second), rows in pairs.items():
        verdicts = []
        for row in rows:
            # Differences are second - first, of error rates.
            better = second if row.changes["eer"].value < 0 else first
            verdicts.append(f"{better} is better" if row.p_values["eer"] < SIGNIFICANT else "")
        column = rate("difference", "EER % difference", over=_OVER)
        columns: Columns = [
            (column, [_value(row.changes["eer"]) for row in rows]),
            p_values([row.p_values["eer"] for row in rows]),
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
    reasons = _reasons(study.left_out)
    if not reasons:
        return []
    return [
        f"{len(reasons):,} recordings are excluded from all results, since a condition lacks "
        f"them:{lines_and_more(reasons, _SHOWN)}"
    ]


def _reasons(left_out: Mapping[str, str]) -> list[str]:
    return [f"{name}: {reason}" for name, reason in left_out.items()]


def _page(
    study: Study, tables: Mapping[str, Table], left_out: Mapping[str, str], facts: Sequence[str]
) -> str:
    """Return a study as a page; `facts` are the small print below its title."""
    caption = ": rates in % with intervals of 95 %"
    figures = _grades_figures(study)
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
        compared = []
        for name, table in _comparison_tables(study).items():
            compared.append(as_page(table, f"EER in %: {name}"))
        words = ["Below zero the first detector is better; p-values hold for all rows (Holm)."]
        sections.append(Section("detectors", "Detectors against each other", words, compared))
    if left_out:
        items = Items("Degradations that were not measured", "", _reasons(left_out))
        sections.append(Section("left-out", "Not measured", lists=[items]))
    alarms = list(filter(None, (_worst_sentence(study, network) for network in study.judging)))
    title = f"Robustness of {', '.join(study.judging)}"
    return document_page(Document(title, [_lead(study)], sections, alarms=alarms, facts=facts))


def _worst_sentence(study: Study, network: str) -> str:
    """Return the conditions with the largest effect on a detector; '' if none is significant."""
    costly = []
    for row in _rows_of(study, network):
        if row.changes and row.changes["eer"].value > 0 and row.p_values["eer"] < SIGNIFICANT:
            costly.append(row)
    costly = sorted(costly, key=lambda row: -row.changes["eer"].value)[:_WORST]
    worst = []
    for row, label in zip(costly, _labels(study, costly), strict=True):
        worst.append(f"{label} (EER {100 * row.values['eer'].value:.1f} %)")
    return f"{network} suffers most from {', '.join(worst)}." if worst else ""


@dataclass(frozen=True)
class _Shown:
    """What a figure shows for each condition.

    Attributes:
        metric: Name of the metric, as in `METRICS`.
        axis: Label of the vertical axis, before the unit.
        unit: '%' for rates, which are stored as fractions; ''.
    """

    metric: str
    name: str
    axis: str
    unit: str = ""
    digits: int = 2

    @property
    def scale(self) -> int:
        """Factor from values to displayed numbers."""
        return 100 if self.unit == "%" else 1


_FIGURES = (
    _Shown("eer", "EER", "EER", "%"),
    _Shown("miss", "Misses", "genuine called spoofed", "%"),
    _Shown("false_alarm", "False alarms", "spoofed called genuine", "%"),
    _Shown("min_dcf", "minDCF", "minDCF", digits=4),
    _Shown("cllr", "Cllr", "Cllr", "bits", digits=3),
)


def _grades_figures(study: Study) -> list[Figure]:
    """Return a figure per metric, with a panel for each degradation with several grades."""
    graded: dict[str, list[Condition]] = {}
    for condition in study.conditions:
        graded.setdefault(condition.degradation.name, []).append(condition)
    # A single grade makes no line.
    several = [conditions for conditions in graded.values() if len(conditions) > 1]
    names = [(Line((), number), name) for number, name in enumerate(study.judging)]
    legends = [Legend("", names)] if len(names) > 1 else []
    figures = []
    for shown in _FIGURES:
        known = [row.values[shown.metric] for row in study.measured if shown.metric in row.values]
        if not several or not known:
            continue
        # Above zero even if nothing went wrong, since an axis needs a length.
        top = max(0.01, 1.05 * max(value.high for value in known)) * shown.scale
        panels = [_grade_panel(study, conditions, shown, top) for conditions in several]
        text = "Bars are intervals of 95 %, the level line is clean speech."
        key = "grades" if shown.metric == "eer" else f"grades-{shown.metric}"
        figures.append(Figure(key, f"{shown.name} by grade", text, panels, legends=legends))
    return figures


def _grade_panel(study: Study, conditions: Sequence[Condition], shown: _Shown, top: float) -> Panel:
    degradation = conditions[0].degradation
    label = f"{shown.axis} ({shown.unit})" if shown.unit else shown.axis
    ticks = list(map(float, range(len(conditions))))
    labels = {tick: tick_text(c.grade) for tick, c in zip(ticks, conditions, strict=True)}
    lines: list[Line] = []
    words = []
    for number, network in enumerate(study.judging):
        of_network = {row.condition: row.values for row in _rows_of(study, network)}
        # Not every detector has likelihood ratios.
        if shown.metric not in of_network[CLEAN]:
            continue
        clean = shown.scale * of_network[CLEAN][shown.metric].value
        lines.append(Line([-0.4, clean, ticks[-1] + 0.4, clean], number, css="noise"))
        points: list[float] = []
        marks = {}
        for tick, condition in zip(ticks, conditions, strict=True):
            known = of_network[condition.name][shown.metric]
            low, value, high = (shown.scale * end for end in (known.low, known.value, known.high))
            lines.append(Line([tick, low, tick, high], number))
            points += [tick, value]
            text = f"{shown.name} {value:.{shown.digits}f} {shown.unit}".rstrip()
            words.append(f"{network}, {condition.label}: {text}")
            marks[tick] = f"{network}, {labels[tick]}: {text}"
        lines.append(Line(points, number, mark_words=_words_at(marks)))
    return Panel(
        Axis(-0.4, ticks[-1] + 0.4, ticks, degradation.unit, text=labels.__getitem__),
        Axis(0, top, nice_ticks(0, top, 4), label),
        *_PANEL,
        title=degradation.name,
        description=f"{degradation.name}, {degradation.words}. {'; '.join(words)}",
        lines=lines,
    )


def _words_at(marks: Mapping[float, str]) -> Callable[[float, float], str]:
    return lambda x, y: marks[x]

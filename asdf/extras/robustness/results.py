"""Output of a study as text, CSV, JSON, LaTeX, a page and plots.

Invariant: every number is one of the study's; omitted and clipped recordings are stated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asdf.extras.robustness.conditions import CLEAN, Chosen, Condition
from asdf.extras.robustness.measuring import METRICS, Compared, Judging, Measured
from asdf.extras.robustness.running import Study
from asdf.metrics.bootstrap import SIGNIFICANT, Interval
from asdf.report import Document, Figure, Items, Legend, Section, document_page
from asdf.tables.booktabs import PACKAGES, as_latex
from asdf.tables.comma_separated import as_csv
from asdf.tables.page_cells import as_page
from asdf.tables.panels import Axis, Line, Panel, nice_ticks, tick_text
from asdf.tables.plain_json import as_json
from asdf.tables.plain_text import as_text
from asdf.tables.table import Column, Columns, Table, Value, rate, texts
from asdf.text import lines_and_more, p_value_text

_SHOWN = 5
_PANEL = (340, 240)
_WORST = 3
_GRADES = "What each degradation costs at its grades."
_ONE_THRESHOLD = "Errors are at the one threshold of each detector, whatever the degradation."


def study_files(study: Study, chosen: Chosen, made_by: Mapping[str, str]) -> dict[str, str]:
    """Return the contents of all files of a study, by name.

    Args:
        made_by: Provenance of the study: versions, command, digests.
    """
    facts = [f"{name}: {value}" for name, value in made_by.items()]
    text = "\n\n".join([study_text(study, chosen.left_out).rstrip("\n"), *chosen.notes]) + "\n"
    return {
        "results.json": study_json(study, chosen.left_out, made_by),
        "results.csv": study_csv(study),
        "results.tex": study_latex(study),
        "results.txt": text,
        "report.html": study_page(study, chosen.left_out, [*facts, *chosen.notes]),
    }


def study_text(study: Study, left_out: Mapping[str, str]) -> str:
    """Return a study as text.

    Args:
        left_out: Reasons for degradations that were not measured, by name.
    """
    parts = [lead(study)]
    for network in study.judging:
        parts += [
            judging_sentence(network, study.judging[network]),
            *as_text(condition_table(study, network)),
        ]
    for caption, table in comparison_tables(study).items():
        parts += [f"{caption}; below zero, the first of the two is better", *as_text(table)]
    parts += notes(study, left_out)
    return "\n\n".join(parts) + "\n"


def study_json(study: Study, left_out: Mapping[str, str], made_by: Mapping[str, Any]) -> str:
    """Return a study as JSON, with its provenance."""
    bona_fide, spoof = study.counts
    thresholds = {}
    for name, judging in study.judging.items():
        thresholds[name] = {"threshold": judging.threshold, "source": judging.source}
    return as_json(
        {
            "made_by": dict(made_by),
            "bona_fide": bona_fide,
            "spoof": spoof,
            "intervals_over": _over(study),
            "thresholds": thresholds,
            "results": records(study),
            "comparisons": list(map(_comparison_record, study.compared)),
            "clipped_copies": study.clipped,
            "not_measured": dict(left_out),
            "left_out_trials": study.left_out,
        }
    )


def study_csv(study: Study) -> str:
    """Return a row for each detector and condition, with all digits."""
    # Not the keys of a record: clean speech has no changes, and some networks have no Cllr.
    keys = ["network", "condition", "degradation", "family", "grade", "unit"]
    for metric in METRICS:
        keys += [metric, f"{metric}_low", f"{metric}_high"]
        keys += [f"{metric}_change", f"{metric}_change_low", f"{metric}_change_high"]
    keys += ["eer_p_holm", "min_dcf_p_holm"]
    return as_csv(keys, records(study))


def study_latex(study: Study) -> str:
    """Return a table for each detector."""
    parts = [PACKAGES]
    for network in study.judging:
        parts.append(as_latex(condition_table(study, network)))
    return "\n".join(parts)


def records(study: Study) -> list[dict[str, Any]]:
    """Return the results as flat records of plain values; rates are fractions."""
    by_name = _by_name(study)
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
            row |= interval_record(metric, measured.values.get(metric))
            row |= interval_record(f"{metric}_change", measured.changes.get(metric))
        for metric, p_value in measured.p_values.items():
            row[f"{metric}_p_holm"] = p_value
        rows.append(row)
    return rows


def interval_record(name: str, interval: Interval | None) -> dict[str, float]:
    """Return a value with its bounds as flat plain values; {} for None."""
    if interval is None:
        return {}
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _comparison_record(row: Compared) -> dict[str, Any]:
    record: dict[str, Any] = {"first": row.first, "second": row.second}
    record["condition"] = row.condition
    for metric, interval in (("eer", row.differences.eer), ("min_dcf", row.differences.min_dcf)):
        record |= interval_record(f"{metric}_difference", interval)
        record[f"{metric}_p"] = interval.p_value
        record[f"{metric}_p_holm"] = row.p_values[metric]
    return record


def _by_name(study: Study) -> dict[str, Condition]:
    by_name = {}
    for condition in study.conditions:
        by_name[condition.name] = condition
    return by_name


def _over(study: Study) -> str:
    return "speakers" if study.by_speakers else "trials"


def condition_table(study: Study, network: str) -> Table:
    """Return the table of a detector: a row per condition, clean speech first."""
    rows = _rows_of(study, network)
    labels = _labels(study, rows)
    over = {"trials": "95 %"}
    changes = []
    for row in rows:
        changed = row.changes.get("eer")
        changes.append(Value() if changed is None else Value(changed.value, {"trials": changed}))
    p_values = []
    for row in rows:
        p_values.append(_p_text(row.p_values.get("eer")))
    columns: Columns = [
        (rate("eer", "EER %", over=over), _intervals(rows, "eer")),
        (rate("eer_change", "change", over=over, lower_is_better=None), changes),
        texts("p", p_values),
        (rate("miss", "miss %"), _numbers(rows, "miss")),
        (rate("false_alarm", "false alarm %"), _numbers(rows, "false_alarm")),
        (Column("min_dcf", "minDCF"), _numbers(rows, "min_dcf")),
        (Column("cllr", "Cllr", digits=3, paper_digits=3), _numbers(rows, "cllr")),
    ]
    return Table(labels, columns, "condition")


def _rows_of(study: Study, network: str) -> list[Measured]:
    rows = []
    for row in study.measured:
        if row.network == network:
            rows.append(row)
    return rows


def _labels(study: Study, rows: Sequence[Measured | Compared]) -> list[str]:
    """Return the display names of conditions."""
    known = _by_name(study)
    labels = []
    for row in rows:
        condition = known.get(row.condition)
        labels.append(CLEAN if condition is None else condition.label)
    return labels


def _intervals(rows: Sequence[Measured], metric: str) -> list[Value]:
    values = []
    for row in rows:
        known = row.values[metric]
        values.append(Value(known.value, {"trials": known}))
    return values


def _numbers(rows: Sequence[Measured], metric: str) -> list[Value]:
    """Return numbers with intervals as tooltips; CSV and JSON have the intervals too."""
    values = []
    for row in rows:
        known = row.values.get(metric)
        if known is None:
            values.append(Value())
            continue
        title = f"95 % over this set: {known.low:.4g} to {known.high:.4g}"
        values.append(Value(known.value, title=title))
    return values


def _p_text(p_value: float | None) -> str:
    # The text is made for sentences; in a cell, '=' says nothing.
    return "-" if p_value is None else p_value_text(p_value).removeprefix("= ")


def comparison_tables(study: Study) -> dict[str, Table]:
    """Return a table of differences for each pair of detectors, by caption."""
    pairs: dict[tuple[str, str], list[Compared]] = {}
    for row in study.compared:
        pairs.setdefault((row.first, row.second), []).append(row)
    tables = {}
    for (first, second), rows in pairs.items():
        labels = _labels(study, rows)
        p_values = []
        differences = []
        verdicts = []
        for row in rows:
            eer = row.differences.eer
            p_values.append(_p_text(row.p_values["eer"]))
            differences.append(Value(eer.value, {"trials": eer}))
            # Differences are second - first, of error rates.
            better = second if eer.value < 0 else first
            verdicts.append(f"{better} is better" if row.p_values["eer"] < SIGNIFICANT else "")
        column = rate("difference", "EER % difference", over={"trials": "95 %"})
        columns: Columns = [
            (column, differences),
            texts("p", p_values),
            texts("finding", verdicts, is_left=True),
        ]
        tables[f"{second} less {first}"] = Table(labels, columns, "condition")
    return tables


def lead(study: Study) -> str:
    """Return a sentence on what was measured."""
    bona_fide, spoof = study.counts
    conditions = len(study.conditions)
    return (
        f"{bona_fide + spoof:,} recordings ({bona_fide:,} bona fide, {spoof:,} spoofed) as they "
        f"are and under {conditions} {'condition' if conditions == 1 else 'conditions'}."
    )


def judging_sentence(network: str, judging: Judging) -> str:
    """Return the sentence on the threshold of a detector."""
    return (
        f"{network}: misses and false alarms at the threshold {judging.threshold:.4g} on all "
        f"conditions, {judging.source}."
    )


def notes(study: Study, left_out: Mapping[str, str]) -> list[str]:
    """Return the sentences that are needed to read the numbers."""
    lines = [
        f"Intervals of 95 %, bootstrap over {_over(study)}; changes are relative to clean speech "
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
    if left_out:
        lines.append(f"Not measured:{lines_and_more(_reasons(left_out), len(left_out))}")
    return lines + left_out_notes(study.left_out)


def left_out_notes(left_out: Mapping[str, str]) -> list[str]:
    """Return the sentence on recordings that are in no result; [] without any."""
    if not left_out:
        return []
    reasons = _reasons(left_out)
    return [
        f"{len(reasons):,} recordings are excluded from all results, since a condition lacks "
        f"them:{lines_and_more(reasons, _SHOWN)}"
    ]


def _reasons(left_out: Mapping[str, str]) -> list[str]:
    reasons = []
    for name, reason in left_out.items():
        reasons.append(f"{name}: {reason}")
    return reasons


def study_page(study: Study, left_out: Mapping[str, str], facts: Sequence[str]) -> str:
    """Return a study as a page; `facts` are the small print below its title."""
    tables = []
    for network in study.judging:
        caption = f"{network}: rates in % with intervals of 95 %"
        tables.append(as_page(condition_table(study, network), caption))
    figures = grades_figures(study)
    sections = [
        Section("grades", "Error rate by grade", [_GRADES], figures=figures[:1]),
        Section(
            "conditions",
            "All conditions",
            [judging_sentence(network, study.judging[network]) for network in study.judging],
            tables,
            # Degradations that were not measured have a section of their own below.
            notes=notes(study, {}),
        ),
    ]
    if figures[1:]:
        title = "Errors and costs by grade"
        sections.append(Section("costs", title, [_ONE_THRESHOLD], figures=figures[1:]))
    if study.compared:
        compared = []
        for caption, table in comparison_tables(study).items():
            compared.append(as_page(table, f"EER in %: {caption}"))
        text = "Below zero the first detector is better; p-values hold for all rows (Holm)."
        sections.append(Section("detectors", "Detectors against each other", [text], compared))
    if left_out:
        items = Items("Degradations that were not measured", "", _reasons(left_out))
        sections.append(Section("left-out", "Not measured", lists=[items]))
    alarms = [_worst_sentence(study, network) for network in study.judging]
    document = Document(
        f"Robustness of {', '.join(study.judging)}",
        [lead(study)],
        sections,
        alarms=[alarm for alarm in alarms if alarm],
        facts=facts,
    )
    return document_page(document)


def _worst_sentence(study: Study, network: str) -> str:
    """Return the condition with the largest effect on a detector; '' if none is significant."""
    known = _by_name(study)
    costly = []
    for row in _rows_of(study, network):
        if not row.changes or row.changes["eer"].value <= 0:
            continue
        if row.p_values["eer"] < SIGNIFICANT:
            costly.append(row)
    if not costly:
        return ""
    costly.sort(key=lambda row: -row.changes["eer"].value)
    worst = []
    for row in costly[:_WORST]:
        eer = 100 * row.values["eer"].value
        worst.append(f"{known[row.condition].label} (EER {eer:.1f} %)")
    return f"{network} suffers most from {', '.join(worst)}."


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

    def text(self, value: float) -> str:
        """Return a value as displayed text."""
        return f"{self.name} {value:.{self.digits}f} {self.unit}".rstrip()


_EER = _Shown("eer", "EER", "EER", "%")
_MORE = (
    _Shown("miss", "Misses", "genuine called spoofed", "%"),
    _Shown("false_alarm", "False alarms", "spoofed called genuine", "%"),
    _Shown("min_dcf", "minDCF", "minDCF", digits=4),
    _Shown("cllr", "Cllr", "Cllr", "bits", digits=3),
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
    for shown in (_EER, *_MORE):
        known = [row.values[shown.metric] for row in study.measured if shown.metric in row.values]
        if not several or not known:
            continue
        top = max(value.high for value in known)
        # Above zero even if nothing went wrong, since an axis needs a length.
        top = max(0.01, 1.05 * top) * shown.scale
        panels = [_grade_panel(study, conditions, shown, top) for conditions in several]
        text = "Bars are intervals of 95 %, the level line is clean speech."
        key = "grades" if shown is _EER else f"grades-{shown.metric}"
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
        of_network = {row.condition: row for row in _rows_of(study, network)}
        # Not every detector has likelihood ratios.
        if shown.metric not in of_network[CLEAN].values:
            continue
        clean = shown.scale * of_network[CLEAN].values[shown.metric].value
        lines.append(Line([-0.4, clean, ticks[-1] + 0.4, clean], number, css="noise"))
        points: list[float] = []
        for tick, condition in zip(ticks, conditions, strict=True):
            known = of_network[condition.name].values[shown.metric]
            low, value, high = (shown.scale * end for end in (known.low, known.value, known.high))
            lines.append(Line([tick, low, tick, high], number))
            points += [tick, value]
            words.append(f"{network}, {condition.label}: {shown.text(value)}")
        by_tick = dict(zip(points[::2], points[1::2], strict=True))
        lines.append(Line(points, number, mark_words=_mark_words(network, labels, by_tick, shown)))
    return Panel(
        Axis(-0.4, ticks[-1] + 0.4, ticks, degradation.unit, text=labels.__getitem__),
        Axis(0, top, nice_ticks(0, top, 4), label),
        *_PANEL,
        title=degradation.name,
        description=f"{degradation.name}, {degradation.words}. {'; '.join(words)}",
        lines=lines,
    )


def _mark_words(
    network: str, labels: Mapping[float, str], values: Mapping[float, float], shown: _Shown
) -> Any:
    return lambda x, y: f"{network}, {labels[x]}: {shown.text(values[x])}"

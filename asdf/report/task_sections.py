"""What the page shows of source tracing and of localisation: tables, and confusion matrices.

Invariant: as in `results`: numbers are rounded for the eye only. No value is called the best, as no
test says so; systems are in the order of accuracy, or of the range EER.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asdf.report.located import LocatedResult
from asdf.report.names import labels_of
from asdf.report.task_columns import POINT_EER, located_columns, source_columns
from asdf.report.task_results import TaskResult, Value, sets_of
from asdf.tables.page import (
    ABSENT,
    Cell,
    PageTable,
    count_cell,
    head_cells,
    name_cell,
    percent,
    value_cell,
)
from asdf.tasks.tracing.measures import SourceResult
from asdf.tasks.tracing.tables import confusion_svg, has_matrix_table

_LABEL = 28
# A page of more and larger pictures is one that no browser shows quickly.
_MAX_PICTURES = 8
_MAX_PICTURE_CLASSES = 40


@dataclass(frozen=True)
class ConfusionSection:
    """The confusion matrix of a system on a set.

    Attributes:
        svg: '' where it has too many classes.
        matrix: None where it has too many columns to be read.
    """

    name: str
    svg: str
    matrix: PageTable | None
    classes: PageTable


@dataclass(frozen=True)
class SourceSection:
    """A set whose sources were traced.

    Attributes:
        left_out: the number of systems without a matrix.
    """

    name: str
    results: PageTable
    confusions: list[ConfusionSection]
    left_out: int


def source_sections(traced: Sequence[TaskResult[SourceResult]]) -> list[SourceSection]:
    """Return a section per set, its systems by accuracy."""
    labels = _labels(traced)
    sections = []
    for number, set_name in enumerate(sets_of(traced)):
        on_set = [entry for entry in traced if entry.set == set_name]
        on_set.sort(key=lambda entry: -entry.result.closed["accuracy"])
        confusions = []
        for index, entry in enumerate(on_set[:_MAX_PICTURES]):
            confusions.append(_confusion(entry, f"confusion-{number}-{index}-"))
        left_out = len(on_set) - len(confusions)
        table = _sources_table(set_name, on_set, labels)
        sections.append(SourceSection(set_name, table, confusions, left_out))
    return sections


def localisation_tables(located: Sequence[TaskResult[LocatedResult]]) -> list[PageTable]:
    """Return a table per set, its systems by range EER."""
    labels = _labels(located)
    tables = []
    for set_name in sets_of(located):
        on_set = [entry for entry in located if entry.set == set_name]
        on_set.sort(key=lambda entry: entry.result.range_eer)
        columns = located_columns([entry.result for entry in on_set])
        head = ["System", "Network", *(column.heading for column, _ in columns), "Chosen on"]
        # How long frames are stands behind the point EER, which is theirs.
        place = head.index(POINT_EER.heading) + 1
        head.insert(place, "Frames of")
        rows = []
        for index, entry in enumerate(on_set):
            row = _name_cells(entry, labels)
            row += [value_cell(column, values[index]) for column, values in columns]
            hop_s = entry.result.hop_s
            row.insert(place, Cell(f"{1000 * hop_s:g} ms", hop_s))
            chosen_on = entry.result.threshold_of
            row.append(Cell("this set itself" if chosen_on == entry.set else chosen_on))
            rows.append(row)
        caption = f"Localisation on {set_name}{_drawn(on_set)}"
        tables.append(PageTable(caption, head_cells(head), rows, "metrics"))
    return tables


def _labels(entries: Sequence[TaskResult[Value]]) -> dict[str, str]:
    systems = list(dict.fromkeys(entry.system for entry in entries))
    return dict(zip(systems, labels_of(systems, _LABEL), strict=True)) if systems else {}


def _name_cells(entry: TaskResult[Value], labels: Mapping[str, str]) -> list[Cell]:
    return [name_cell(entry.system, labels[entry.system]), Cell(entry.network)]


def _sources_table(
    set_name: str, on_set: Sequence[TaskResult[SourceResult]], labels: Mapping[str, str]
) -> PageTable:
    columns = source_columns([entry.result for entry in on_set])
    has_open = any(entry.result.open for entry in on_set)
    head = ["System", "Network", "Column", "Classes", "Known", "Unknown"]
    head += [column.heading for column, _ in columns]
    if has_open:
        head.append("Rejected by")
    rows = []
    for index, entry in enumerate(on_set):
        result = entry.result
        row = [*_name_cells(entry, labels), Cell(result.column)]
        row += map(count_cell, (len(result.classes), result.known, result.unknown))
        row += [value_cell(column, values[index]) for column, values in columns]
        if has_open:
            row.append(Cell(result.open.rejection if result.open else ABSENT))
        rows.append(row)
    has_intervals = any(entry.result.intervals for entry in on_set)
    caption = f"Sources on {set_name}"
    if has_intervals:
        caption += ", with 95 % intervals over trials"
    return PageTable(caption, head_cells(head), rows, "metrics")


def _confusion(entry: TaskResult[SourceResult], prefix: str) -> ConfusionSection:
    result = entry.result
    title = f"{entry.system} on {entry.set}"
    svg = ""
    if len(result.classes) <= _MAX_PICTURE_CLASSES:
        svg = confusion_svg(title, result, prefix)
    matrix = None
    if has_matrix_table(result):
        rows = []
        for name, counts in zip(result.classes, result.confusion_KK.tolist(), strict=True):
            rows.append([Cell(name), *map(count_cell, counts)])
        head = head_cells(("Trials of, called", *result.classes))
        matrix = PageTable(f"Confusion matrix of {title}", head, rows)
    return ConfusionSection(title, svg, matrix, _class_table(title, result))


def _class_table(title: str, result: SourceResult) -> PageTable:
    rows = []
    for entry in result.by_class:
        row = [Cell(entry.name), count_cell(entry.trials)]
        for rate in (entry.precision, entry.recall, entry.f1):
            row.append(Cell(percent(rate), 100 * rate))
        rows.append(row)
    head = head_cells(("Class", "Trials", "Precision %", "Recall %", "F1 %"))
    return PageTable(f"Classes of {title}", head, rows)


def _drawn(on_set: Sequence[TaskResult[LocatedResult]]) -> str:
    drawn = dict.fromkeys(entry.result.drawn for entry in on_set if entry.result.drawn)
    return f", with 95 % intervals over {' or '.join(drawn)}" if drawn else ""

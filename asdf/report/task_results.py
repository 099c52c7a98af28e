"""Source tracing and localisation: the results that runs recorded, and their part of the page.

Invariant: the numbers are those that stage 3 wrote to the results of the run, rounded only for
display; a network whose scores were removed has no result. A damaged file becomes a finding, and
the rest is read. No value is marked as the best, because there is no test; systems are sorted by
accuracy, or by range EER.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from asdf.runs.layout import NetworkName
from asdf.tables.page_cells import ABSENT, PageTable, as_page
from asdf.tables.table import Column, Columns, Table, Value, counts, each, labels_of, texts
from asdf.tasks.localisation.located_measures import (
    POINT_EER,
    LocatedResult,
    located_columns,
    located_result,
)
from asdf.tasks.studies.configurations import ReportFinding
from asdf.tasks.tracing.source_measures import (
    SourceResult,
    class_table,
    confusion_svg,
    has_matrix_table,
    matrix_table,
    source_columns,
    source_result,
)
from asdf.tasks.tracing.source_scores import sources_file
from asdf.trials.run_folder import RunFolder, read_records
from asdf.trials.score_file import missing_class

Result = TypeVar("Result", SourceResult, LocatedResult)
_LABEL = 28
# Maximum number of plots; a page with more or larger ones loads slowly.
_MAX_PICTURES = 8
_MAX_PICTURE_CLASSES = 40


@dataclass(frozen=True)
class TaskResult(Generic[Result]):
    """A network of a run on a set.

    Attributes:
        system: Name in the report.
        network: Name of the network, such as 'epoch.20'.
    """

    system: str
    network: str
    set: str
    result: Result


@dataclass
class TaskResults:
    """The results of all runs, in the order of the runs."""

    traced: list[TaskResult[SourceResult]] = field(default_factory=list)
    located: list[TaskResult[LocatedResult]] = field(default_factory=list)
    findings: list[ReportFinding] = field(default_factory=list)

    def add_run(self, name: str, run: RunFolder, networks: Collection[str] | None) -> None:
        """Add the results of a run.

        Args:
            networks: Networks to show; None: all networks of the last report.
        """
        layout = run.layout

        def frames(network: str, set_name: str) -> Path:
            return layout.frames_file(NetworkName(network), set_name)

        def sources(network: str, set_name: str) -> Path:
            return sources_file(run.score_file(network, set_name))

        traced = self._read(name, layout.sources_json, "system", source_result, sources)
        located = self._read(name, layout.localisation_json, "network", located_result, frames)
        if networks is not None:
            traced = [entry for entry in traced if entry.network in networks]
            located = [entry for entry in located if entry.network in networks]
        # As in the tables of detection, several networks of a run need their own names.
        shown = {*each(traced, "network"), *each(located, "network")}
        names = {network: f"{name} {network}" for network in shown}
        if len(shown) < 2 and len(networks or ()) < 2:
            names = dict.fromkeys(shown, name)
        self.traced += [replace(entry, system=names[entry.network]) for entry in traced]
        self.located += [replace(entry, system=names[entry.network]) for entry in located]

    def _read(
        self,
        name: str,
        path: Path,
        key: str,
        reader: Callable[[Mapping[str, Any]], Result],
        scores: Callable[[str, str], Path],
    ) -> list[TaskResult[Result]]:
        """Return the results of the networks whose `scores` were not removed."""
        results = []
        try:
            for record in read_records(path):
                network, set_name = str(record[key]), str(record["set"])
                results.append(TaskResult(network, network, set_name, reader(record)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            message = f"{path.name} is damaged ({error!r}): run stage 3 again."
            self.findings.append(ReportFinding(name, "error", message))
            return []
        return [entry for entry in results if scores(entry.network, entry.set).exists()]


def sets_of(results: Sequence[TaskResult[Result]]) -> list[str]:
    """Return the sets that have results, in the order of the first run."""
    return list(dict.fromkeys(entry.set for entry in results))


def has_sources_alone(run: RunFolder, network: str, set_name: str) -> bool:
    """Whether sources were traced on a set whose trials are all of one class, so no EER exists.

    Raises:
        AsdfError: the score file is malformed.
    """
    if not sources_file(run.score_file(network, set_name)).exists():
        return False
    return bool(missing_class(run.scores(network, set_name).labels))


@dataclass(frozen=True)
class SourceSection:
    """A set on which sources were traced.

    Attributes:
        confusions: Confusion matrices of systems: name, svg ('' if there are too many classes),
            matrix (None if a table has too many columns) and classes.
        left_out: Number of systems without a matrix.
    """

    name: str
    results: PageTable
    confusions: list[dict[str, Any]]
    left_out: int


def source_sections(traced: Sequence[TaskResult[SourceResult]]) -> list[SourceSection]:
    """Return a section per set, with its systems sorted by accuracy."""
    labels = _labels(traced)
    sections = []
    for number, set_name in enumerate(sets_of(traced)):
        on_set = [entry for entry in traced if entry.set == set_name]
        on_set.sort(key=lambda entry: -entry.result.closed["accuracy"])
        # The ids of several matrices on one page must differ.
        numbered = enumerate(on_set[:_MAX_PICTURES])
        confusions = [_confusion(entry, f"confusion-{number}-{i}-") for i, entry in numbered]
        results = each(on_set, "result")
        columns: Columns = [
            texts("Column", each(results, "column")),
            counts("Classes", [len(result.classes) for result in results]),
            counts("Known", each(results, "known")),
            counts("Unknown", each(results, "unknown")),
            *source_columns(results),
        ]
        if any(result.open for result in results):
            rejected = [result.open.rejection if result.open else ABSENT for result in results]
            columns.append(texts("Rejected by", rejected))
        caption = f"Sources on {set_name}"
        if any(result.intervals for result in results):
            caption += ", with 95 % intervals over trials"
        table = as_page(_table(on_set, labels, columns), caption, "metrics")
        left_out = len(on_set) - len(confusions)
        sections.append(SourceSection(set_name, table, confusions, left_out))
    return sections


def localisation_tables(located: Sequence[TaskResult[LocatedResult]]) -> list[PageTable]:
    """Return a table per set, with its systems sorted by range EER."""
    labels = _labels(located)
    tables = []
    for set_name in sets_of(located):
        on_set = [entry for entry in located if entry.set == set_name]
        on_set.sort(key=lambda entry: entry.result.range_eer)
        columns: Columns = []
        for column, values in located_columns(each(on_set, "result")):
            columns.append((column, values))
            # The frame length follows the point EER, to which it applies.
            if column is POINT_EER:
                hops = [Value(e.result.hop_s, text=f"{1000 * e.result.hop_s:g} ms") for e in on_set]
                columns.append((Column("hop_s", "Frames of"), hops))
        chosen = each(on_set, "result.threshold_of")
        words = ["this set itself" if name == set_name else name for name in chosen]
        columns.append(texts("Chosen on", words))
        drawn = dict.fromkeys(entry.result.drawn for entry in on_set if entry.result.drawn)
        caption = f"Localisation on {set_name}"
        if drawn:
            caption += f", with 95 % intervals over {' or '.join(drawn)}"
        tables.append(as_page(_table(on_set, labels, columns), caption, "metrics"))
    return tables


def _labels(entries: Sequence[TaskResult[Result]]) -> dict[str, str]:
    systems = list(dict.fromkeys(entry.system for entry in entries))
    return dict(zip(systems, labels_of(systems, _LABEL), strict=True)) if systems else {}


def _table(
    on_set: Sequence[TaskResult[Result]], labels: Mapping[str, str], columns: Columns
) -> Table:
    systems = each(on_set, "system")
    networks = texts("Network", each(on_set, "network"))
    return Table(systems, [networks, *columns], "System", labels=[labels[name] for name in systems])


def _confusion(entry: TaskResult[SourceResult], prefix: str) -> dict[str, Any]:
    result = entry.result
    title = f"{entry.system} on {entry.set}"
    is_drawn = len(result.classes) <= _MAX_PICTURE_CLASSES
    matrix = None
    if has_matrix_table(result):
        matrix = as_page(matrix_table(result, "Trials of, called"), f"Confusion matrix of {title}")
    classes = class_table(result, ("Class", "Trials", "Precision", "Recall", "F1"))
    return {
        "name": title,
        "svg": confusion_svg(title, result, prefix) if is_drawn else "",
        "matrix": matrix,
        "classes": as_page(classes, f"Classes of {title}"),
    }

"""Results of runs beyond detection: source tracing and localisation.

Invariant: the numbers are those that stage 3 wrote to the results of the run; a network whose
scores were removed has no result. A damaged file becomes a finding, and the rest is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from asdf.runs.layout import NetworkName
from asdf.tasks.localisation.located_record import LocatedResult, located_result
from asdf.tasks.studies.measured import ReportFinding
from asdf.tasks.tracing.source_measures import SourceResult
from asdf.tasks.tracing.source_scores import sources_file
from asdf.tasks.tracing.source_tables import source_result
from asdf.trials.run_folder import RunFolder, read_records
from asdf.trials.score_file import missing_class

Value = TypeVar("Value", SourceResult, LocatedResult)


@dataclass(frozen=True)
class TaskResult(Generic[Value]):
    """A network of a run on a set.

    Attributes:
        system: Name in the report.
        network: Name of the network, such as 'epoch.20'.
    """

    system: str
    network: str
    set: str
    result: Value


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
        traced = self._read(name, layout.sources_json, "system", source_result)
        located = self._read(name, layout.localisation_json, "network", located_result)
        # A network whose scores were removed has no result.
        files = [run.score_file(entry.network, entry.set) for entry in traced]
        pairs = zip(traced, files, strict=True)
        traced = [entry for entry, file in pairs if sources_file(file).exists()]
        frames = [run.layout.frames_file(NetworkName(e.network), e.set) for e in located]
        located = [entry for entry, file in zip(located, frames, strict=True) if file.exists()]
        if networks is not None:
            traced = [entry for entry in traced if entry.network in networks]
            located = [entry for entry in located if entry.network in networks]
        shown = {entry.network for entry in traced} | {entry.network for entry in located}
        # As in the tables of detection, several networks of a run need their own names.
        is_system = len(shown) < 2 and len(networks or ()) < 2
        self.traced += [_named(entry, name, is_system) for entry in traced]
        self.located += [_named(entry, name, is_system) for entry in located]

    def _read(
        self, name: str, path: Path, key: str, reader: Callable[[Mapping[str, Any]], Value]
    ) -> list[TaskResult[Value]]:
        results = []
        try:
            for record in read_records(path):
                network = str(record[key])
                result = TaskResult(network, network, str(record["set"]), reader(record))
                results.append(result)
            return results
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            message = f"{path.name} is damaged ({error!r}): run stage 3 again."
            self.findings.append(ReportFinding(name, "error", message))
            return []


def sets_of(results: Sequence[TaskResult[Value]]) -> list[str]:
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


def _named(entry: TaskResult[Value], name: str, is_system: bool) -> TaskResult[Value]:
    system = name if is_system else f"{name} {entry.network}"
    return TaskResult(system, entry.network, entry.set, entry.result)

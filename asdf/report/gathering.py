"""Data of a report: runs, chosen networks of each, and their summaries on every set.

Invariant: every number comes from `summarise` or directly from the run's files. A network is chosen
on its validation set, never on an evaluation set. The order is by EER, then by the order in which
the runs were given, so the same folders give the same report. A measurement that fails is a
finding; findings that differ only in numbers are folded, and can be expanded. Results of source
tracing and localisation are those that stage 3 wrote; a network whose scores were removed has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

from asdf.errors import AsdfError
from asdf.metrics.detection import DetCurve
from asdf.metrics.score_checks import Finding
from asdf.metrics.summary import (
    Summary,
    are_comparable,
    different_trials,
    leaders,
    mixed_scoring,
    speakers_of,
    summarise,
)
from asdf.report.curves import DET_TICKS, Histogram, ThinnedCurve, histogram, thinned_det
from asdf.runs.evaluations import best_network, describe_stale
from asdf.runs.layout import Layout, NetworkName, runs_inside
from asdf.scoring.network_check import replaced_network
from asdf.tables.table import each, labels_of
from asdf.tasks.localisation.located_measures import LocatedResult, located_result
from asdf.tasks.studies.configurations import Measured
from asdf.tasks.studies.generalisation import Generalisation, measure_generalisation
from asdf.tasks.studies.left_out import LeftOutSystem, evaluates_left_out, measure_left_out
from asdf.tasks.studies.seed_results import OverSeeds, measure_over_seeds
from asdf.tasks.tracing.source_measures import SourceResult, source_result
from asdf.tasks.tracing.source_scores import sources_file
from asdf.text import and_more
from asdf.trials.run_folder import RunFolder, open_run_folder, read_records
from asdf.trials.score_file import Scores, missing_class
from asdf.trials.scored_files import how_scored
from asdf.trials.trial_list import TrialList

Choice = Literal["best", "reported", "all"]
Result = TypeVar("Result", SourceResult, LocatedResult)
_MAX_PARTS = 32
_MAX_VALUES = 64
_MAX_CURVES = 800
_LABEL = 28
# There may be hundreds of conditions, whose intervals are shown only as tooltips.
_CONDITION_REPLICATES = 200


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
    findings: list[Finding] = field(default_factory=list)

    def add_run(self, name: str, run: RunFolder, networks: Collection[str] | None) -> None:
        """Add the results of a run.

        Args:
            networks: Networks to show; None: all networks of the last report.
        """
        layout = run.layout
        traced = self._read(name, layout.sources_json, "system", source_result)
        located = self._read(name, layout.localisation_json, "network", located_result)
        # Scores of a network may have been removed since.
        traced = [x for x in traced if sources_file(run.score_file(x.network, x.set)).exists()]
        frames_file = layout.frames_file
        located = [x for x in located if frames_file(NetworkName(x.network), x.set).exists()]
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
        self, name: str, path: Path, key: str, reader: Callable[[Mapping[str, Any]], Result]
    ) -> list[TaskResult[Result]]:
        results = []
        try:
            for record in read_records(path):
                network, set_name = str(record[key]), str(record["set"])
                results.append(TaskResult(network, network, set_name, reader(record)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            message = f"{path.name} is damaged ({error!r}): run stage 3 again."
            self.findings.append(Finding("error", message, name))
            return []
        return results


def by_set(results: Sequence[TaskResult[Result]]) -> dict[str, list[TaskResult[Result]]]:
    """Return the results on each set, in the order of the first run."""
    sets: dict[str, list[TaskResult[Result]]] = {}
    for entry in results:
        sets.setdefault(entry.set, []).append(entry)
    return sets


def has_sources_alone(run: RunFolder, network: str, set_name: str) -> bool:
    """Whether sources were traced on a set whose trials are all of one class, so no EER exists.

    Raises:
        AsdfError: the score file is malformed.
    """
    if not sources_file(run.score_file(network, set_name)).exists():
        return False
    return bool(missing_class(run.scores(network, set_name).labels))


def runs_in(paths: Iterable[Path]) -> list[RunFolder]:
    """Return the runs in these folders, which are folders of a run or folders of runs.

    Raises:
        AsdfError: a folder does not exist, or is not such a folder.
    """
    # A run that is given twice, directly and by its parent folder, counts once.
    runs: dict[RunFolder, None] = {}
    for path in paths:
        folders = [path]
        if not Layout(path).settings.exists():
            # A folder without any run is opened too, which explains what it lacks.
            folders = runs_inside(path) or folders
        for folder in folders:
            runs[open_run_folder(folder)] = None
    return list(runs)


def chosen(run: RunFolder, choice: Choice) -> list[tuple[str, str]]:
    """Return (network, set) of the results to show.

    'reported' means 'best' for a run without a report.
    """
    files = run.score_files()
    scored = [(network, set_name) for network, sets in files.items() for set_name in sets]
    if choice == "all":
        return scored
    if choice == "reported":
        # Reported score files may have been removed since.
        reported = [pair for pair in run.reported() if pair in scored]
        if reported:
            return reported
    best = best_network(run.training(), list(files))
    return [(network, set_name) for network, set_name in scored if network == best]


def distinct_names(runs: Sequence[RunFolder]) -> list[str]:
    """Return distinct names of the runs: their folder names, with parent folders if needed."""
    names = [run.name for run in runs]
    # A run that is given twice has equal names with any number of parent folders.
    for parts in range(2, _MAX_PARTS + 1):
        shared = {name for name in names if names.count(name) > 1}
        for index, run in enumerate(runs):
            if names[index] in shared:
                names[index] = "/".join(run.path.parts[-parts:])
    return names


_NUMBER = re.compile(r"\d[\d.,e+-]*")  # 1,234 and 1e-05 are one number each


@dataclass(frozen=True)
class FoldedFindings:
    """Findings of one level whose messages differ only in their numbers."""

    findings: list[Finding]

    @property
    def level(self) -> str:
        """The common level of the findings."""
        return self.findings[0].level

    @property
    def words(self) -> str:
        """The message of a single finding; the text before the numbers of several, or the first."""
        message = self.findings[0].message
        if len(self.findings) == 1:
            return message
        start, colon, _ = message.partition(":")
        # A number in the start would suggest that all findings have it.
        return start if colon and not _NUMBER.search(start) else f"such as: {message}"

    @property
    def where(self) -> str:
        """The system and set of a single finding, or the number of results."""
        if len(self.findings) == 1:
            return self.findings[0].where
        return f"{len(self.findings)} results"

    def as_line(self) -> str:
        """Return level, first places and first message in one line, for a terminal."""
        where = and_more([finding.where for finding in self.findings], 3)
        return f"{self.level}: {where}: {self.findings[0].message}"


def fold_findings(findings: Iterable[Finding]) -> list[FoldedFindings]:
    """Group the findings that differ only in numbers, in the order of the first of each group."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        kind = (finding.level, _NUMBER.sub("#", finding.message))
        groups.setdefault(kind, []).append(finding)
    return list(map(FoldedFindings, groups.values()))


@dataclass(frozen=True)
class Measurement(Measured):
    """One network on one set, with the data for drawing.

    Attributes:
        misses: Miss rates (fractions) at the false alarm rates of `DET_TICKS`, over all spoofs.
        curves: DET curves: '' for all spoofs, the others for attacks.
        page_attacks: Attacks whose curves and histograms are on the page.
    """

    misses: list[float]
    curves: dict[str, ThinnedCurve]
    histogram: Histogram
    page_attacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gathered:
    """The content of a report.

    Attributes:
        names: Distinct name of each run.
        leading: Index (in `on`) of the system that is significantly the best, by set and metric.
        over_seeds: Results over seeds of systems that differ only in their seed.
        generalisation: Results on other corpora; None if all sets are of the training corpus.
        tasks: Results of tasks other than detection.
        left_out: Systems whose runs evaluated the values they left out of training.
    """

    runs: list[RunFolder]
    names: list[str]
    measurements: list[Measurement]
    findings: list[Finding]
    leading: dict[str, dict[str, int]] = field(default_factory=dict)
    over_seeds: OverSeeds = field(default_factory=OverSeeds)
    generalisation: Generalisation | None = None
    tasks: TaskResults = field(default_factory=TaskResults)
    left_out: list[LeftOutSystem] = field(default_factory=list)

    @property
    def sets(self) -> list[str]:
        """The sets with measurements, in the order of the first run."""
        return list(dict.fromkeys(measured.summary.set for measured in self.measurements))

    @property
    def has_folds_alone(self) -> bool:
        """Whether every run evaluated the values it left out."""
        return bool(self.left_out) and all(map(evaluates_left_out, self.runs))

    @cached_property
    def systems(self) -> list[str]:
        """All systems by their EER on the last set, lowest first, then those without one."""
        ranked = self.on(self.sets[-1]) if self.sets else []
        return list(dict.fromkeys(known.system for known in (*ranked, *self.measurements)))

    @cached_property
    def labels(self) -> dict[str, str]:
        """Short distinct names of the systems, for a table or a legend."""
        if not self.systems:
            return {}
        return dict(zip(self.systems, labels_of(self.systems, _LABEL), strict=True))

    def on(self, set_name: str) -> list[Measurement]:
        """Return the measurements on a set, lowest EER first."""
        # The sort is stable: systems with equal EERs keep the order of the runs.
        return sorted(self.in_order_of_runs(set_name), key=lambda known: known.summary.result.eer)

    def summaries_on(self, set_name: str) -> list[Summary]:
        """Return the summaries of the systems on a set, lowest EER first."""
        return [measured.summary for measured in self.on(set_name)]

    def in_order_of_runs(self, set_name: str) -> list[Measurement]:
        """Return the measurements on a set in the order of the runs."""
        return [measured for measured in self.measurements if measured.summary.set == set_name]

    def set_remarks(self, set_name: str) -> list[str]:
        """Return a sentence, with the systems, per reason why results on the set are not a test."""
        systems: dict[str, list[str]] = {}
        measured = self.on(set_name)
        for system in measured:
            for warning in system.summary.scored.warnings():
                systems.setdefault(warning, []).append(self.labels[system.system])
        sentences = []
        for warning, names in systems.items():
            of_whom = "" if len(names) == len(measured) else f"{', '.join(names)}: "
            sentences.append(f"{of_whom}{warning}")
        return sentences

    def networks_of(self, run: int) -> list[str]:
        """Return the networks of the run at index `run` whose results are shown."""
        return list(dict.fromkeys(known.network for known in self.measurements if known.run == run))


def gather(
    runs: Sequence[RunFolder],
    choice: Choice = "reported",
    *,
    replicates: int = 1000,
    for_plots: bool = False,
    on_start: Callable[[str], None] = lambda name: None,
) -> Gathered:
    """Measure the chosen networks of `runs`.

    A score file that is malformed or lacks a class becomes a finding; the rest is measured.

    Args:
        replicates: Number of bootstrap replicates for the intervals; 0: no intervals.
        for_plots: Whether to keep the curves of all attacks, which could make a page too large.
        on_start: Function that is called with the name of each measurement before it starts.

    Raises:
        AsdfError: a run's file cannot be read.
    """
    names = distinct_names(runs)
    collection = _Collection(replicates, for_plots, on_start)
    tasks = TaskResults()
    for index, (name, run) in enumerate(zip(names, runs, strict=True)):
        networks = chosen(run, choice)
        is_best = choice == "best" or (choice == "reported" and not run.reported())
        collection.add_run(index, name, run, networks, is_best)
        # Results of other tasks are shown for the same networks.
        tasks.add_run(name, run, None if choice == "reported" else dict(networks))
    if collection.page_curves > _MAX_CURVES:
        message = (
            f"only the first {_MAX_CURVES} curves are drawn by attack, to keep the page small; all "
            "are in the tables."
        )
        collection.findings.append(Finding("note", message, "DET curves and histograms"))
    over_seeds = measure_over_seeds(runs, names, collection.measurements, replicates)
    generalisation = None
    # Averages over sets are slow, and not meaningful for all networks of a training.
    if choice != "all":
        generalisation = measure_generalisation(
            runs, names, collection.measurements, over_seeds, replicates
        )
    gathered = Gathered(
        list(runs),
        names,
        collection.measurements,
        [*collection.findings, *tasks.findings, *over_seeds.findings],
        over_seeds=over_seeds,
        generalisation=generalisation,
        tasks=tasks,
        left_out=measure_left_out(runs, names, collection.measurements),
    )
    for set_name in gathered.sets:
        _compare_systems(gathered, set_name, replicates)
    return gathered


@dataclass
class _Collection:
    """The measurements and findings so far, and the number of curves on the page."""

    replicates: int
    for_plots: bool
    on_start: Callable[[str], None]
    measurements: list[Measurement] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    page_curves: int = 0

    def add_run(
        self,
        index: int,
        name: str,
        run: RunFolder,
        networks: Sequence[tuple[str, str]],
        picked_best: bool,
    ) -> None:
        """Measure the chosen networks of a run, given as (network, set).

        Args:
            picked_best: Whether they were picked for this report as the best by validation.
        """
        warnings = [*run.changes(), *describe_stale(run.evaluations())]
        self.findings += [Finding("warning", sentence, name) for sentence in warnings]
        if not networks:
            nothing = "nothing has been scored yet, so there is no result of this run."
            self.findings.append(Finding("note", nothing, name))
        has_several_networks = len(dict(networks)) > 1
        for network, set_name in networks:
            # A single network is named after its run; several need their own names.
            system = f"{name} {network}" if has_several_networks else name
            where = f"{system} on {set_name}"
            self.on_start(where)
            try:
                if has_sources_alone(run, network, set_name):
                    continue
                trials = run.trials(set_name)
                summary = summarise(
                    system,
                    set_name,
                    run.scores(network, set_name),
                    trials,
                    by=shown_columns(trials),
                    replicates=self.replicates,
                    condition_replicates=min(self.replicates, _CONDITION_REPLICATES),
                    scored=how_scored(run.score_file(network, set_name), picked_best),
                )
            except AsdfError as error:
                # The message begins with the system's name, which `where` states already.
                message = str(error).removeprefix(f"{system}: ")
                self.findings.append(Finding("error", message, where))
                continue
            if remark := replaced_network(run.score_file(network, set_name)):
                self.findings.append(Finding("warning", remark, where))
            self.findings += [replace(finding, where=where) for finding in summary.findings]
            self.measurements.append(self._measure(index, system, network, summary))

    def _measure(self, run: int, system: str, network: str, summary: Summary) -> Measurement:
        """Reduce the scores of a summary to the data for drawing."""
        spoofs = summary.spoofs_by_attack()
        page_attacks: tuple[str, ...] = ()
        self.page_curves += 1
        if len(spoofs) <= _MAX_VALUES:
            self.page_curves += len(spoofs)
            # Only if there is room on the page.
            if self.page_curves <= _MAX_CURVES:
                page_attacks = tuple(spoofs)
        # Plots in separate files include what the page leaves out.
        if not (page_attacks or self.for_plots):
            spoofs = {}
        pooled = summary.curve
        curves = {"": thinned_det(pooled)}
        for attack, scores in spoofs.items():
            curves[attack] = thinned_det(DetCurve.of(pooled.bona_fide, scores))
        misses = pooled.miss_at([tick / 100 for tick in DET_TICKS])
        threshold = summary.result.eer_threshold
        counts = histogram(pooled.bona_fide, pooled.spoof, spoofs, threshold)
        # The scores of all systems together may not fit into memory.
        shown = summary.without_trials()
        return Measurement(run, system, network, shown, misses, curves, counts, page_attacks)


def _compare_systems(gathered: Gathered, set_name: str, replicates: int) -> None:
    """Find reasons that prevent comparing the systems on a set, and the leading system."""
    summaries = gathered.summaries_on(set_name)
    found = different_trials(summaries) + mixed_scoring(summaries)
    gathered.findings.extend(replace(finding, where=set_name) for finding in found)
    gathered.leading[set_name] = {}
    if not are_comparable(summaries):
        return
    measured = gathered.on(set_name)

    # Scores are read again when they are needed: those of all systems may not fit into memory.
    def read_scores(index: int) -> tuple[Scores, Sequence[str] | None]:
        run = gathered.runs[measured[index].run]
        scores = run.scores(measured[index].network, set_name)
        return scores, speakers_of(scores, run.trials(set_name))

    results = [summary.result for summary in summaries]
    gathered.leading[set_name] = leaders(results, read_scores, replicates)


def shown_columns(trials: TrialList | None) -> list[str]:
    """Return the attack, then the other columns with few enough values for a table."""
    columns = ["attack"]
    if trials is None:
        return columns
    for name, values in trials.columns.items():
        # Spoofed parts are specific to a recording, and not conditions.
        is_condition = name not in ("attack", "speaker", "spoofed_s")
        if is_condition and len(set(values)) <= _MAX_VALUES:
            columns.append(name)
    return columns

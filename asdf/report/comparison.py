"""Differences between two runs, or two configurations over their seeds: settings and results.

Invariant: a difference of results comes with its tests, on the trials, and the draws of them, that
both have. Output folders are shown with the other settings, because a wrong folder can be the cause
too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from asdf.errors import AsdfError, UsageError
from asdf.metrics.bootstrap import Intervals, paired_test
from asdf.metrics.results import Result, evaluate
from asdf.metrics.summary import speakers_of
from asdf.report.gathering import distinct_names
from asdf.runs.evaluations import best_network
from asdf.tasks.studies.configurations import NO_EFFECT, SEED, RunGroup, group_runs, recorded_seed
from asdf.tasks.studies.over_seeds import SeedDifference, SeedDraws, Spread, compare_seeds, spreads
from asdf.tasks.studies.seed_results import (
    describe_mean,
    difference_sentence,
    draw_scored,
    read_scored,
)
from asdf.text import and_more
from asdf.trials.how_scored import NOT_KNOWN, HowScored, SetRole, role_notes
from asdf.trials.run_folder import KeptSetting, RunFolder
from asdf.trials.scored_files import how_scored

_NO_SETTING = KeptSetting("(no such setting)", "")
_NO_VALUE = "-"
# Two runs of one command never use exactly the same memory.
_MEMORY_PREFIX = "peak_memory_mb."
_SAME_MEMORY = 1.1
# Entries of a record that differ between any two starts.
_TIMES = ("start", "started", "ended", "finished", "trained_from", "changes", "planned_changes")
_SHOWN = 6


@dataclass(frozen=True)
class Difference:
    """A name with its values in the two runs, and the source of each value.

    A source is '' if it is unknown.
    """

    name: str
    first: str
    second: str
    first_source: str = ""
    second_source: str = ""


@dataclass(frozen=True)
class ResultDifference:
    """The results of both runs on a set.

    Attributes:
        difference: Difference second - first, with intervals and p-values.
        first_scored, second_scored: Description of how each was scored, if known.
    """

    set: str
    first: Result
    second: Result
    difference: Intervals
    by_speakers: bool
    first_scored: HowScored = NOT_KNOWN
    second_scored: HowScored = NOT_KNOWN


@dataclass(frozen=True)
class Side:
    """A run, or those of a configuration with their seeds, and the network of each.

    A network is None for a run without scores.
    """

    name: str
    runs: tuple[RunFolder, ...]
    seeds: tuple[str, ...]
    networks: tuple[str | None, ...]

    def sets(self) -> list[str]:
        """Return the sets that all of its networks were scored on."""
        sides = zip(self.runs, self.networks, strict=True)
        known = [run.score_files().get(network or "", {}) for run, network in sides]
        shared = set(known[0]).intersection(*known)
        return [name for name in known[0] if name in shared]

    def draws(self, set_name: str, replicates: int) -> SeedDraws:
        """Measure its networks on draws of a set."""
        pairs = zip(self.runs, self.networks, strict=True)
        scored = (read_scored(run, network or "", set_name) for run, network in pairs)
        return draw_scored(self.seeds, scored, replicates)

    def roles(self, set_name: str) -> list[tuple[str, SetRole | None]]:
        """Return the role of a set for each of its networks, by run and set."""
        roles = []
        for run, network in zip(self.runs, self.networks, strict=True):
            scored = how_scored(run.score_file(network or "", set_name))
            roles.append((f"{run.name} on {set_name}", scored.role))
        return roles


@dataclass(frozen=True)
class SetDifference:
    """Two configurations on a set, and their difference second - first.

    Attributes:
        remarks: Reasons why the results of a run are not a test.
    """

    set: str
    first: Spread
    second: Spread
    first_min_dcf: Spread
    second_min_dcf: Spread
    tested: SeedDifference
    by_speakers: bool
    sentence: str
    remarks: list[str]


Tested = TypeVar("Tested", ResultDifference, SetDifference)


@dataclass(frozen=True)
class Comparison(Generic[Tested]):
    """Two runs or configurations, the settings that differ between them, and their results.

    Attributes:
        refused: Reason for each set whose results could not be tested.
        environments: Differences between the last starts of two runs.
    """

    sides: Sequence[Side]
    settings: list[Difference]
    results: list[Tested]
    refused: list[str]
    environments: Sequence[Difference] = ()


def compare_runs(
    first: RunFolder,
    second: RunFolder,
    networks: tuple[str | None, str | None] = (None, None),
    replicates: int = 1000,
) -> Comparison[ResultDifference]:
    """Compare two runs, on every set that the network of each scored.

    Raises:
        AsdfError: a run has no scores of a requested network.
    """
    sides = []
    for run, requested in zip((first, second), networks, strict=True):
        sides.append(Side(run.name, (run,), ("",), (chosen_network(run, requested),)))
    a, b = (side.networks[0] for side in sides)
    results: list[ResultDifference] = []
    refused: list[str] = []
    # A run without scores still has settings to compare.
    if a is not None and b is not None:
        results, refused = different_results(first, second, (a, b), replicates)
    environments = different_environments(first, second)
    return Comparison(sides, different_settings(first, second), results, refused, environments)


def different_settings(first: RunFolder, second: RunFolder) -> list[Difference]:
    """Return the settings that differ, in the order of the files."""
    ours, theirs = first.settings(), second.settings()
    differences = []
    for name in ours | theirs:
        a, b = ours.get(name, _NO_SETTING), theirs.get(name, _NO_SETTING)
        if a.text != b.text:
            differences.append(Difference(name, a.text, b.text, a.source, b.source))
    return differences


def different_environments(first: RunFolder, second: RunFolder) -> list[Difference]:
    """Return the differences between the last starts of both runs.

    They cover code, versions, machine, devices, and memory if it differs by more than a tenth.
    """
    ours, theirs = _last_start(first), _last_start(second)
    differences = []
    for name in ours | theirs:
        a, b = ours.get(name, _NO_VALUE), theirs.get(name, _NO_VALUE)
        is_same = a == b
        if name.startswith(_MEMORY_PREFIX):
            # '-' is no number: one of the records lacks the entry, which is a difference.
            with suppress(ValueError):
                low, high = sorted((float(a), float(b)))
                is_same = high <= _SAME_MEMORY * low
        if name not in _TIMES and not is_same:
            differences.append(Difference(name, a, b))
    return differences


def chosen_network(run: RunFolder, requested: str | None = None) -> str | None:
    """Return the network whose scores represent the run.

    It is the requested network, or the first one of the run's last report. For a run without a
    report it is the best network on the validation set; None if nothing was scored.

    Raises:
        AsdfError: the run has no scores of the requested network.
    """
    scored = list(run.score_files())
    reported = [network for network, _ in run.reported() if network in scored]
    first = reported[0] if reported else best_network(run.training(), scored)
    name = requested or first
    if name is not None and name not in scored:
        known = ", ".join(scored) or "no network yet"
        raise AsdfError(f"{run.path} holds no scores of {name}. There are scores of {known}.")
    return name


def different_results(
    first: RunFolder, second: RunFolder, networks: tuple[str, str], replicates: int = 1000
) -> tuple[list[ResultDifference], list[str]]:
    """Test the results on the sets that both networks scored, on the same trials.

    Whole speakers are drawn if they are known.

    Returns:
        The results, and a message for each set without one: the trials differ, there is only one
        class, or a file cannot be read.
    """
    sides = tuple(zip((first, second), networks, strict=True))
    scored_by_second = second.score_files()[networks[1]]
    differences = []
    refused = []
    for set_name in filter(scored_by_second.__contains__, first.score_files()[networks[0]]):
        try:
            scores = [run.scores(network, set_name) for run, network in sides]
            # An earlier version may have made either run without saving columns.
            speakers = speakers_of(scores[0], first.trials(set_name) or second.trials(set_name))
            tested = paired_test(scores[0], scores[1], speakers=speakers, replicates=replicates)
            a, b = map(evaluate, scores)
            ways = [how_scored(run.score_file(network, set_name)) for run, network in sides]
            difference = ResultDifference(set_name, a, b, tested, speakers is not None, *ways)
            differences.append(difference)
        except AsdfError as error:
            refused.append(f"{set_name}: {error}")
    return differences, refused


def _last_start(run: RunFolder) -> dict[str, str]:
    """Return the record of the run's last start as names and values; empty without a record."""
    records = run.environments()
    return _flatten(records[-1]) if records else {}


def _flatten(record: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Flatten a nested record to 'git.commit' -> value."""
    flat: dict[str, str] = {}
    for name, value in record.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping):
            flat.update(_flatten(value, f"{path}."))
        elif isinstance(value, list):
            flat[path] = "; ".join(map(str, value))
        else:
            flat[path] = str(value)
    return flat


def two_sides(runs: Sequence[RunFolder], networks: tuple[str | None, str | None]) -> list[Side]:
    """Return the two configurations of the runs, starting with that of the first run.

    Raises:
        UsageError: there are not two; the message lists the configurations.
        AsdfError: a run has no scores of a requested network.
    """
    names = distinct_names(runs)
    groups = group_runs(runs, names)
    grouped = {index for group in groups for index in group.runs}
    for index, run in enumerate(runs):
        if index not in grouped:
            groups.append(RunGroup(names[index], (index,), (recorded_seed(run) or "",)))
    if len(groups) != 2:
        described = [f"{group.name} ({len(group.runs)})" for group in groups]
        raise UsageError(
            f"compare needs two configurations, but these {len(runs)} runs are of {len(groups)}: "
            f"{and_more(described, _SHOWN)}. Runs are of one configuration if they recorded the "
            "same settings but for recipe.seed, each seed once."
        )
    groups.sort(key=lambda group: min(group.runs))
    sides = []
    for group, requested in zip(groups, networks, strict=True):
        of_side = tuple(runs[index] for index in group.runs)
        chosen = tuple(chosen_network(run, requested) for run in of_side)
        sides.append(Side(group.name, of_side, group.seeds, chosen))
    return sides


def compare_configurations(
    runs: Sequence[RunFolder],
    networks: tuple[str | None, str | None] = (None, None),
    replicates: int = 1000,
) -> Comparison[SetDifference]:
    """Compare the two configurations of the runs on every set that all of them scored.

    Raises:
        UsageError, AsdfError: as `two_sides`.
    """
    first, second = two_sides(runs, networks)
    # Settings that vary within a configuration are not a difference between the two.
    varying = {*NO_EFFECT, SEED}
    known = different_settings(first.runs[0], second.runs[0])
    settings = [difference for difference in known if difference.name not in varying]
    results: list[SetDifference] = []
    refused: list[str] = []
    for set_name in filter(second.sets().__contains__, first.sets()):
        try:
            results.append(compare_set(first, second, set_name, replicates))
        except AsdfError as error:
            refused.append(f"{set_name}: {error}")
    return Comparison((first, second), settings, results, refused)


def compare_set(first: Side, second: Side, set_name: str, replicates: int) -> SetDifference:
    """Test the difference of two configurations on a set."""
    a, b = first.draws(set_name, replicates), second.draws(set_name, replicates)
    eer_a, cost_a = spreads(a)
    eer_b, cost_b = spreads(b)
    tested = compare_seeds(a, b)
    lower, higher = (first.name, eer_a), (second.name, eer_b)
    ordered = tested
    if tested.difference.eer.value < 0:
        lower, higher = higher, lower
        ordered = tested.reverse()
    sentence = difference_sentence(ordered, describe_mean(*lower), describe_mean(*higher))
    remarks = role_notes([*first.roles(set_name), *second.roles(set_name)])
    by_speakers = a.by_speakers and b.by_speakers
    means = (eer_a, eer_b, cost_a, cost_b)
    return SetDifference(set_name, *means, tested, by_speakers, sentence, remarks)

"""Results over seeds: configurations, each with a network per seed, on every set.

Invariant: each system is in one configuration; a system that shares its settings with no other is
one by itself, with a single seed. What cannot be computed is a finding, and the mean and deviation
are still shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import SIGNIFICANT
from asdf.metrics.over_seeds import SeedDifference, Spread, compare_seeds, spread_of, spreads
from asdf.metrics.seed_draws import SeedDraws, draw_seeds
from asdf.report.choosing import best_network
from asdf.report.folding import ReportFinding
from asdf.report.grouping import RunGroup, group_runs, recorded_seed
from asdf.report.names import numbered
from asdf.runs.evaluations import metrics_evaluations
from asdf.trials.run_folder import RunFolder

if TYPE_CHECKING:
    from asdf.report.gathering import Measurement


@dataclass(frozen=True)
class Configuration:
    """Systems that differ by their seed alone, or a single one.

    Attributes:
        systems: their names in the report, in the order of their seeds.
        seeds: the seed of each; '' where it is not known.
        run: the index of the run of the first one, whose settings stand for all.
    """

    name: str
    systems: tuple[str, ...]
    seeds: tuple[str, ...]
    run: int


@dataclass(frozen=True)
class BestSeed:
    """The system with the best seed: on its validation set, if that is known.

    Attributes:
        chosen_by: 'eer on dev', by which it is the best; '' if by its EER on the very set.
    """

    system: str
    seed: str
    eer: float
    chosen_by: str


@dataclass(frozen=True)
class SeedResult:
    """A configuration on a set.

    Attributes:
        seeds: those that were scored on the set.
        best: None for a single seed.
        draws: None where nothing was drawn.
    """

    configuration: Configuration
    set: str
    seeds: tuple[str, ...]
    eer: Spread
    min_dcf: Spread
    best: BestSeed | None = None
    draws: SeedDraws | None = None

    @property
    def name(self) -> str:
        """The configuration's name."""
        return self.configuration.name


@dataclass
class OverSeeds:
    """The results of all configurations; empty where no two systems differ by their seed alone.

    Attributes:
        by_set: set -> results, the lowest mean EER first.
        next_tested: set -> how the first of them differs from the second; only where it is tested.
    """

    configurations: list[Configuration] = field(default_factory=list)
    by_set: dict[str, list[SeedResult]] = field(default_factory=dict)
    next_tested: dict[str, SeedDifference] = field(default_factory=dict)
    findings: list[ReportFinding] = field(default_factory=list)

    @property
    def has_groups(self) -> bool:
        """Whether any configuration has several seeds."""
        return any(len(known.systems) > 1 for known in self.configurations)

    def is_leading(self, result: SeedResult) -> bool:
        """Whether a result is the lowest of its set, and significantly so."""
        tested = self.next_tested.get(result.set)
        return tested is not None and result is self.by_set[result.set][0] and is_worse(tested)


def is_worse(tested: SeedDifference) -> bool:
    """Whether the second is significantly worse by EER.

    Where Welch's test can be made, it has to agree: with few seeds the bootstrap's p-value is too
    small.
    """
    eer = tested.difference.eer
    if eer.p_value is None or eer.p_value >= SIGNIFICANT or eer.value <= 0:
        return False
    return tested.eer_welch_p is None or tested.eer_welch_p < SIGNIFICANT


def find_configurations(
    runs: Sequence[RunFolder], names: Sequence[str], measurements: Sequence[Measurement]
) -> list[Configuration]:
    """Return the configurations of all systems; those of several seeds come first."""
    systems: dict[int, dict[str, str]] = {}
    for measured in measurements:
        systems.setdefault(measured.run, {})[measured.network] = measured.system
    configurations: list[Configuration] = []
    grouped: set[str] = set()
    for group in group_runs(runs, names):
        for configuration in _of_group(group, runs, systems):
            configurations.append(configuration)
            grouped.update(configuration.systems)
    for index, networks in systems.items():
        for system in networks.values():
            if system not in grouped:
                seed = recorded_seed(runs[index]) or ""
                configurations.append(Configuration(system, (system,), (seed,), index))
    distinct = numbered([known.name for known in configurations])
    return [
        Configuration(name, known.systems, known.seeds, known.run)
        for name, known in zip(distinct, configurations, strict=True)
    ]


def _of_group(
    group: RunGroup, runs: Sequence[RunFolder], systems: dict[int, dict[str, str]]
) -> list[Configuration]:
    """Return the configurations of a group of runs: which network of each belongs to which."""
    members = []
    for index, seed in zip(group.runs, group.seeds, strict=True):
        # A run without results has no part in it.
        if index in systems:
            members.append((index, seed, systems[index]))
    if len(members) < 2:
        return []
    networks_of_runs = [list(networks) for _, _, networks in members]
    if max(map(len, networks_of_runs)) == 1:
        return [_one_each(group.name, members, [names[0] for names in networks_of_runs])]
    first = networks_of_runs[0]
    if all(set(names) == set(first) for names in networks_of_runs):
        return [_one_each(f"{group.name} {name}", members, [name] * len(members)) for name in first]
    # Of several networks that have other names in each run, the best ones correspond.
    best = []
    for index, _, networks in members:
        best.append(best_network(runs[index].training(), list(networks)) or "")
    return [_one_each(f"{group.name} best", members, best)]


def _one_each(
    name: str, members: Sequence[tuple[int, str, dict[str, str]]], networks: Sequence[str]
) -> Configuration:
    """Return the configuration that has one network of each run."""
    systems = []
    seeds = []
    for (_, seed, known), network in zip(members, networks, strict=True):
        systems.append(known[network])
        seeds.append(seed)
    return Configuration(name, tuple(systems), tuple(seeds), members[0][0])


def measure_over_seeds(
    runs: Sequence[RunFolder],
    names: Sequence[str],
    measurements: Sequence[Measurement],
    replicates: int,
) -> OverSeeds:
    """Return the results over seeds on every set; nothing where no group of runs exists.

    Args:
        replicates: of the bootstrap; 0: means and deviations alone.
    """
    over = OverSeeds(find_configurations(runs, names, measurements))
    if not over.has_groups:
        return OverSeeds()
    for set_name in dict.fromkeys(measured.summary.set for measured in measurements):
        on_set = {m.system: m for m in measurements if m.summary.set == set_name}
        results = []
        for configuration in over.configurations:
            known = [name for name in configuration.systems if name in on_set]
            if known:
                members = [on_set[name] for name in known]
                results.append(_measure(over, configuration, members, runs, replicates))
        results.sort(key=lambda result: result.eer.mean)
        over.by_set[set_name] = results
        _test_first(over, set_name)
    return over


def _measure(
    over: OverSeeds,
    configuration: Configuration,
    members: Sequence[Measurement],
    runs: Sequence[RunFolder],
    replicates: int,
) -> SeedResult:
    """Measure a configuration on a set; why it has no interval is a finding."""
    set_name = members[0].summary.set
    seeds = tuple(_seed_of(configuration, member.system) for member in members)
    results = [member.summary.result for member in members]
    eer = spread_of([result.eer for result in results])
    min_dcf = spread_of([result.min_dcf for result in results])
    draws = None
    if replicates:
        scores = [runs[member.run].scores(member.network, set_name) for member in members]
        try:
            trials = runs[members[0].run].trials(set_name)
            draws = draw_seeds(seeds, scores, trials, replicates=replicates)
            eer, min_dcf = spreads(draws)
        except AsdfError as error:
            where = f"{configuration.name} on {set_name}"
            over.findings.append(ReportFinding(where, "warning", f"no interval: {error}"))
    best = _best_seed(members, seeds, runs) if len(members) > 1 else None
    return SeedResult(configuration, set_name, seeds, eer, min_dcf, best, draws)


def _seed_of(configuration: Configuration, system: str) -> str:
    return configuration.seeds[configuration.systems.index(system)]


def _best_seed(
    members: Sequence[Measurement], seeds: Sequence[str], runs: Sequence[RunFolder]
) -> BestSeed:
    """Return the best seed by what networks were validated on, or else by the set itself."""
    costs = []
    chosen_by = set()
    for member in members:
        validated = _validation_cost(runs[member.run], member.network)
        if validated is not None:
            costs.append(validated[0])
            chosen_by.add(validated[1])
    eers = [member.summary.result.eer for member in members]
    # Values of other metrics, sets or only some of the seeds cannot be compared.
    is_validated = len(costs) == len(members) and len(chosen_by) == 1
    if not is_validated:
        costs = eers
    index = min(range(len(members)), key=costs.__getitem__)
    how = chosen_by.pop() if is_validated else ""
    return BestSeed(members[index].system, seeds[index], eers[index], how)


def _validation_cost(run: RunFolder, network: str) -> tuple[float, str] | None:
    """Return a network's value on its first validation set, lower for better, and its name."""
    for evaluation in metrics_evaluations(run.training()):
        if str(evaluation.network) != network:
            continue
        set_name = next(iter(evaluation.values(evaluation.metric)))
        cost = evaluation.cost(evaluation.metric, set_name)
        if cost is not None:
            return cost, f"{evaluation.metric} on {set_name}"
    return None


def _test_first(over: OverSeeds, set_name: str) -> None:
    """Test whether the configuration with the lowest mean is better than the next one."""
    results = over.by_set[set_name]
    if len(results) < 2 or results[0].draws is None or results[1].draws is None:
        return
    try:
        over.next_tested[set_name] = compare_seeds(results[0].draws, results[1].draws)
    except AsdfError:
        # That the trials differ is a finding already.
        return

"""Results over seeds: configurations with one network per seed, on every set.

Invariant: a statistic that cannot be computed is a finding; mean and deviation are still shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import SIGNIFICANT
from asdf.metrics.results import Result
from asdf.runs.evaluations import metrics_evaluations
from asdf.tasks.studies.configurations import Configuration, find_configurations
from asdf.tasks.studies.measured import Measured, ReportFinding
from asdf.tasks.studies.over_seeds import SeedDifference, Spread, compare_seeds, spread_of, spreads
from asdf.tasks.studies.seed_draws import SeedDraws, draw_seeds
from asdf.trials.run_folder import RunFolder
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList


@dataclass(frozen=True)
class BestSeed:
    """The system with the best seed, by its validation set if known.

    Attributes:
        chosen_by: Criterion in words, such as 'eer on dev'; '' for the EER on the same set.
    """

    system: str
    seed: str
    eer: float
    chosen_by: str

    @property
    def chosen_words(self) -> str:
        """The criterion of the choice, in words."""
        return self.chosen_by or "this set itself"


@dataclass(frozen=True)
class SeedResult:
    """A configuration on a set.

    Attributes:
        seeds: Seeds that were scored on the set.
        best: Best seed; None for a single seed.
        draws: Bootstrap draws; None if nothing was drawn.
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
    """The results of all configurations; empty if no two systems differ only in their seed.

    Attributes:
        by_set: Results of each set, lowest mean EER first.
        next_tested: Difference between the first and second result of each set, if it was tested.
    """

    configurations: list[Configuration] = field(default_factory=list)
    by_set: dict[str, list[SeedResult]] = field(default_factory=dict)
    next_tested: dict[str, SeedDifference] = field(default_factory=dict)
    findings: list[ReportFinding] = field(default_factory=list)

    @property
    def has_groups(self) -> bool:
        """Whether any configuration has several seeds."""
        return any(len(known.systems) > 1 for known in self.configurations)

    def results(self) -> list[SeedResult]:
        """Return the results of all sets."""
        return [result for results in self.by_set.values() for result in results]

    def is_leading(self, result: SeedResult) -> bool:
        """Whether a result is significantly the lowest of its set."""
        tested = self.next_tested.get(result.set)
        return tested is not None and result is self.by_set[result.set][0] and is_worse(tested)


def is_worse(tested: SeedDifference) -> bool:
    """Whether the second is significantly worse by EER.

    Welch's test must agree if it is possible, because with few seeds the bootstrap's p-value is too
    small.
    """
    eer = tested.difference.eer
    if eer.p_value is None or eer.p_value >= SIGNIFICANT or eer.value <= 0:
        return False
    return tested.eer_welch_p is None or tested.eer_welch_p < SIGNIFICANT


@dataclass(frozen=True)
class Member:
    """A system of a configuration on a set.

    Attributes:
        read: Function that returns its scores, and the columns of the corpus for the trials.
        validated: Value on the validation set, lower for better, with its name; None if unknown.
    """

    system: str
    seed: str
    result: Result
    read: Callable[[], tuple[Scores, TrialList | None]]
    validated: tuple[float, str] | None = None


def measure_over_seeds(
    runs: Sequence[RunFolder],
    names: Sequence[str],
    measurements: Sequence[Measured],
    replicates: int,
) -> OverSeeds:
    """Return the results over seeds on every set; empty if there is no group of runs.

    Args:
        replicates: Number of bootstrap replicates; 0: means and deviations alone.
    """
    over = OverSeeds(find_configurations(runs, names, measurements))
    if not over.has_groups:
        return OverSeeds()
    for set_name in dict.fromkeys(measured.summary.set for measured in measurements):
        on_set = {m.system: m for m in measurements if m.summary.set == set_name}
        members: dict[str, list[Member]] = {}
        for configuration in over.configurations:
            for system, seed in zip(configuration.systems, configuration.seeds, strict=True):
                if system in on_set:
                    member = _member_of(on_set[system], seed, runs)
                    members.setdefault(configuration.name, []).append(member)
        measure_set(over, set_name, members, replicates)
    return over


def _member_of(measured: Measured, seed: str, runs: Sequence[RunFolder]) -> Member:
    run = runs[measured.run]
    set_name = measured.summary.set

    # Scores are read again when they are needed: those of all systems may not fit into memory.
    def read() -> tuple[Scores, TrialList | None]:
        return run.scores(measured.network, set_name), run.trials(set_name)

    validated = validation_cost(run, measured.network)
    return Member(measured.system, seed, measured.summary.result, read, validated)


def measure_set(
    over: OverSeeds, set_name: str, members: Mapping[str, Sequence[Member]], replicates: int
) -> None:
    """Add the results of all configurations on a set, by configuration name, and test them.

    Args:
        members: Systems of each configuration that were scored on the set, by configuration name.
    """
    results = []
    for configuration in over.configurations:
        if configuration.name in members:
            of_set = members[configuration.name]
            results.append(_measure(over, configuration, set_name, of_set, replicates))
    results.sort(key=lambda result: result.eer.mean)
    over.by_set[set_name] = results
    _test_first(over, set_name)


def _measure(
    over: OverSeeds,
    configuration: Configuration,
    set_name: str,
    members: Sequence[Member],
    replicates: int,
) -> SeedResult:
    """Measure a configuration on a set; add a finding if it has no interval."""
    seeds = tuple(member.seed for member in members)
    eer = spread_of([member.result.eer for member in members])
    min_dcf = spread_of([member.result.min_dcf for member in members])
    draws = None
    if replicates:
        try:
            draws = draw_members(members, replicates)
            eer, min_dcf = spreads(draws)
        except AsdfError as error:
            where = f"{configuration.name} on {set_name}"
            over.findings.append(ReportFinding(where, "warning", f"no interval: {error}"))
    best = _best_seed(members) if len(members) > 1 else None
    return SeedResult(configuration, set_name, seeds, eer, min_dcf, best, draws)


def draw_members(members: Sequence[Member], replicates: int) -> SeedDraws:
    """Measure the systems of a configuration on draws of a set; errors as in `draw_seeds`."""
    scores = []
    trials = None
    for member in members:
        of_member, known = member.read()
        scores.append(of_member)
        # An earlier version may have made a run without saving columns.
        trials = trials or known
    return draw_seeds([member.seed for member in members], scores, trials, replicates=replicates)


def _best_seed(members: Sequence[Member]) -> BestSeed:
    """Return the best seed by the networks' validation, or else by the set itself."""
    validated = [member.validated for member in members if member.validated is not None]
    names = {name for _, name in validated}
    eers = [member.result.eer for member in members]
    # Values of other metrics or sets, or of only some seeds, cannot be compared.
    is_validated = len(validated) == len(members) and len(names) == 1
    costs = [cost for cost, _ in validated] if is_validated else eers
    index = min(range(len(members)), key=costs.__getitem__)
    how = names.pop() if is_validated else ""
    return BestSeed(members[index].system, members[index].seed, eers[index], how)


def validation_cost(run: RunFolder, network: str) -> tuple[float, str] | None:
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
        # A finding already states that the trials differ.
        return

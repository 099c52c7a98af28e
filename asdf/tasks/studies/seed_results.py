"""Results over seeds: configurations with one network per seed, on every set, and their tables.

Invariant: a statistic that cannot be computed is a finding; mean and deviation are still shown. A
system is marked as the best only if a test over seeds supports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

from asdf.errors import AsdfError
from asdf.metrics.bootstrap import SIGNIFICANT
from asdf.metrics.detection import ASVSPOOF5, DetectionCost
from asdf.metrics.results import Result
from asdf.metrics.score_checks import Finding
from asdf.runs.evaluations import metrics_evaluations
from asdf.tables.renderers import PageTable, as_lines, as_page
from asdf.tables.table import RATE, Column, Columns, Table, Value, counts, each, labels_of, rate
from asdf.tasks.studies.configurations import Configuration, Measured, find_configurations
from asdf.tasks.studies.over_seeds import (
    SeedDifference,
    SeedDraws,
    Spread,
    compare_seeds,
    draw_seeds,
    spread_of,
    spreads,
)
from asdf.text import p_value_text
from asdf.trials.run_folder import RunFolder
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList

SEEDS_LEAD = (
    "significantly better than the next one over seeds and trials (Student's t and bootstrap, and "
    "from three seeds each on Welch's test over seeds; p < 0.05)"
)
_LABEL = 28
_SHORT_LABEL = 20
_SEEDS = "EER in % over seeds: mean ± standard deviation"
# Short headings of the same columns, for a terminal.
_HEADINGS = ("Seeds", "Mean EER", "Deviation", "95 % interval", "Best seed", "Mean minDCF")
_SHORT = ("seeds", "EER", "deviation", "95 %", "best", "minDCF")


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
        cost: Costs of the minDCF.
    """

    configurations: list[Configuration] = field(default_factory=list)
    by_set: dict[str, list[SeedResult]] = field(default_factory=dict)
    next_tested: dict[str, SeedDifference] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    cost: DetectionCost = ASVSPOOF5

    @property
    def has_groups(self) -> bool:
        """Whether any configuration has several seeds."""
        return any(len(known.systems) > 1 for known in self.configurations)

    @property
    def seeds(self) -> dict[str, str]:
        """The seed of each system."""
        pairs = (zip(known.systems, known.seeds, strict=True) for known in self.configurations)
        return dict(chain.from_iterable(pairs))

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
    seeds = over.seeds
    by_set: dict[str, list[Member]] = {}
    for known in measurements:
        run, result = runs[known.run], known.summary.result
        read = partial(read_scored, run, known.network, known.summary.set)
        validated = validation_cost(run, known.network)
        member = Member(known.system, seeds[known.system], result, read, validated)
        by_set.setdefault(known.summary.set, []).append(member)
    for set_name, members in by_set.items():
        measure_set(over, set_name, members, replicates)
    return over


def read_scored(run: RunFolder, network: str, set_name: str) -> tuple[Scores, TrialList | None]:
    """Return the scores of a run's network on a set, and the columns of its trials."""
    # Again each time they are needed: the scores of all systems may not fit into memory.
    return run.scores(network, set_name), run.trials(set_name)


def measure_set(over: OverSeeds, set_name: str, members: Sequence[Member], replicates: int) -> None:
    """Add the results of all configurations on a set, and test the first.

    Args:
        members: Systems that were scored on the set.
    """
    by_name = {member.system: member for member in members}
    results = []
    for configuration in over.configurations:
        of_set = [by_name[name] for name in configuration.systems if name in by_name]
        if not of_set:
            continue
        eer = spread_of(each(of_set, "result.eer"))
        min_dcf = spread_of(each(of_set, "result.min_dcf"))
        draws = None
        if replicates:
            try:
                scored = (member.read() for member in of_set)
                draws = draw_scored(each(of_set, "seed"), scored, replicates, over.cost)
                eer, min_dcf = spreads(draws)
            except AsdfError as error:
                # Score files on a command line have no set.
                where = " on ".join(filter(None, (configuration.name, set_name)))
                over.findings.append(Finding("warning", f"no interval: {error}", where))
        seeds = tuple(each(of_set, "seed"))
        best = best_seed(of_set) if len(of_set) > 1 else None
        results.append(SeedResult(configuration, set_name, seeds, eer, min_dcf, best, draws))
    results.sort(key=lambda result: result.eer.mean)
    over.by_set[set_name] = results
    draws_of_two = [result.draws for result in results[:2] if result.draws is not None]
    if len(draws_of_two) == 2:
        # If the trials differ, a finding states it already.
        with suppress(AsdfError):
            over.next_tested[set_name] = compare_seeds(*draws_of_two)


def draw_scored(
    seeds: Sequence[str],
    scored: Iterable[tuple[Scores, TrialList | None]],
    replicates: int,
    cost: DetectionCost = ASVSPOOF5,
) -> SeedDraws:
    """Measure the systems of a configuration on draws of a set; errors as in `draw_seeds`."""
    scores, known = zip(*scored, strict=True)
    # An earlier version may have made a run without saving columns.
    trials = next(filter(None, known), None)
    return draw_seeds(seeds, scores, trials, replicates=replicates, cost=cost)


def best_seed(members: Sequence[Member]) -> BestSeed:
    """Return the best seed by the networks' validation, or else by the set itself."""
    validated = [member.validated for member in members if member.validated is not None]
    names = {name for _, name in validated}
    # Values of other metrics or sets, or of only some seeds, cannot be compared.
    is_validated = len(validated) == len(members) and len(names) == 1
    costs = [cost for cost, _ in validated] if is_validated else each(members, "result.eer")
    best = members[min(range(len(members)), key=costs.__getitem__)]
    how = names.pop() if is_validated else ""
    return BestSeed(best.system, best.seed, best.result.eer, how)


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


def seeds_table(over: OverSeeds, sets: Sequence[str]) -> PageTable | None:
    """Return a row for each group of systems that differ only in their seed.

    The result is None without such a group.
    """
    groups = [known for known in over.configurations if len(known.systems) > 1]
    if not groups:
        return None
    names = each(groups, "name")
    columns: Columns = [counts("Seeds", [len(group.systems) for group in groups])]
    for set_name in sets:
        values = seed_values(over, names, set_name)
        # A single value has no deviation.
        shown = [value if value.deviation is not None else Value() for value in values]
        columns.append((rate(set_name), shown))
    labels = labels_of(names, _LABEL)
    return as_page(Table(names, columns, "Systems", labels=labels), _SEEDS, "seeds")


def seed_values(over: OverSeeds, names: Sequence[str], set_name: str) -> list[Value]:
    """Return the EERs of configurations on a set, with test results; 'best' follows from a test."""
    results = over.by_set.get(set_name, [])
    by_name = {result.name: result for result in results}
    values = []
    for name in names:
        if name not in by_name:
            values.append(Value())
            continue
        value = mean_value(over, by_name[name])
        seeds = len(by_name[name].seeds)
        if seeds < len(by_name[name].configuration.systems):
            # The column of seeds states the number of all seeds.
            value = replace(value, remark=f" ({seeds} seeds)", paper_remark=f" [{seeds}]")
        values.append(value)
    return values


def mean_value(over: OverSeeds, result: SeedResult) -> Value:
    """Return the EER of a configuration, with a mark if its test supports it."""
    results = over.by_set[result.set]
    is_lowest = result is results[0] and len(results) > 1
    return Value.of_spread(
        result.eer,
        is_best=over.is_leading(result),
        # A mean that two share is not the lowest.
        is_lowest=is_lowest and results[1].eer.mean > result.eer.mean,
    )


def seed_results_table(over: OverSeeds, set_name: str) -> PageTable | None:
    """Return all results over seeds on a set; None without a group on it."""
    results = over.by_set.get(set_name, [])
    if not any(len(result.seeds) > 1 for result in results):
        return None
    columns = over_seeds_columns(over, results, _HEADINGS, "–")
    chosen_by = [None if best is None else best.chosen_words for best in each(results, "best")]
    # Next to the best seed.
    columns.insert(5, Column("chosen_by", "Chosen by").with_texts(chosen_by))
    names = each(results, "name")
    table = Table(names, columns, "Systems", labels=labels_of(names, _LABEL))
    return as_page(table, f"Over seeds on {set_name}", "over-seeds")


def over_seeds_columns(
    over: OverSeeds, results: Sequence[SeedResult], headings: Sequence[str], between: str
) -> Columns:
    """Return means, deviations, intervals and best seeds of configurations.

    Args:
        headings: Names of the columns except the last, the deviation of the minDCF.
        between: Text between the ends of an interval.
    """
    seeds, means, deviation, interval, best, cost = headings
    number, eers, best_seeds = [], [], []
    for result in results:
        number.append(Value(len(result.seeds), title=f"seeds {', '.join(result.seeds)}"))
        eers.append(replace(mean_value(over, result), deviation=None, intervals={}))
        value = Value()
        if result.best is not None:
            seed = f" (seed {result.best.seed})"
            value = Value(result.best.eer, remark=seed, title=result.best.system)
        best_seeds.append(value)
    bounds = each(results, "eer.interval")
    shown = [None if known is None else RATE.format_bounds(known, between) for known in bounds]
    # Shorter, so that the text fits 80 columns.
    last = "dev." if seeds == "seeds" else deviation
    return [
        (Column("seeds", seeds, is_count=True), number),
        (rate("mean_eer", means, 3, states_unit=True), eers),
        rate("deviation_eer", deviation, 3).with_values(each(results, "eer.deviation")),
        Column("interval", interval).with_texts(shown),
        (rate("best", best, 3), best_seeds),
        Column("mean_min_dcf", cost).with_values(each(results, "min_dcf.mean")),
        Column("deviation_min_dcf", last).with_values(each(results, "min_dcf.deviation")),
    ]


def over_seeds_text(over: OverSeeds) -> str:
    """Return the results over seeds as a table of at most 80 columns, with the test result."""
    results = over.results()
    labels = labels_of(each(results, "name"), _SHORT_LABEL)
    columns = over_seeds_columns(over, results, _SHORT, " .. ")
    chosen_by = [result.best.chosen_words for result in results if result.best]
    lines = [
        *as_lines(Table(labels, columns, "over seeds")),
        f"best seed by {', '.join(dict.fromkeys(chosen_by))}",
    ]
    return "\n\n".join(["\n".join(lines), *tested_sentences(over).values()])


def seed_sentences(over: OverSeeds) -> list[str]:
    """Return a sentence for each set on which the lowest mean over seeds was tested."""
    return [f"On {set_name}, {words}" for set_name, words in tested_sentences(over).items()]


def tested_sentences(over: OverSeeds) -> dict[str, str]:
    """Return the test result for each set on which the lowest mean over seeds was tested."""
    sentences = {}
    for set_name, tested in over.next_tested.items():
        named = [describe_mean(known.name, known.eer) for known in over.by_set[set_name][:2]]
        sentences[set_name] = difference_sentence(tested, *named)
    return sentences


def describe_mean(name: str, eer: Spread) -> str:
    """Return 'net (mean EER 4.10 % of 3 seeds)'."""
    if len(eer.values) == 1:
        return f"{name} (EER {RATE.format(eer.mean)} % of one seed)"
    return f"{name} (mean EER {RATE.format(eer.mean)} % of {len(eer.values)} seeds)"


def difference_sentence(tested: SeedDifference, first: str, second: str) -> str:
    """Return the test of the difference second - first as a plain sentence.

    Args:
        first, second: Descriptions of the configurations, the one with the lower mean first.
    """
    eer = tested.difference.eer
    p_value = 1.0 if eer.p_value is None else eer.p_value
    verdict = "is significantly better than" if is_worse(tested) else "may be better by chance than"
    if eer.value == 0:
        verdict = "has the same mean as"
    pairing = "paired by seed and trials" if tested.is_paired else "paired by trials"
    low, high = 100 * eer.low, 100 * eer.high
    sentence = (
        f"{first} {verdict} {second}: the difference is {100 * eer.value:.2f} percentage points, "
        f"95 % interval {low:.2f} to {high:.2f}, p {p_value_text(p_value)} ({pairing})"
    )
    if tested.eer_welch_p is not None:
        return f"{sentence}; over seeds alone, p {p_value_text(tested.eer_welch_p)} (Welch's test)."
    few = min(tested.seeds)
    if few == 1:
        return f"{sentence}; with one seed, the spread over seeds is unknown."
    return f"{sentence}; with {few} seeds, only large differences are seen."

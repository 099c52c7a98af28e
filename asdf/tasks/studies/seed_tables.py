"""Tables of systems that differ only in their seed: means, deviations, intervals and tests.

Invariant: the numbers are those of `seed_results`; a system is marked as the best only if a test
over seeds supports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from asdf.tables.labels import labels_of
from asdf.tables.page_cells import PageTable, as_page
from asdf.tables.plain_text import as_lines
from asdf.tables.table import RATE, Column, Columns, Table, Value, counts, each, rate
from asdf.tasks.studies.over_seeds import SeedDifference, Spread
from asdf.tasks.studies.seed_results import OverSeeds, SeedResult, is_worse
from asdf.text import p_value_text

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
    lines = as_lines(Table(labels, columns, "over seeds"))
    chosen_by = [result.best.chosen_words for result in results if result.best]
    lines.append(f"best seed by {', '.join(dict.fromkeys(chosen_by))}")
    for words in tested_sentences(over).values():
        lines += ["", words]
    return "\n".join(lines)


def seed_sentences(over: OverSeeds) -> list[str]:
    """Return a sentence for each set on which the lowest mean over seeds was tested."""
    tested = tested_sentences(over)
    return [f"On {set_name}, {words}" for set_name, words in tested.items()]


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
    if tested.eer_welch_p is None:
        few = min(tested.seeds)
        if few == 1:
            return f"{sentence}; with one seed, the spread over seeds is unknown."
        return f"{sentence}; with {few} seeds, only large differences are seen."
    return f"{sentence}; over seeds alone, p {p_value_text(tested.eer_welch_p)} (Welch's test)."

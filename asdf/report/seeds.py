"""Systems that differ in their seed only: tables of their means, deviations, intervals and tests.

Invariant: the numbers are those of `seed_results`; the best is named only where a test over seeds
says so.
"""

from __future__ import annotations

from dataclasses import replace

from asdf.metrics.over_seeds import SeedDifference, Spread
from asdf.report.gathering import Gathered
from asdf.report.names import labels_of
from asdf.report.seed_results import OverSeeds, SeedResult, is_worse
from asdf.tables.page import ABSENT, Cell, PageTable, head_cells, interval_text, name_cell, percent
from asdf.text import p_value_text

_LABEL = 28


def seeds_table(gathered: Gathered) -> PageTable | None:
    """Return a row for each group of systems that differ by their seed alone.

    None without such a group.
    """
    over = gathered.over_seeds
    groups = [known for known in over.configurations if len(known.systems) > 1]
    if not groups:
        return None
    rows = []
    labels = labels_of([group.name for group in groups], _LABEL)
    for group, label in zip(groups, labels, strict=True):
        row = [name_cell(group.name, label), Cell(len(group.systems))]
        for set_name in gathered.sets:
            row.append(_mean_cell(over, _result_of(over, group.name, set_name)))
        rows.append(row)
    caption = "EER in % over seeds: mean ± standard deviation"
    return PageTable(caption, head_cells(["Systems", "Seeds", *gathered.sets]), rows, "seeds")


def seed_results_table(gathered: Gathered, set_name: str) -> PageTable | None:
    """Return all that is known over seeds on a set; None without a group on it."""
    results = gathered.over_seeds.by_set.get(set_name, [])
    if not any(len(result.seeds) > 1 for result in results):
        return None
    labels = labels_of([result.name for result in results], _LABEL)
    rows = []
    for result, label in zip(results, labels, strict=True):
        rows.append([name_cell(result.name, label), *_result_cells(gathered.over_seeds, result)])
    head = ["Systems", "Seeds", "Mean EER %", "Deviation", "95 % interval", "Best seed"]
    head += ["Chosen by", "Mean minDCF", "Deviation"]
    return PageTable(f"Over seeds on {set_name}", head_cells(head), rows, "over-seeds")


def _result_cells(over: OverSeeds, result: SeedResult) -> list[Cell]:
    best = Cell(ABSENT)
    chosen_by = Cell(ABSENT)
    if result.best is not None:
        text = f"{percent(result.best.eer)} (seed {result.best.seed})"
        best = Cell(text, 100 * result.best.eer, title=result.best.system)
        chosen_by = Cell(result.best.chosen_by or "this set itself")
    mean = _marked(over, result, Cell(percent(result.eer.mean), 100 * result.eer.mean))
    interval = Cell(ABSENT)
    if result.eer.interval is not None:
        interval = Cell(interval_text(result.eer.interval))
    seeds = Cell(len(result.seeds), title=f"seeds {', '.join(result.seeds)}")
    min_dcf = result.min_dcf
    cells = [seeds, mean, _deviation_cell(result.eer, 100, 2), interval, best, chosen_by]
    return [*cells, Cell(f"{min_dcf.mean:.4f}", min_dcf.mean), _deviation_cell(min_dcf, 1, 4)]


def _deviation_cell(spread: Spread, scale: float, digits: int) -> Cell:
    if spread.deviation is None:
        return Cell(ABSENT)
    value = scale * spread.deviation
    return Cell(f"{value:.{digits}f}", value)


def _result_of(over: OverSeeds, name: str, set_name: str) -> SeedResult | None:
    for result in over.by_set.get(set_name, []):
        if result.name == name:
            return result
    return None


def _mean_cell(over: OverSeeds, result: SeedResult | None) -> Cell:
    # One value has no deviation.
    if result is None or result.eer.deviation is None:
        return Cell(ABSENT)
    text = f"{percent(result.eer.mean)} ± {percent(result.eer.deviation)}"
    cell = _marked(over, result, Cell(text, 100 * result.eer.mean))
    if len(result.seeds) < len(result.configuration.systems):
        cell = replace(cell, remark=f" ({len(result.seeds)} seeds)")
    if result.eer.interval is None:
        return cell
    return replace(cell, interval=interval_text(result.eer.interval))


def _marked(over: OverSeeds, result: SeedResult, cell: Cell) -> Cell:
    """Mark the lowest mean of several: 'best' where the test over seeds says so."""
    results = over.by_set[result.set]
    if over.is_leading(result):
        return replace(cell, css="best", mark="best")
    is_lowest = result is results[0] and len(results) > 1
    if is_lowest and results[1].eer.mean > result.eer.mean:
        return replace(cell, mark="lowest")
    return cell


def seed_sentences(gathered: Gathered) -> list[str]:
    """Return a sentence for each set on which the lowest mean over seeds was tested."""
    sentences = []
    over = gathered.over_seeds
    for set_name, tested in over.next_tested.items():
        first, second = over.by_set[set_name][:2]
        words = difference_sentence(tested, describe_result(first), describe_result(second))
        sentences.append(f"On {set_name}, {words}")
    return sentences


def describe_result(result: SeedResult) -> str:
    """Return 'net (mean EER 4.10 % of 3 seeds)'."""
    return describe_mean(result.name, result.eer)


def describe_mean(name: str, eer: Spread) -> str:
    """Return 'net (mean EER 4.10 % of 3 seeds)'."""
    if len(eer.values) == 1:
        return f"{name} (EER {percent(eer.mean)} % of one seed)"
    return f"{name} (mean EER {percent(eer.mean)} % of {len(eer.values)} seeds)"


def difference_sentence(tested: SeedDifference, first: str, second: str) -> str:
    """Return what the test of the second less the first says, in a plain sentence.

    Args:
        first, second: both in words, the first with the lower mean.
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
            return f"{sentence}; with one seed, nothing is known of how far seeds lie apart."
        return f"{sentence}; with {few} seeds, only large differences are seen."
    return f"{sentence}; over seeds alone, p {p_value_text(tested.eer_welch_p)} (Welch's test)."

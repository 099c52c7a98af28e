"""Text and record of two configurations that are compared over their seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from asdf.metrics.metric_columns import EER, MIN_DCF
from asdf.report import SeedComparison
from asdf.tables.table import Column
from asdf.tasks.studies.over_seeds import Spread
from asdf.text import aligned, p_value_text


def seeds_record(comparison: SeedComparison) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    configurations = []
    for side in comparison.sides:
        runs = []
        for run, seed, network in zip(side.runs, side.seeds, side.networks, strict=True):
            runs.append({"folder": str(run.path), "seed": seed, "network": network})
        configurations.append({"name": side.name, "runs": runs})
    return {
        "configurations": configurations,
        "settings": [asdict(difference) for difference in comparison.settings],
        "results": [asdict(result) for result in comparison.results],
        "not_tested": comparison.refused,
    }


def seeds_blocks(comparison: SeedComparison, settings: str) -> Iterator[str]:
    """Yield the parts of the text, in the order in which they are shown.

    Args:
        settings: Settings that differ, as text.
    """
    for letter, side in zip("AB", comparison.sides, strict=True):
        words = f"{len(side.runs)} runs, seeds {', '.join(side.seeds)}"
        if len(side.runs) == 1:
            words = f"1 run, seed {side.seeds[0]}" if side.seeds[0] else "1 run"
        yield f"{letter}  {side.name}: {words}"
    yield f"\nSettings that differ\n{settings}"
    if comparison.results:
        yield "\nResults over seeds (B - A: below zero, B is better)\n" + _results_text(comparison)
        for result in comparison.results:
            yield f"\nOn {result.set}, {result.sentence}"
            yield from result.remarks
    elif not comparison.refused:
        first, second = (", ".join(side.sets()) or "none" for side in comparison.sides)
        yield f"\nno set was scored by all runs: A has {first}; B has {second}"


def _results_text(comparison: SeedComparison) -> str:
    rows: list[Sequence[str]] = [
        ("set", "metric", "A", "B", "B - A", "95 % interval", "p", "p, Welch")
    ]
    for result in comparison.results:
        tested = result.tested
        welch = "-"
        if tested.eer_welch_p is not None:
            # Sentences have 'p = 0.012', a column only the number.
            welch = p_value_text(tested.eer_welch_p).removeprefix("= ")
        eers = [_mean_text(EER, spread) for spread in (result.first, result.second)]
        eers += EER.format_difference(tested.difference.eer, paper=True)
        rows.append((result.set, EER.heading, *eers, welch))
        spreads = (result.first_min_dcf, result.second_min_dcf)
        costs = [_mean_text(MIN_DCF, spread) for spread in spreads]
        costs += MIN_DCF.format_difference(tested.difference.min_dcf, paper=True)
        rows.append(("", MIN_DCF.heading, *costs, ""))
    lines = [f"  {line}" for line in aligned(rows)]
    first = comparison.results[0]
    drawn = "speakers" if first.by_speakers else "trials"
    pairing = "paired by seed" if first.tested.is_paired else "seeds not paired"
    words = f"bootstrap over seeds and {drawn}, {pairing}, two-sided"
    lines.append(f"  {words}; Welch's test over seeds alone")
    return "\n".join(lines)


def _mean_text(metric: Column, spread: Spread) -> str:
    text = metric.format(spread.mean, paper=True)
    if spread.deviation is None:
        return text
    return f"{text} +- {metric.format(spread.deviation, paper=True)}"

"""The text and the record of two configurations that are compared over their seeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from asdf.metrics.bootstrap import Interval
from asdf.metrics.over_seeds import Spread
from asdf.report import SeedComparison, SetDifference, Side
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
        settings: those that differ, as text.
    """
    for letter, side in zip("AB", comparison.sides, strict=True):
        yield f"{letter}  {side.name}: {_count_words(side)}"
    yield f"\nSettings that differ\n{settings}"
    if comparison.results:
        yield "\nResults over seeds (B - A: below zero, B is better)\n" + _results_text(comparison)
        for result in comparison.results:
            yield f"\nOn {result.set}, {result.sentence}"
            yield from result.remarks
    elif not comparison.refused:
        first, second = (", ".join(side.sets()) or "none" for side in comparison.sides)
        yield f"\nno set was scored by all: A has {first}; B has {second}"


def _count_words(side: Side) -> str:
    """Return '3 runs, seeds 0, 1, 2'."""
    if len(side.runs) == 1:
        return f"1 run, seed {side.seeds[0]}" if side.seeds[0] else "1 run"
    return f"{len(side.runs)} runs, seeds {', '.join(side.seeds)}"


def _results_text(comparison: SeedComparison) -> str:
    rows = [("set", "metric", "A", "B", "B - A", "95 % interval", "p", "p, Welch")]
    for result in comparison.results:
        tested = result.tested
        eer = tested.difference.eer
        welch = "-"
        if tested.eer_welch_p is not None:
            welch = p_value_text(tested.eer_welch_p).removeprefix("= ")
        cells = _cells(result.first, result.second, eer, 100, 2)
        rows.append((result.set, "EER %", *cells, welch))
        cost = tested.difference.min_dcf
        cells = _cells(result.first_min_dcf, result.second_min_dcf, cost, 1, 4)
        rows.append(("", "minDCF", *cells, ""))
    lines = [f"  {line}" for line in aligned(rows)]
    lines.append(f"  {_how_tested(comparison.results[0])}")
    return "\n".join(lines)


def _how_tested(result: SetDifference) -> str:
    drawn = "speakers" if result.by_speakers else "trials"
    pairing = "paired by seed" if result.tested.is_paired else "seeds not paired"
    return f"bootstrap over seeds and {drawn}, {pairing}, two-sided; Welch's test over seeds alone"


def _cells(
    first: Spread, second: Spread, difference: Interval, unit: float, digits: int
) -> tuple[str, str, str, str, str]:
    assert difference.p_value is not None
    low = f"{unit * difference.low:+.{digits}f}"
    high = f"{unit * difference.high:+.{digits}f}"
    return (
        _mean_text(first, unit, digits),
        _mean_text(second, unit, digits),
        f"{unit * difference.value:+.{digits}f}",
        f"{low} .. {high}",
        p_value_text(difference.p_value).removeprefix("= "),
    )


def _mean_text(spread: Spread, unit: float, digits: int) -> str:
    text = f"{unit * spread.mean:.{digits}f}"
    if spread.deviation is None:
        return text
    return f"{text} +- {unit * spread.deviation:.{digits}f}"

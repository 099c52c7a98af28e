"""Cells of tables in LaTeX: mean and deviation over seeds, or a value with its interval."""

from __future__ import annotations

from asdf.metrics.over_seeds import Spread
from asdf.tables.page import interval_text

PLUS_MINUS = r"$\pm$"
SEEDS_LEAD = (
    "significantly better than the next one over seeds and trials (Student's t and bootstrap, and "
    "from three seeds each on Welch's test over seeds; p < 0.05)"
)


def spread_cell(spread: Spread, *, is_best: bool, unit: float = 100, digits: int = 2) -> str:
    """Return mean and deviation; of a single seed its value, with its interval if that is known."""
    value = bold(f"{unit * spread.mean:.{digits}f}", is_best)
    if spread.deviation is not None:
        return f"{value} {PLUS_MINUS} {unit * spread.deviation:.{digits}f}"
    if spread.interval is None:
        return value
    return f"{value} ({with_dashes(interval_text(spread.interval, unit, digits))})"


def bold(text: str, is_best: bool) -> str:
    """Return `text`, in bold type if it is the best of its column."""
    return f"\\textbf{{{text}}}" if is_best else text


def with_dashes(interval: str) -> str:
    """Return an interval with a dash that every encoding of LaTeX has."""
    return interval.replace("–", "--")

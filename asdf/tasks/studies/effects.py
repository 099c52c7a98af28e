"""Effects of settings on error rates: the configurations of a sweep by their varied settings.

Invariant: only settings that can change a result count, and every point is a measured
configuration; nothing is interpolated. Settings that always changed together count as one, because
these configurations cannot separate their effects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from asdf.metrics.rank_correlation import rank_correlation
from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import Complaint
from asdf.tasks.studies.configurations import Configuration, find_configurations
from asdf.tasks.studies.grouping import effective_settings
from asdf.tasks.studies.measured import Measured
from asdf.tasks.studies.over_seeds import Spread, spread_of
from asdf.tasks.studies.seed_results import OverSeeds
from asdf.trials.run_folder import RunFolder

# Minimum number of configurations of a sweep.
_MIN_POINTS = 2
_MIN_FOR_RANKS = 4
# Ratio of the largest to the smallest value from which an axis is logarithmic.
_LOG_RATIO = 8.0
# Number of values from which the order of two settings is compared; two values always agree.
_MIN_FOR_ORDER = 3
TOGETHER = " + "
"""Separator of settings that changed together, and of their values."""


class Gathered(Protocol):
    """The part of a report's data about runs that a sweep needs."""

    @property
    def runs(self) -> Sequence[RunFolder]: ...

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def measurements(self) -> Sequence[Measured]: ...

    @property
    def over_seeds(self) -> OverSeeds: ...

    @property
    def sets(self) -> Sequence[str]: ...

    def on(self, set_name: str) -> Sequence[Measured]: ...


@dataclass(frozen=True)
class Point:
    """A configuration of a sweep: its settings as text, and its EER on each set."""

    name: str
    values: tuple[str, ...]
    eers: Mapping[str, Spread]


@dataclass(frozen=True)
class Effects:
    """The configurations of a sweep, ordered by their values, and the varied settings.

    Attributes:
        settings: Names of the settings; those that changed together are joined as 'a + b', and so
            are their values.
        together: Names of the settings in each group that changed together.
    """

    settings: tuple[str, ...]
    sets: tuple[str, ...]
    points: list[Point]
    together: tuple[tuple[str, ...], ...] = ()

    def values(self, index: int) -> list[str]:
        """Return the distinct values of a setting in their order."""
        texts = dict.fromkeys(point.values[index] for point in self.points)
        return sorted(texts, key=value_order)


@dataclass(frozen=True)
class Scale:
    """Positions of the values of a setting on an axis.

    Attributes:
        positions: Position of each value, by its text.
        is_log: Whether the axis is logarithmic.
        is_number: Whether the values are numbers; otherwise they are evenly spaced.
    """

    positions: dict[str, float]
    is_log: bool = False
    is_number: bool = True


def number_of(text: str) -> float | None:
    """Return the number that the text of a setting represents; None for any other value."""
    try:
        value = parse_literal(text)
    except Complaint:
        return None
    # In Python, True is an int.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def value_order(text: str) -> tuple[float, str]:
    """Return a sort key for values: numbers by size, then other texts by name."""
    number = number_of(text)
    return (math.inf if number is None else number, text)


def scale_of(texts: Sequence[str]) -> Scale:
    """Return positions of values: linear, logarithmic if that suits, or evenly spaced."""
    numbers = [number_of(text) for text in texts]
    known = [number for number in numbers if number is not None]
    if len(known) < len(texts):
        return Scale({text: float(index) for index, text in enumerate(texts)}, is_number=False)
    # 0 and negative values have no logarithm.
    is_log = min(known) > 0 and max(known) / min(known) >= _LOG_RATIO
    return Scale(dict(zip(texts, known, strict=True)), is_log)


def find_effects(gathered: Gathered) -> Effects | None:
    """Return the sweep of the configurations; None if they differ in nothing, or in too much."""
    configurations = gathered.over_seeds.configurations or find_configurations(
        gathered.runs, gathered.names, gathered.measurements
    )
    runs = [known.run for known in configurations]
    # Several networks of one run have the same settings.
    if len(set(runs)) < len(runs) or len(runs) < _MIN_POINTS:
        return None
    recorded = [effective_settings(gathered.runs[run]) for run in runs]
    # The settings keep their order; other versions may have additional ones.
    names: dict[str, None] = {}
    for settings in recorded:
        names.update(dict.fromkeys(settings))
    differing = []
    for name in names:
        if len({settings.get(name, "-") for settings in recorded}) > 1:
            differing.append(name)
    # More than two settings are shown by ranks, for which a few configurations are too few.
    if not differing or (len(differing) > 2 and len(runs) < max(_MIN_FOR_RANKS, len(differing))):
        return None
    groups = _group_settings(differing, recorded)
    points = []
    for known, settings in zip(configurations, recorded, strict=True):
        texts = [settings.get(name, "-") for name in differing]
        of_name = dict(zip(differing, texts, strict=True))
        values = tuple(TOGETHER.join(map(of_name.__getitem__, group)) for group in groups)
        points.append(Point(known.name, values, _eers_of(gathered, known)))
    points.sort(key=lambda point: list(map(value_order, point.values)))
    together = tuple(group for group in groups if len(group) > 1)
    return Effects(tuple(map(TOGETHER.join, groups)), tuple(gathered.sets), points, together)


def _group_settings(
    names: Sequence[str], recorded: Sequence[Mapping[str, str]]
) -> list[tuple[str, ...]]:
    """Return the names in groups that changed together, each group in the order of the names."""
    groups: list[tuple[str, ...]] = []
    for name in names:
        texts = [settings.get(name, "-") for settings in recorded]
        for index, group in enumerate(groups):
            # The first of a group suffices, since all of them changed together.
            others = [settings.get(group[0], "-") for settings in recorded]
            if _changed_together(texts, others):
                groups[index] = (*group, name)
                break
        else:
            groups.append((name,))
    return groups


def _changed_together(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether each value of a setting occurs with only one value of another, and vice versa."""
    pairs = set(zip(first, second, strict=True))
    if not len(pairs) == len(set(first)) == len(set(second)):
        return False
    numbers = [(number_of(one), number_of(other)) for one, other in pairs]
    known = [(one, other) for one, other in numbers if one is not None and other is not None]
    if len(known) < len(pairs) or len(pairs) < _MIN_FOR_ORDER:
        return True
    # In a random search all values differ, but their orders separate the effects.
    correlation = rank_correlation([one for one, _ in known], [other for _, other in known])
    return correlation is not None and math.isclose(abs(correlation), 1)


def _eers_of(gathered: Gathered, known: Configuration) -> dict[str, Spread]:
    """Return the EERs of a configuration by set, with the intervals in the report."""
    eers = {}
    for set_name in gathered.sets:
        for result in gathered.over_seeds.by_set.get(set_name, []):
            if result.name == known.name:
                eers[set_name] = result.eer
        for measured in gathered.on(set_name):
            if set_name in eers or measured.system not in known.systems:
                continue
            summary = measured.summary
            interval = summary.intervals.eer if summary.intervals else None
            eer = spread_of([summary.result.eer])
            eers[set_name] = Spread(eer.values, eer.mean, None, interval)
    return eers

"""What settings do to the error rates: the configurations of a sweep by the values that differ.

Invariant: only settings that can change a result count, and every point is a configuration that was
measured; nothing is fitted between points. Settings that changed together are one: no comparison of
these configurations can separate their effects.
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

# Systems that differ in more settings than their number are no sweep.
_MIN_POINTS = 2
_MIN_FOR_RANKS = 4
# From this ratio on values are spread out by their logarithm.
_LOG_RATIO = 8.0
# Numbers of two values go together in any case; of more, where one rises or falls with the other.
_MIN_FOR_ORDER = 3
TOGETHER = " + "
"""What stands between settings that changed together, and between their values."""


class Gathered(Protocol):
    """What a report has gathered of runs, as far as a sweep goes."""

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
    """A configuration of a sweep: the texts of its settings, and its EER on each set."""

    name: str
    values: tuple[str, ...]
    eers: Mapping[str, Spread]


@dataclass(frozen=True)
class Effects:
    """The configurations of a sweep, in the order of their values, and the settings that differ.

    Attributes:
        settings: names; those that changed together are one, as 'a + b', and so are their values.
        together: the names of each group of settings that changed together.
    """

    settings: tuple[str, ...]
    sets: tuple[str, ...]
    points: list[Point]
    together: tuple[tuple[str, ...], ...] = ()

    def values(self, index: int) -> list[str]:
        """Return the different values of a setting in their order."""
        texts = dict.fromkeys(point.values[index] for point in self.points)
        return sorted(texts, key=value_order)


@dataclass(frozen=True)
class Scale:
    """Where the values of a setting lie on an axis.

    Attributes:
        positions: Positions of each value's text.
        is_log: the positions are on a logarithmic axis.
        is_number: they are numbers; else they stand one next to the other.
    """

    positions: dict[str, float]
    is_log: bool = False
    is_number: bool = True


def number_of(text: str) -> float | None:
    """Return the number that a setting's text is; None for any other value."""
    try:
        value = parse_literal(text)
    except Complaint:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def value_order(text: str) -> tuple[float, str]:
    """Return what sorts values: numbers by size, other texts after them by name."""
    number = number_of(text)
    return (math.inf if number is None else number, text)


def scale_of(texts: Sequence[str]) -> Scale:
    """Return where values lie: as numbers, by their logarithm where that suits, or in a row."""
    numbers = [number_of(text) for text in texts]
    known = [number for number in numbers if number is not None]
    if len(known) < len(texts):
        return Scale({text: float(index) for index, text in enumerate(texts)}, is_number=False)
    is_log = min(known) > 0 and max(known) / min(known) >= _LOG_RATIO
    return Scale(dict(zip(texts, known, strict=True)), is_log)


def find_effects(gathered: Gathered) -> Effects | None:
    """Return the sweep that configurations are; None where they differ in nothing, or too much."""
    configurations = gathered.over_seeds.configurations or find_configurations(
        gathered.runs, gathered.names, gathered.measurements
    )
    runs = [known.run for known in configurations]
    # Several networks of one run do not differ in settings.
    if len(set(runs)) < len(runs) or len(runs) < _MIN_POINTS:
        return None
    recorded = [effective_settings(gathered.runs[run]) for run in runs]
    # In the order of the settings, which versions may have others of.
    names: dict[str, None] = {}
    for settings in recorded:
        names.update(dict.fromkeys(settings))
    differing = []
    for name in names:
        if len({settings.get(name, "-") for settings in recorded}) > 1:
            differing.append(name)
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
    """Return the names in groups that changed together, each in the order of the names."""
    groups: list[tuple[str, ...]] = []
    for name in names:
        texts = [settings.get(name, "-") for settings in recorded]
        for index, group in enumerate(groups):
            others = [settings.get(group[0], "-") for settings in recorded]
            if _changed_together(texts, others):
                groups[index] = (*group, name)
                break
        else:
            groups.append((name,))
    return groups


def _changed_together(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether each value of a setting goes with a single value of another, and the reverse."""
    pairs = set(zip(first, second, strict=True))
    if not len(pairs) == len(set(first)) == len(set(second)):
        return False
    numbers = [(number_of(one), number_of(other)) for one, other in pairs]
    known = [(one, other) for one, other in numbers if one is not None and other is not None]
    if len(known) < len(pairs) or len(pairs) < _MIN_FOR_ORDER:
        return True
    # Of a random search all values differ, yet their orders separate the effects.
    correlation = rank_correlation([one for one, _ in known], [other for _, other in known])
    return correlation is not None and math.isclose(abs(correlation), 1)


def _eers_of(gathered: Gathered, known: Configuration) -> dict[str, Spread]:
    """Return the EERs of a configuration by set, with the intervals that the report has."""
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

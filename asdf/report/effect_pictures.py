"""The effects of settings on error rates: the configurations of a sweep, as plots and tables.

Invariant: only settings that can change a result count, and every point is a measured
configuration; nothing is interpolated. Settings that always changed together count as one, because
these configurations cannot separate their effects. Each plot stands next to a table with all its
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from asdf.metrics.score_checks import rank_correlation
from asdf.report.drawing import Figure
from asdf.report.gathering import Gathered
from asdf.report.result_tables import HeatMaps
from asdf.settings.literals import parse_literal
from asdf.settings.mistakes import Complaint
from asdf.tables.panels import Axis, Line, Panel, nice_ticks
from asdf.tables.renderers import PageTable, as_page
from asdf.tables.table import RATE, Column, Columns, Table, Value, counts, each, rate
from asdf.tasks.studies.configurations import Configuration, effective_settings, find_configurations
from asdf.tasks.studies.over_seeds import Spread, spread_of
from asdf.text import shorten

# Minimum number of configurations of a sweep.
_MIN_POINTS = 2
_MIN_FOR_RANKS = 4
# Ratio of the largest to the smallest value from which an axis is logarithmic.
_LOG_RATIO = 8.0
# Number of values from which the order of two settings is compared; two values always agree.
_MIN_FOR_ORDER = 3
TOGETHER = " + "
"""Separator of settings that changed together, and of their values."""
_LABEL = 28
_TICK = 12
_MAX_TICKS = 8
_EFFECT = (
    "Marks are EERs, means over seeds where there are several; vertical lines are their 95 % "
    "intervals."
)


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
    differing: dict[str, list[str]] = {}
    # The settings keep their order; other versions may have additional ones.
    for name in dict.fromkeys(chain.from_iterable(recorded)):
        texts = [settings.get(name, "-") for settings in recorded]
        if len(set(texts)) > 1:
            differing[name] = texts
    # More than two settings are shown by ranks, for which a few configurations are too few.
    if not differing or (len(differing) > 2 and len(runs) < max(_MIN_FOR_RANKS, len(differing))):
        return None
    groups: list[list[str]] = []
    for name, texts in differing.items():
        # The first of a group suffices, since all of them changed together.
        alike = [group for group in groups if changed_together(texts, differing[group[0]])]
        if alike:
            alike[0].append(name)
        else:
            groups.append([name])
    points = []
    for index, known in enumerate(configurations):
        values = []
        for group in groups:
            values.append(TOGETHER.join(differing[name][index] for name in group))
        points.append(Point(known.name, tuple(values), eers_of(gathered, known)))
    points.sort(key=lambda point: list(map(value_order, point.values)))
    together = tuple(tuple(group) for group in groups if len(group) > 1)
    return Effects(tuple(map(TOGETHER.join, groups)), tuple(gathered.sets), points, together)


def changed_together(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether each value of a setting occurs with only one value of another, and vice versa."""
    pairs = set(zip(first, second, strict=True))
    if not len(pairs) == len(set(first)) == len(set(second)):
        return False
    numbers = [(number_of(one), number_of(other)) for one, other in pairs]
    known = [(one, other) for one, other in numbers if one is not None and other is not None]
    if len(known) < len(pairs) or len(pairs) < _MIN_FOR_ORDER:
        return True
    # In a random search all values differ, but their orders separate the effects.
    correlation = rank_correlation(*zip(*known, strict=True))
    return correlation is not None and math.isclose(abs(correlation), 1)


def eers_of(gathered: Gathered, known: Configuration) -> dict[str, Spread]:
    """Return the EERs of a configuration by set, with the intervals in the report."""
    eers: dict[str, Spread] = {}
    for set_name in gathered.sets:
        for measured in gathered.on(set_name):
            if measured.system in known.systems:
                summary = measured.summary
                interval = summary.intervals.eer if summary.intervals else None
                eers[set_name] = replace(spread_of([summary.result.eer]), interval=interval)
        for result in gathered.over_seeds.by_set.get(set_name, []):
            if result.name == known.name:
                eers[set_name] = result.eer
    return eers


@dataclass(frozen=True)
class EffectSection:
    """The content of the page about a sweep.

    Attributes:
        figure: Plot of a sweep of one setting; None for others.
        maps: Heat maps of two settings.
        ranks: Table of more than two settings.
        confounded: Sentence for each group of settings that changed together.
    """

    settings: str
    points: PageTable
    figure: Figure | None = None
    maps: HeatMaps | None = None
    ranks: PageTable | None = None
    confounded: tuple[str, ...] = ()


def effect_section(gathered: Gathered) -> EffectSection | None:
    """Return the effects of settings; None if the runs are not a sweep."""
    effects = find_effects(gathered)
    if effects is None:
        return None
    confounded = tuple(
        f"{', '.join(names[:-1])} and {names[-1]} changed together from system to system: their "
        "effects are confounded, and these runs do not show which of the settings a difference "
        "comes from."
        for names in effects.together
    )
    named = ", ".join(effects.settings)
    section = EffectSection(named, points_table(effects), confounded=confounded)
    if len(effects.settings) == 1:
        panels = [effect_panel(effects, [set_name], set_name) for set_name in effects.sets]
        return replace(section, figure=Figure("effect", f"Effect of {named}", _EFFECT, panels))
    if len(effects.settings) == 2:
        return replace(section, maps=effect_maps(effects))
    return replace(section, ranks=ranks_table(effects))


def points_table(effects: Effects) -> PageTable:
    """Return a row for each configuration: its settings, seeds and EERs."""
    columns: Columns = []
    for index, setting in enumerate(effects.settings):
        texts = [point.values[index] for point in effects.points]
        values = [Value(number_of(x), text=shorten(x, _LABEL), title=x) for x in texts]
        columns.append((Column(setting, _short_name(setting)), values))
    seeds = [each(point.eers.values(), "values") for point in effects.points]
    columns.append(counts("Seeds", [max(map(len, of_point), default=0) for of_point in seeds]))
    for set_name in effects.sets:
        spreads = [point.eers.get(set_name) for point in effects.points]
        columns.append((rate(set_name), list(map(Value.of_spread, spreads))))
    names = each(effects.points, "name")
    labels = [shorten(name, _LABEL) for name in names]
    table = Table(names, columns, "Systems", labels=labels)
    return as_page(table, f"EER in % by {', '.join(effects.settings)}", "effects")


def _short_name(setting: str) -> str:
    """Return 'loss' for 'network.loss', and 'loss + score' for two that changed together."""
    return TOGETHER.join(name.rpartition(".")[2] for name in setting.split(TOGETHER))


def effect_panel(effects: Effects, sets: Sequence[str], title: str = "") -> Panel:
    """Return the EERs on sets by the values of one setting, with their intervals."""
    (setting,) = effects.settings
    positions = positions_of(effects.values(0))
    # There is nothing between values that are not numbers.
    is_linked = None not in map(number_of, positions)
    words: list[str] = []
    lines = []
    rates = [0.0]
    for index, set_name in enumerate(sets):
        points: list[float] = []
        described = []
        for point in effects.points:
            if set_name not in point.eers:
                continue
            eer = point.eers[set_name]
            x = positions[point.values[0]]
            points += [x, 100 * eer.mean]
            described.append(f"{setting} = {point.values[0]}: EER {RATE.format(eer.mean)} %")
            if eer.interval is not None:
                bounds = [x, 100 * eer.interval.low, x, 100 * eer.interval.high]
                lines.append(Line(bounds, index, css="interval"))
                rates.append(bounds[-1])
        rates += points[1::2]
        words += described
        if is_linked and len(points) > 2:
            lines.append(Line(points, index))
        lines.append(Line(points, index, is_linked=False, mark_words=described))
    top = 1.05 * max(rates) or 1.0  # without errors, every rate is 0
    axes = (value_axis(positions, setting), Axis(0, top, nice_ticks(0, top, 5), "EER (%)"))
    text = f"EER on {', '.join(sets)} by {setting}. {'; '.join(words)}"
    return Panel(*axes, 360, 245, title, "effect", text, lines)


def positions_of(texts: Sequence[str]) -> dict[str, float]:
    """Return the position of each value on an axis: numbers, or evenly spaced."""
    numbers = list(map(number_of, texts))
    known = [number for number in numbers if number is not None]
    return dict(zip(texts, known if len(known) == len(texts) else range(len(texts)), strict=True))


def value_axis(positions: Mapping[str, float], setting: str) -> Axis:
    """Return the axis of a setting's values, with room on both sides.

    It is logarithmic if that suits their positions.
    """
    texts = {position: shorten(text, _TICK) for text, position in positions.items()}
    places = sorted(positions.values())
    low, high = places[0], places[-1]
    # Rounded up, so that there are at most `_MAX_TICKS`.
    ticks = places[:: -(-len(places) // _MAX_TICKS)]
    shown = (ticks, _short_name(setting))
    # 0 and negative values have no logarithm.
    if low > 0 and high / low >= _LOG_RATIO:
        room = (high / low) ** 0.06
        return Axis(low / room, high * room, *shown, np.log, texts.__getitem__)
    room = 0.06 * (high - low) or 0.5  # a single value has no extent
    return Axis(low - room, high + room, *shown, text=texts.__getitem__)


def effect_maps(effects: Effects) -> HeatMaps:
    """Return a map for each set: the values of the first setting against those of the second."""
    down, across = effects.settings
    maps = []
    for set_name in effects.sets:
        by_values = {point.values: point.eers.get(set_name) for point in effects.points}
        names = effects.values(0)
        columns: Columns = []
        for other in effects.values(1):
            heading = f"{_short_name(across)} = {shorten(other, _LABEL)}"
            values = []
            for name in names:
                eer = by_values.get((name, other))
                words = "one seed"
                if eer is not None and len(eer.values) > 1:
                    words = f"{len(eer.values)} seeds"
                if eer is not None and eer.interval is not None:
                    words += f", 95 % interval {RATE.format_bounds(eer.interval, '–')} %"
                values.append(Value() if eer is None else Value(eer.mean, title=words))
            columns.append((rate(other, heading, is_shaded=True), values))
        rows = [f"{_short_name(down)} = {shorten(name, _LABEL)}" for name in names]
        caption = f"EER in % on {set_name} by {down} and {across}"
        table = as_page(Table(rows, columns), caption, "heat")
        maps.append({"column": f"settings on {set_name}", "table": table})
    return HeatMaps(maps, 0, is_small=True)


def ranks_table(effects: Effects) -> PageTable:
    """Return a row for each setting: the correlation of the EER with its values."""
    indices = range(len(effects.settings))
    columns: Columns = [counts("Values", [len(effects.values(index)) for index in indices])]
    for name in effects.sets:
        columns.append((Column(name, name), [rank_value(effects, i, name) for i in indices]))
    caption = (
        "How the mean EER changes with each setting: rank correlation of numbers (Spearman; above "
        "0, higher values have higher EERs), means in % of other values"
    )
    return as_page(Table(effects.settings, columns, "Setting"), caption, "effects")


def rank_value(effects: Effects, index: int, set_name: str) -> Value:
    """Return the rank correlation of the EERs with a setting, or their means by its words."""
    known = [point for point in effects.points if set_name in point.eers]
    eers = [point.eers[set_name].mean for point in known]
    numbers = [number_of(point.values[index]) for point in known]
    values = [number for number in numbers if number is not None]
    # Words have no ranks: their means are shown instead.
    if len(values) < len(known):
        by_value: dict[str, list[float]] = {}
        for point, eer in zip(known, eers, strict=True):
            by_value.setdefault(point.values[index], []).append(eer)
        means = {text: RATE.format(float(np.mean(eers))) for text, eers in by_value.items()}
        return Value(text="; ".join(f"{shorten(text, _LABEL)}: {x}" for text, x in means.items()))
    correlation = rank_correlation(values, eers)
    if correlation is None:
        return Value()
    return Value(correlation, text=f"{correlation:+.2f}".replace("-", "−"))

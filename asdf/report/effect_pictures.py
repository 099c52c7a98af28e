"""The effects of settings on the page: plots, heat maps and tables.

Invariant: each plot stands next to a table with all its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from asdf.metrics.rank_correlation import rank_correlation
from asdf.report.conditions import HeatMap, HeatMaps, step_words
from asdf.report.drawing import Figure
from asdf.report.gathering import Gathered
from asdf.tables.page_cells import PageTable, as_page
from asdf.tables.panels import Axis, Line, Panel, nice_ticks
from asdf.tables.table import RATE, Column, Columns, Table, Value, counts, each, rate
from asdf.tasks.studies.effects import TOGETHER, Effects, Scale, find_effects, number_of, scale_of
from asdf.tasks.studies.over_seeds import Spread
from asdf.text import shorten

_LABEL = 28
_TICK = 12
_MAX_TICKS = 8
_EFFECT = (
    "Marks are EERs, means over seeds where there are several; upright lines are their 95 % "
    "intervals."
)


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
    confounded = []
    for names in effects.together:
        confounded.append(
            f"{', '.join(names[:-1])} and {names[-1]} changed together from system to system: "
            "their effects are confounded, and these runs do not show which of the settings a "
            "difference comes from."
        )
    section = EffectSection(
        ", ".join(effects.settings), _points_table(effects), confounded=tuple(confounded)
    )
    if len(effects.settings) == 1:
        panels = [effect_panel(effects, [set_name], set_name) for set_name in effects.sets]
        figure = Figure("effect", f"Effect of {effects.settings[0]}", _EFFECT, panels)
        return replace(section, figure=figure)
    if len(effects.settings) == 2:
        return replace(section, maps=_effect_maps(effects))
    return replace(section, ranks=_ranks_table(effects))


def _points_table(effects: Effects) -> PageTable:
    columns: Columns = []
    for index, setting in enumerate(effects.settings):
        values = []
        for point in effects.points:
            text = point.values[index]
            shown = shorten(text, _LABEL)
            values.append(Value(number_of(text), text=shown, title=text))
        columns.append((Column(setting, _short_name(setting)), values))
    seeds = []
    for point in effects.points:
        seeds.append(max((len(eer.values) for eer in point.eers.values()), default=0))
    columns.append(counts("Seeds", seeds))
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
    scale = scale_of(effects.values(0))
    words: list[str] = []
    lines = []
    rates = [0.0]
    for index, set_name in enumerate(sets):
        points: list[float] = []
        described = {}
        for point in effects.points:
            if set_name not in point.eers:
                continue
            eer = point.eers[set_name]
            x = scale.positions[point.values[0]]
            points += [x, 100 * eer.mean]
            described[x] = f"{setting} = {point.values[0]}: EER {RATE.format(eer.mean)} %"
            if eer.interval is not None:
                bounds = [x, 100 * eer.interval.low, x, 100 * eer.interval.high]
                lines.append(Line(bounds, index, css="interval"))
                rates.append(bounds[-1])
        rates += points[1::2]
        words += described.values()
        # There is nothing between values that are not numbers.
        if scale.is_number and len(points) > 2:
            lines.append(Line(points, index))

        # A default, because a closure would have the texts of the last set.
        def words_at(x: float, _: float, described: Mapping[float, str] = described) -> str:
            return described[x]

        lines.append(Line(points, index, is_linked=False, mark_words=words_at))
    top = 1.05 * max(rates) or 1.0  # without errors, every rate is 0
    return Panel(
        _value_axis(scale, setting),
        Axis(0, top, nice_ticks(0, top, 5), "EER (%)"),
        360,
        245,
        title,
        "effect",
        f"EER on {', '.join(sets)} by {setting}. {'; '.join(words)}",
        lines,
    )


def _value_axis(scale: Scale, setting: str) -> Axis:
    """Return the axis of a setting's values, with room on both sides."""
    positions = sorted(scale.positions.values())
    texts = {position: text for text, position in scale.positions.items()}
    low, high = positions[0], positions[-1]
    if scale.is_log:
        room = (high / low) ** 0.06
        low, high = low / room, high * room
    else:
        room = 0.06 * (high - low) or 0.5  # a single value has no extent
        low, high = low - room, high + room
    # Rounded up, so that there are at most `_MAX_TICKS`.
    step = -(-len(positions) // _MAX_TICKS)
    return Axis(
        low,
        high,
        positions[::step],
        _short_name(setting),
        np.log if scale.is_log else np.asarray,
        lambda position: shorten(texts[position], _TICK),
    )


def _effect_maps(effects: Effects) -> HeatMaps:
    """Return a map for each set: the values of the first setting against those of the second."""
    down, across = effects.settings
    maps = []
    for set_name in effects.sets:
        by_values = {point.values: point.eers.get(set_name) for point in effects.points}
        names = effects.values(0)
        columns: Columns = []
        for other in effects.values(1):
            heading = f"{_short_name(across)} = {shorten(other, _LABEL)}"
            values = [_map_value(by_values.get((name, other))) for name in names]
            columns.append((rate(other, heading, is_shaded=True), values))
        rows = [f"{_short_name(down)} = {shorten(name, _LABEL)}" for name in names]
        caption = f"EER in % on {set_name} by {down} and {across}"
        table = as_page(Table(rows, columns), caption, "heat")
        maps.append(HeatMap(f"settings on {set_name}", table))
    return HeatMaps(maps, step_words(), 0, is_small=True)


def _map_value(eer: Spread | None) -> Value:
    if eer is None:
        return Value()
    words = f"{len(eer.values)} seeds" if len(eer.values) > 1 else "one seed"
    if eer.interval is not None:
        words += f", 95 % interval {RATE.format_bounds(eer.interval, '–')} %"
    return Value(eer.mean, title=words)


def _ranks_table(effects: Effects) -> PageTable:
    """Return a row for each setting: the correlation of the EER with its values."""
    indices = range(len(effects.settings))
    columns: Columns = [counts("Values", [len(effects.values(index)) for index in indices])]
    for set_name in effects.sets:
        values = [_rank_value(effects, index, set_name) for index in indices]
        columns.append((Column(set_name, set_name), values))
    caption = (
        "How the mean EER changes with each setting: rank correlation of numbers (Spearman; above "
        "0, higher values have higher EERs), means in % of other values"
    )
    return as_page(Table(effects.settings, columns, "Setting"), caption, "effects")


def _rank_value(effects: Effects, index: int, set_name: str) -> Value:
    known = [point for point in effects.points if set_name in point.eers]
    eers = [point.eers[set_name].mean for point in known]
    numbers = [number_of(point.values[index]) for point in known]
    values = [number for number in numbers if number is not None]
    # Words have no ranks: their means are shown instead.
    if len(values) < len(known):
        by_value: dict[str, list[float]] = {}
        for point, eer in zip(known, eers, strict=True):
            by_value.setdefault(point.values[index], []).append(eer)
        parts = []
        for text, of_value in by_value.items():
            parts.append(f"{shorten(text, _LABEL)}: {RATE.format(float(np.mean(of_value)))}")
        return Value(text="; ".join(parts))
    correlation = rank_correlation(values, eers)
    if correlation is None:
        return Value()
    return Value(correlation, text=f"{correlation:+.2f}".replace("-", "−"))

"""An explanation as text and as a plot, without further computation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

import numpy as np

from asdf.arrays import Floats
from asdf.extras.forensic.why.cells import FILLERS, Grid
from asdf.extras.forensic.why.explanation import METHODS, Explanation, Map
from asdf.facts import SAMPLE_RATE
from asdf.scoring.columns import CANNOT_TELL, UNDECIDED
from asdf.scoring.scored import BONA_FIDE
from asdf.tables.panels import Axis, Line, Panel, nice_ticks

_SHOWN = 3
_WIDTH = 800
_HEIGHT = 300
_LEVELS = 10
_KEY_CHARACTERS = 110


def explanation_text(explanation: Explanation) -> str:
    """Return the strongest stretches and bands of each map, and the results of its checks."""
    times = "the speech from" if explanation.is_of_speech else "from"
    filler = FILLERS[explanation.options.filler]
    lines = [
        f"{explanation.name}, {times} {explanation.start_s:.2f} to {explanation.end_s:.2f} s: raw "
        f"score {explanation.score:.4g}; of {filler} alone {explanation.filler_score:.4g}"
    ]
    if not explanation.is_clear:
        lines.append(f"  {UNDECIDED}: {CANNOT_TELL}")
    for found in explanation.maps:
        stretches = [_stretch(explanation, index) for index in range(explanation.grid.shape[0])]
        bands = [_band(explanation.grid, index) for index in range(explanation.grid.shape[1])]
        lines += [
            f"  what moves it towards {explanation.toward}, by {METHODS[found.method]}:",
            f"    times  {_strongest(stretches, found.stretches_S, explanation)}",
            f"    bands  {_strongest(bands, found.bands_B, explanation)}",
            *(f"    {line}" for line in check_lines(explanation, found)),
        ]
    return "\n".join(lines)


def check_lines(explanation: Explanation, found: Map) -> Iterator[str]:
    """Yield the results of a map's checks as sentences, with a warning if it is not meaningful."""
    removal = found.removal
    yield (
        f"without its {removal.cells} marked cells the score moves {removal.marked:.3g} away from "
        f"{explanation.toward}, without as many random ones {removal.random:.3g} (95 % of "
        f"{removal.draws} draws: {removal.low:.3g} to {removal.high:.3g})"
    )
    if removal.marked <= removal.high:
        yield "WARNING: the marked cells matter no more than random ones; do not rely on this map"
    if found.weights is not None:
        known = ", ".join(f"{value:.2f}" for value in found.weights.correlations)
        yield f"rank correlation with the maps of shuffled weights: {known}"
        if found.weights.hardly_changes:
            yield (
                "WARNING: the map hardly changes when the weights are shuffled: it shows the "
                "recording, not what the network has learnt"
            )
    difference = abs(explanation.score - explanation.filler_score)
    # Occlusion may miss it without an error, since its cells interact.
    if found.method == "gradients" and abs(found.gap) > 0.05 * difference:
        yield (
            f"WARNING: the contributions miss the difference of the scores by {abs(found.gap):.3g}:"
            " more steps are needed"
        )


def explanation_svg(explanation: Explanation) -> str:
    """Draw the maps over time and bands as an SVG file, with dots in the marked cells."""
    from asdf.report import picture_svg

    key = [
        f"blue: raises the score (towards bona fide), orange: lowers it; replaced by "
        f"{FILLERS[explanation.options.filler]}",
        f"dots: the {explanation.maps[0].removal.cells} cells that move it towards "
        f"{explanation.toward} the most",
    ]
    for found in explanation.maps:
        key += [f"{METHODS[found.method]}: {line}" for line in check_lines(explanation, found)]
    # SVG does not break lines.
    wrapped = []
    for line in key:
        wrapped += wrap(line, _KEY_CHARACTERS, break_on_hyphens=False)
    panels = [_panel(explanation, found) for found in explanation.maps]
    return picture_svg(panels, wrapped)


def _panel(explanation: Explanation, found: Map) -> Panel:
    grid = explanation.grid
    edges_s = explanation.start_s + np.array(grid.stretches) / SAMPLE_RATE
    largest = float(np.abs(found.cells_SB).max())
    lines = []
    marks: list[float] = []
    words = []
    for stretch, band in np.ndindex(grid.shape):
        value = float(found.cells_SB[stretch, band])
        left, right = edges_s[stretch : stretch + 2].tolist()
        # All bands have the same height: those of speech would be very narrow on an axis in Hz.
        corners = [left, band, right, band, right, band + 1, left, band + 1]
        # A network that answers the same to everything has no largest change.
        level = round(_LEVELS * abs(value) / largest) if largest else 0
        if level:
            side = "up" if value > 0 else "down"
            lines.append(Line(corners, css=f"{side} l{level}", is_area=True))
        if found.marked_SB[stretch, band]:
            marks += [(left + right) / 2, band + 0.5]
            words.append(f"{_stretch(explanation, stretch)}, {_band(grid, band)}: {value:.3g}")
    dots = Line(marks, is_linked=False, mark_words=words)
    names = [f"{edge:,.0f}" for edge in grid.bands_hz]
    title = f"{explanation.name}: {METHODS[found.method]}"
    start_s = explanation.start_s
    end_s = explanation.end_s
    seconds = "seconds of speech" if explanation.is_of_speech else "seconds"
    x_axis = Axis(start_s, end_s, nice_ticks(start_s, end_s, 8), seconds)
    ticks = list(range(len(names)))
    y_axis = Axis(0, len(names) - 1, ticks, "Hz", text=lambda edge: names[round(edge)])
    panel_lines = [*lines, dots]
    return Panel(x_axis, y_axis, _WIDTH, _HEIGHT, title, "heat", title, panel_lines)


def _strongest(names: Sequence[str], values: Floats, explanation: Explanation) -> str:
    """Return the parts that contribute most towards the side of the score, with their values."""
    sign = 1 if explanation.toward == BONA_FIDE else -1
    order = np.argsort(-sign * values, kind="stable")[:_SHOWN]
    pushing = [index for index in order if sign * values[index] > 0]
    if not pushing:
        return "none pushes that way by itself"
    return "; ".join(f"{names[index]} ({values[index]:+.3g})" for index in pushing)


def _stretch(explanation: Explanation, index: int) -> str:
    low, high = explanation.grid.stretch_s(index)
    return f"{explanation.start_s + low:.2f}-{explanation.start_s + high:.2f} s"


def _band(grid: Grid, index: int) -> str:
    low, high = grid.band_hz(index)
    return f"{low:g}-{high:g} Hz"

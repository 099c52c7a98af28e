"""Options and results of an explanation: as values, as text and as a plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from textwrap import wrap
from typing import Any, Literal

import numpy as np

from asdf.arrays import Flags, Floats
from asdf.errors import UsageError
from asdf.extras.forensic.why.cells import BANDS_HZ, FILLERS, Grid, check_cells
from asdf.facts import SAMPLE_RATE
from asdf.scoring.columns import CANNOT_TELL, UNDECIDED
from asdf.scoring.scored import BONA_FIDE
from asdf.tables.panels import Axis, Line, Panel, nice_ticks

Method = Literal["occlusion", "gradients"]
METHODS = {"occlusion": "occlusion", "gradients": "integrated gradients"}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of an explanation.

    Attributes:
        methods: Methods of `METHODS`, each of which gives a map.
        filler: Replacement of a cell, one of `FILLERS`; also the start of gradients.
        stretch_s: Approximate length of a stretch in seconds; longer in windows of more than 10 s.
        bands_hz: Edges of the bands in Hz, from 0 to 8,000.
        marked: Proportion of the cells that are marked as those that the score depends on.
        draws: Number of random sets of cells for comparison with the marked ones.
        shuffles: Number of times that the weights are shuffled; 0: no check.
        steps: Number of points between filler and recording at which gradients are computed.
        seed: Seed of all random draws.
        start_s: Start of the explained window, in seconds; None: the window with the lowest score.
    """

    methods: Sequence[Method] = ("occlusion",)
    filler: Literal["noise", "silence"] = "noise"
    stretch_s: float = 0.25
    bands_hz: Sequence[float] = BANDS_HZ
    marked: float = 0.1
    draws: int = 20
    shuffles: int = 3
    steps: int = 32
    seed: int = 0
    start_s: float | None = None

    def entry(self) -> dict[str, Any]:
        """Return the options as plain values."""
        listed = {"methods": list(self.methods), "bands_hz": list(self.bands_hz)}
        return {**asdict(self), **listed}


def check_options(options: Options) -> None:
    """Refuse options before anything is computed.

    Raises:
        UsageError: a value is not valid, or gradients are requested and captum is missing.
    """
    check_cells(options.stretch_s, options.bands_hz)
    start_s = options.start_s
    if not options.methods or not set(options.methods) <= METHODS.keys():
        raise UsageError(f"methods {options.methods!r}: choose from {', '.join(METHODS)}.")
    if options.filler not in FILLERS:
        raise UsageError(f"filler {options.filler!r}: choose {' or '.join(FILLERS)}.")
    enough = options.draws >= 2 and options.steps >= 2 and options.shuffles >= 0
    if not enough or not 0 < options.marked < 1:
        raise UsageError(
            "draws and steps must be at least 2, shuffles at least 0, and marked a share of the "
            "cells, such as 0.1."
        )
    if start_s is not None and not 0 <= start_s < math.inf:
        raise UsageError(f"a window that starts at {start_s:g} s: give seconds from 0 on.")
    if "gradients" in options.methods and find_spec("captum") is None:
        raise UsageError(
            "integrated gradients need captum: pip install 'asdf-antispoofing[why]'. Occlusion "
            "needs no other package: --by occlusion."
        )


HARDLY_CHANGES = 0.5
"""Mean rank correlation from which a map hardly depends on the weights."""


@dataclass(frozen=True)
class WeightsCheck:
    """Similarity of the network's map to those of networks with shuffled weights.

    The weights of each tensor are shuffled within it (Adebayo et al., 2018). Correlations are
    Spearman's, of the cells' absolute contributions; that of a constant map is 0.

    Attributes:
        correlations: Rank correlation for each seed.
    """

    correlations: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the correlations."""
        return float(np.mean(self.correlations))

    @property
    def hardly_changes(self) -> bool:
        """Whether the map is close to that of an untrained network."""
        return self.mean >= HARDLY_CHANGES

    def entry(self) -> dict[str, Any]:
        """Return the check as plain values."""
        known = {"mean": self.mean, "hardly_changes": self.hardly_changes}
        return {"correlations": list(self.correlations), **known}


@dataclass(frozen=True)
class Removal:
    """Change of the score against its side when cells are replaced by the filler.

    Attributes:
        cells: Number of replaced cells.
        marked: Change without the marked cells.
        random: Mean change without as many random cells.
        low, high: Limits that contain 95 % of the random draws.
        draws: Number of random draws.
        p_value: Proportion of draws, including the marked one, with at least the change of the
            marked cells.
    """

    cells: int
    marked: float
    random: float
    low: float
    high: float
    draws: int
    p_value: float


@dataclass(frozen=True, eq=False)
class Map:
    """The contribution of each cell to the score, by one method.

    Attributes:
        method: Method of `METHODS`.
        cells_SB: Contribution of each cell: positive if it raises the score, so that replacing it
            with the filler lowers the score.
        stretches_S: Contribution of each stretch with all of its bands.
        bands_B: Contribution of each band over all of the window.
        marked_SB: Whether the score depends on a cell, according to its contribution.
        removal: Effect of replacing the marked cells.
        weights: Comparison with shuffled weights; None if not requested.
        gap: Difference between the sum of the cells and the score minus that of the filler. For
            gradients it is an error; for occlusion it shows the interaction of cells.
    """

    method: str
    cells_SB: Floats
    stretches_S: Floats
    bands_B: Floats
    marked_SB: Flags
    removal: Removal
    weights: WeightsCheck | None
    gap: float

    def entry(self) -> dict[str, Any]:
        """Return the map as plain values."""
        return {
            "method": self.method,
            "cells": self.cells_SB.tolist(),
            "stretches": self.stretches_S.tolist(),
            "bands": self.bands_B.tolist(),
            "marked": self.marked_SB.tolist(),
            "removal": asdict(self.removal),
            "shuffled_weights": None if self.weights is None else self.weights.entry(),
            "gap": self.gap,
        }


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of the score of a window of a recording.

    Attributes:
        name: Name of the recording.
        start_s, end_s: Times of the window in seconds; of the speech if silence is cut.
        is_of_speech: Whether speech activity detection removed silence, so that times are those of
            the remaining speech.
        score: Raw score of the window, before calibration.
        filler_score: Raw score of the filler alone.
        toward: Side of the score, 'bona fide' or 'spoof': by the threshold, or without one by
            comparison with the filler's score.
        is_clear: Whether its likelihood ratio tells the sides apart; if not, the verdict is
            'undecided'.
        grid: Cells of the window.
        passes: Number of waveforms that were scored.
        options: Options of the explanation.
        maps: Maps, one per method.
    """

    name: str
    start_s: float
    end_s: float
    is_of_speech: bool
    score: float
    filler_score: float
    toward: str
    is_clear: bool
    grid: Grid
    passes: int
    options: Options
    maps: Sequence[Map]

    def entry(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        edges_s = [self.start_s + edge / SAMPLE_RATE for edge in self.grid.stretches]
        names = ("name", "start_s", "end_s", "is_of_speech", "score", "filler_score", "toward")
        return {
            **{name: getattr(self, name) for name in names},
            "is_clear": self.is_clear,
            "stretches_s": edges_s,
            "bands_hz": list(self.grid.bands_hz),
            "passes": self.passes,
            "options": self.options.entry(),
            "maps": [map_.entry() for map_ in self.maps],
        }


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

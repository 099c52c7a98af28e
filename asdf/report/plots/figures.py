"""The panels of pages as figures for papers, by matplotlib: colours, sizes, and atomic writing.

Invariant: the same numbers give the same file, byte for byte (no date, no random ids), so that a
figure in a paper's repository changes only when a number does. Systems differ in dashes as well as
in colour, for grey prints and colour-blind readers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from asdf.errors import UsageError
from asdf.runs.files import atomic_write
from asdf.tables.panels import Line, Panel
from asdf.text import AnyPath

FORMATS = ("pdf", "png", "svg")

# Okabe and Ito, "Color Universal Design", 2008, without the yellow, which is invisible on white,
# plus two more: the curves of all spoofs and of eight attacks need nine colours.
COLOURS = (
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#6a45c9",
    "#8c564b",
)
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
)

MARKS = ("o", "s", "^", "D", "v")

Plot = TypeVar("Plot", bound=Callable[..., Any])

COLUMN_INCHES = 3.5
"""Width of a column in a two-column paper, in inches."""

_LOOK: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.5,
    "pdf.fonttype": 42,  # journals refuse the type 3 fonts that are matplotlib's default
    "svg.fonttype": "none",  # text stays text, which can be searched
    "svg.hashsalt": "asdf",  # otherwise ids are random, and the file differs at each run
    "savefig.dpi": 300,
    "text.parse_math": False,  # names of files and attacks may hold dollar signs
}


# Metadata that removes the date from a file; matplotlib writes no date into a PNG.
_UNDATED: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def styled(plot: Plot) -> Plot:
    """Return `plot` in the project's style, independent of the user's own matplotlibrc."""

    @functools.wraps(plot)
    def drawn(*arguments: Any, **options: Any) -> Any:
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(_LOOK)
            return plot(*arguments, **options)

    return drawn  # type: ignore[return-value]


def new_figure(width: float = COLUMN_INCHES, height: float = 2.8, rows: int = 1) -> Figure:
    """Return a figure of that size in inches, with axes below each other."""
    # pyplot would keep every figure and may look for a display.
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.subplots(nrows=rows, sharex=True)
    return figure


@styled
def draw_panels(
    panels: Sequence[Panel | None],
    legend: Mapping[str, Line],
    title: str = "",
    *,
    height: float = 2.7,
    columns: int = 1,
) -> Figure:
    """Return panels below each other, which share the horizontal axis and a legend below them.

    Args:
        legend: Names with the styles of their lines, in a number of columns.
        height: Height of the figure in inches, besides that of the legend's lines.
    """
    lines = -(-len(legend) // columns)
    figure = new_figure(COLUMN_INCHES, height + 0.14 * lines, len(panels))
    for axes, panel in zip(figure.axes, panels, strict=True):
        if panel is not None:
            draw_panel(axes, panel)
        if axes is not figure.axes[-1]:
            axes.set_xlabel("")
    figure.axes[0].set_title(title)
    handles = [Line2D([], [], label=name, **line_style(line)) for name, line in legend.items()]
    # Inside the axes, a legend would cover some points.
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def draw_panel(axes: Any, panel: Panel) -> None:
    """Draw a panel of the page onto axes of matplotlib, in the positions of the panel's scales."""
    x, y = panel.x, panel.y
    for line in panel.lines:
        if line.css == "diagonal":
            style: dict[str, Any] = {"color": "0.7", "linewidth": 0.6, "zorder": 0}
        else:
            style = line_style(line)
        xs = x.scale(line.points[::2])
        ys = y.scale(line.points[1::2])
        if line.is_area:
            # Hatching distinguishes the classes in grey too.
            hatch = "//" if line.index % 2 else ""
            axes.fill(xs, ys, alpha=0.3, color=style["color"], hatch=hatch)
            continue
        # A single point may lie beyond the axes: its mark is then drawn at their ends.
        if len(xs) == 1:
            xs = np.clip(xs, *x.scale([x.low, x.high]))
            ys = np.clip(ys, *y.scale([y.low, y.high]))
            style |= {"zorder": 3, "clip_on": False, "markersize": 4.5}
        axes.plot(xs, ys, **style)
    for upright in panel.uprights:
        axes.axvline(x.scale(upright.x), color="0.3", linewidth=0.8, linestyle=":")
        place = axes.get_xaxis_transform()
        label = f" {upright.label}"
        axes.text(x.scale(upright.x), 1, label, transform=place, va="top", fontsize=6, color="0.3")
    axes.set_xticks(x.scale(x.ticks), list(map(x.text, x.ticks)))
    axes.set_yticks(y.scale(y.ticks), list(map(y.text, y.ticks)))
    axes.set(xlim=x.scale([x.low, x.high]), ylim=y.scale([y.low, y.high]))
    axes.set(xlabel=x.label, ylabel=y.label, title=panel.title)
    axes.grid(True)


def line_style(line: Line) -> dict[str, Any]:
    """Return colour, dashes and marker of a line; 45 numbers have distinct colours and dashes."""
    index = line.index
    style: dict[str, Any] = {"color": COLOURS[index % len(COLOURS)], "linestyle": "none"}
    if line.is_linked:
        style["linestyle"] = DASHES[index % len(DASHES)]
    if line.css in ("interval", "noise"):
        style["linewidth"] = 0.8
    if line.css == "noise":
        style["alpha"] = 0.3
    if line.mark_words is not None:
        # Shapes differ, so that overlapping marks can be distinguished.
        style["marker"] = MARKS[index % len(MARKS)]
        style |= {"markersize": 3, "markerfacecolor": "white"}
    return style


# Styled as well: fonts and resolution are settings that are read on saving.
@styled
def save_figure(figure: Figure, path: AnyPath) -> None:
    """Write a figure atomically; the suffix of `path` is the format.

    Raises:
        UsageError: the suffix is not one of `FORMATS`.
        AsdfError: the file cannot be written.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(
            f"{path}: plots are written as {', '.join(FORMATS)}. Give the file one of these "
            "suffixes."
        )
    with atomic_write(path, "wb") as file:
        figure.savefig(file, format=kind, metadata=_UNDATED.get(kind, {}))

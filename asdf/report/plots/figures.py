"""What all plots share: matplotlib where it is needed, colours, sizes, and whole files.

Invariant: the same numbers give the same file, byte for byte (no date, no random ids), so that a
figure in a paper's repository changes only when a number does. Systems differ by dashes as well as
by colour: plots are printed in grey and seen by colour-blind eyes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from asdf.errors import UsageError
from asdf.runs.files import atomic_write

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("pdf", "png", "svg")

# Okabe and Ito, "Color Universal Design", 2008, without the yellow, which vanishes on white; then
# two more, so that the curves of all spoofs and of eight attacks have nine colours.
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
"""The width of a column of a paper of two columns."""

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
    "svg.fonttype": "none",
    "svg.hashsalt": "asdf",
    "savefig.dpi": 300,
    "text.parse_math": False,  # names of files and attacks may hold dollar signs
}


# What keeps the date out of a file; matplotlib writes none into a PNG.
_UNDATED: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def styled(plot: Plot) -> Plot:
    """Return `plot` in the look of the project, whatever the user's own matplotlibrc says."""

    @functools.wraps(plot)
    def drawn(*arguments: Any, **options: Any) -> Any:
        try:
            import matplotlib
        except ImportError:
            raise UsageError(
                "plots need matplotlib, which is not installed. Install it with: "
                "pip install 'asdf-antispoofing[report]'"
            ) from None
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_LOOK)
            return plot(*arguments, **options)

    return drawn  # type: ignore[return-value]


def new_figure(
    width: float = COLUMN_INCHES, height: float = 2.8, **grid: Any
) -> tuple[Figure, Any]:
    """Return a figure of that size in inches and its axes; `grid` goes to `Figure.subplots`."""
    # Not pyplot, which holds on to every figure and may look for a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**grid)


def line_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of the line number `index`; no two of 45 lines share both."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)]}


def mark_style(index: int) -> dict[str, Any]:
    """Return the mark of the line number `index`, which has the shape that the report's page uses.

    Shapes differ, so that marks on each other can be distinguished.
    """
    return {
        "marker": MARKS[index % len(MARKS)],
        "linestyle": "none",
        "color": COLOURS[index % len(COLOURS)],
        "markersize": 4.5,
        "markerfacecolor": "white",
    }


@styled
def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
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

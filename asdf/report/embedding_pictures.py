"""Plots of embeddings as SVG, and their section of the page.

Invariant: a plot is readable without a script and without colours, and a table states the number of
points of each kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.report.html_page import EmbeddingSection, render
from asdf.tables.page_cells import as_page
from asdf.tables.table import Columns, Table, counts, each, texts
from asdf.tasks.embeddings.embedding_files import Embeddings
from asdf.tasks.embeddings.pictures import Picture, PointGroup, embedding_picture
from asdf.text import printable

_WIDTH = 640
_HEIGHT = 440
_MARGIN = 16
# Heights of a line of the legend, and of the text below.
_LINE = 22
_FOOT = 44
_R = 3.0
# Outlines relative to the centre of a mark, to which the path has moved.
_CIRCLE = f"m{-_R} 0a{_R} {_R} 0 1 0 {2 * _R} 0a{_R} {_R} 0 1 0 {-2 * _R} 0z"
_OUTLINES = {
    "circle": _CIRCLE,
    "square": f"m{-_R} {-_R}h{2 * _R}v{2 * _R}h{-2 * _R}z",
    "triangle": f"m0 {-_R - 1}l{_R + 1} {2 * _R}h{-2 * _R - 2}z",
    "diamond": f"m0 {-_R - 1.5}l{_R + 1} {_R + 1.5}l{-_R - 1} {_R + 1.5}l{-_R - 1} {-_R - 1.5}z",
    "plus": f"m{-_R} 0h{2 * _R}m{-_R} {-_R}v{2 * _R}",
    "cross": f"m{-_R} {-_R}l{2 * _R} {2 * _R}m0 {-2 * _R}l{-2 * _R} {2 * _R}",
    "bar": f"m{-_R} 0h{2 * _R}",
    "hollow circle": _CIRCLE,
}
_LINES = ("plus", "cross", "bar", "hollow circle")


@dataclass(frozen=True)
class _Entry:
    """A group as the template draws it: its marks, and its line of the legend.

    Attributes:
        marks, key: Outlines of its points, and of its mark in the legend.
        y: Baseline of its words, in pixels.
    """

    marks: str
    key: str
    fill: str
    stroke: str
    words: str
    y: int


def points_svg(picture: Picture) -> str:
    """Return a plot of embeddings with its legend, as an SVG document."""
    entries = []
    for index, (group, pixels) in enumerate(
        zip(picture.groups, _on_canvas(picture.groups), strict=True)
    ):
        y = _HEIGHT + 26 + _LINE * index
        is_line = group.shape in _LINES
        entries.append(
            _Entry(
                marks=_outline(group.shape, pixels),
                key=_outline(group.shape, np.array([[_MARGIN + 6.0, y - 4.0]])),
                fill="none" if is_line else group.colour,
                stroke=group.colour if is_line else "none",
                words=printable(f"{group.name}: {group.count:,}", one_line=True),
                y=y,
            )
        )
    counted = "; ".join(f"{group.name}: {group.count}" for group in picture.groups)
    return render(
        "points.html",
        width=_WIDTH,
        height=_HEIGHT,
        whole_height=_HEIGHT + _LINE * len(entries) + _FOOT,
        margin=_MARGIN,
        title=printable(picture.title, one_line=True),
        description=printable(f"{picture.title}. {counted}.", one_line=True),
        note=picture.note,
        entries=entries,
    )


def _on_canvas(groups: list[PointGroup]) -> list[np.ndarray]:
    """Return the points of each group in pixels, with equal scales on both axes."""
    points = np.concatenate(each(groups, "points"))
    low = points.min(axis=0)
    extent = points.max(axis=0) - low
    spread = max(float(extent.max()), 1e-12)  # all points may be the same
    room = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
    scale = float((room / np.maximum(extent, spread * 1e-3)).min())
    offset = _MARGIN + (room - extent * scale) / 2
    on_canvas = []
    for group in groups:
        pixels = (group.points - low) * scale + offset
        # The y axis of an image points down, that of a plot up.
        pixels[:, 1] = _HEIGHT - pixels[:, 1]
        on_canvas.append(pixels)
    return on_canvas


def _outline(shape: str, pixels: np.ndarray) -> str:
    """Return the marks of points as the commands of one path."""
    outline = _OUTLINES[shape]
    commands = []
    for x, y in pixels.tolist():
        commands.append(f"M{x:.1f} {y:.1f}{outline}")
    return "".join(commands)


def embedding_section(name: str, embeddings: Embeddings, by: str, method: str) -> EmbeddingSection:
    """Return the section of the page on a file of embeddings. Raises as `embedding_picture`."""
    picture = embedding_picture(embeddings, by, method)
    columns: Columns = [
        texts("shape", each(picture.groups, "shape")),
        counts("recordings", each(picture.groups, "count")),
    ]
    names = each(picture.groups, "name")
    table = as_page(Table(names, columns, by), f"{picture.title}: recordings")
    return EmbeddingSection(name, points_svg(picture), table)

"""A picture of embeddings as SVG: points that differ by shape as well as by colour.

Invariant: the same file of embeddings gives the same picture, which needs no script and no colours
to be read, and a table says how many points each kind has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from asdf.tables.page_cells import PageTable, as_page
from asdf.tables.table import Columns, Table, counts, texts
from asdf.tasks.embeddings.embedding_files import Embeddings
from asdf.tasks.embeddings.projection import (
    MAX_POINTS,
    choose_points,
    principal_components,
    project,
)
from asdf.text import printable, shorten

# Colours that people with any colour vision tell apart (Okabe and Ito, 2008), on light and dark.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b0a000")
SHAPES = ("circle", "square", "triangle", "diamond", "plus", "cross", "bar", "hollow circle")
_OTHER = "other"
_UNKNOWN = "not known"
_WIDTH = 640
_HEIGHT = 440
_MARGIN = 16
_RADIUS = 3.0
_NAME = 40
_METHODS = {"pca": "principal components", "tsne": "t-SNE", "umap": "UMAP"}


@dataclass(frozen=True)
class PointGroup:
    """The points of one value of a column.

    Attributes:
        count: Count of all recordings of it.
        points: (M, 2), of those that are drawn.
    """

    name: str
    count: int
    colour: str
    shape: str
    points: np.ndarray


@dataclass(frozen=True)
class Picture:
    """Embeddings as points in groups, the largest first.

    Attributes:
        title: Title of the picture.
        note: Sentence that a reader must know.
    """

    title: str
    note: str
    groups: list[PointGroup]

    def svg(self) -> str:
        """Return the picture with its legend, as an SVG document."""
        height = _HEIGHT + 22 * len(self.groups) + 44
        counts = "; ".join(f"{group.name}: {group.count}" for group in self.groups)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            f'width="{_WIDTH}" role="img" font-family="sans-serif" font-size="13">',
            f"<title>{_text(self.title)}</title>",
            f"<desc>{_text(f'{self.title}. {counts}.')}</desc>",
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{_HEIGHT}" fill="none" '
            'stroke="#999999"/>',
        ]
        placed = self._on_canvas()
        for group, points in zip(self.groups, placed, strict=True):
            parts.append(_marks(group, points))
        for index, group in enumerate(self.groups):
            y = _HEIGHT + 26 + 22 * index
            parts.append(_marks(group, np.array([[_MARGIN + 6.0, y - 4.0]])))
            words = f"{_text(group.name)}: {group.count:,}"
            parts.append(f'<text x="{_MARGIN + 22}" y="{y}" fill="#111111">{words}</text>')
        parts.append(
            f'<text x="{_MARGIN}" y="{height - 14}" fill="#333333">{_text(self.note)}</text>'
        )
        return "\n".join([*parts, "</svg>"]) + "\n"

    def _on_canvas(self) -> list[np.ndarray]:
        """Return the points of each group in pixels, both axes to one scale."""
        points = np.concatenate([group.points for group in self.groups])
        low = points.min(axis=0)
        spread = max(float((points.max(axis=0) - low).max()), 1e-12)
        room = np.array([_WIDTH, _HEIGHT]) - 2 * _MARGIN
        scale = float((room / np.maximum(points.max(axis=0) - low, spread * 1e-3)).min())
        used = (points.max(axis=0) - low) * scale
        offset = _MARGIN + (room - used) / 2
        placed = []
        for group in self.groups:
            pixels = (group.points - low) * scale + offset
            # Downwards in a picture, upwards in a plot.
            pixels[:, 1] = _HEIGHT - pixels[:, 1]
            placed.append(pixels)
        return placed


def embedding_picture(embeddings: Embeddings, by: str = "label", method: str = "pca") -> Picture:
    """Return the picture of a file of embeddings.

    Args:
        by: a column of the list, or 'label'.
        method: Method of `asdf.tasks.embeddings.projection`.

    Raises:
        AsdfError: there is no such column, or there are too few embeddings.
        UsageError: a package is missing.
    """
    values = [value or _UNKNOWN for value in embeddings.values_of(by)]
    chosen = choose_points(embeddings.trials.ids)
    drawn_NE = embeddings.embeddings_NE[chosen]
    points = project(drawn_NE, method)
    names = _group_names(values)
    drawn = np.array([names.get(values[index], _OTHER) for index in chosen.tolist()])
    counts = Counter(names.get(value, _OTHER) for value in values)
    groups = []
    for index, (name, count) in enumerate(_largest_first(counts)):
        groups.append(PointGroup(name, count, COLOURS[index], SHAPES[index], points[drawn == name]))
    title = f"{len(values):,} embeddings by {by}, {_METHODS[method]}"
    return Picture(title, _note(drawn_NE, len(values), method), groups)


@dataclass(frozen=True)
class EmbeddingSection:
    """A picture with the numbers of its points, as the page shows it."""

    name: str
    svg: str
    table: PageTable


def embedding_section(name: str, embeddings: Embeddings, by: str, method: str) -> EmbeddingSection:
    """Return what the page shows of a file of embeddings. Raises as `embedding_picture`."""
    picture = embedding_picture(embeddings, by, method)
    names = [group.name for group in picture.groups]
    columns: Columns = [
        texts("shape", [group.shape for group in picture.groups]),
        counts("recordings", [group.count for group in picture.groups]),
    ]
    table = as_page(Table(names, columns, by), f"{picture.title}: recordings")
    return EmbeddingSection(name, picture.svg(), table)


def _group_names(values: Sequence[str]) -> dict[str, str]:
    """Return the name of the group of each value that has one of its own."""
    counts = Counter(values)
    most = len(COLOURS)
    if len(counts) > most:
        most -= 1
    names = {}
    for value, _ in _largest_first(counts)[:most]:
        names[value] = shorten(printable(value, one_line=True), _NAME)
    return names


def _largest_first(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _note(drawn_NE: np.ndarray, count: int, method: str) -> str:
    if method == "pca":
        _, proportions = principal_components(np.asarray(drawn_NE, np.float64))
        note = f"Two axes with {100 * proportions.sum():.0f} % of the variance."
    else:
        note = "Neighbours are near; distances between clusters and their sizes mean nothing."
    if count > MAX_POINTS:
        note += f" {MAX_POINTS:,} of them are drawn."
    return note


def _marks(group: PointGroup, pixels: np.ndarray) -> str:
    """Return the marks of a group as one path."""
    outline = _OUTLINES[group.shape]
    data = []
    for x, y in pixels.tolist():
        data.append(f"M{x:.1f} {y:.1f}{outline}")
    is_line = group.shape in _LINES
    fill = "none" if is_line else group.colour
    stroke = group.colour if is_line else "none"
    return (
        f'<path d="{"".join(data)}" fill="{fill}" stroke="{stroke}" stroke-width="1.5" '
        'opacity="0.75"/>'
    )


def _text(text: str) -> str:
    return escape(printable(text, one_line=True))


_R = _RADIUS
# From the centre of a mark, which is moved to before.
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

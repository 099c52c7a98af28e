"""A plot of embeddings: points that differ in shape as well as in colour.

Invariant: the same file of embeddings gives the same plot, which is readable without colours. This
module does not draw: asdf.report writes the plot as SVG and with matplotlib.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.tasks.embeddings.embedding_files import Embeddings
from asdf.tasks.embeddings.projection import (
    MAX_POINTS,
    choose_points,
    principal_components,
    project,
)
from asdf.text import printable, shorten

# Colours that people with any colour vision can distinguish (Okabe and Ito, 2008), on light and
# dark.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#b0a000")
SHAPES = ("circle", "square", "triangle", "diamond", "plus", "cross", "bar", "hollow circle")
_OTHER = "other"
_UNKNOWN = "not known"
_NAME = 40
_METHODS = {"pca": "principal components", "tsne": "t-SNE", "umap": "UMAP"}


@dataclass(frozen=True)
class PointGroup:
    """The points of one value of a column.

    Attributes:
        count: Number of all recordings with this value.
        points: Coordinates of the points that are drawn, (M, 2).
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
        note: Sentence that readers of the plot need.
    """

    title: str
    note: str
    groups: list[PointGroup]


def embedding_picture(embeddings: Embeddings, by: str = "label", method: str = "pca") -> Picture:
    """Return the plot of a file of embeddings.

    Args:
        by: Column of the list, or 'label'.
        method: Projection method, see `asdf.tasks.embeddings.projection`.

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


def _group_names(values: Sequence[str]) -> dict[str, str]:
    """Return the group name of each value that forms its own group."""
    counts = Counter(values)
    most = len(COLOURS)
    if len(counts) > most:
        # One colour and shape is kept for the group of all other values.
        most -= 1
    names = {}
    for value, _ in _largest_first(counts)[:most]:
        # Values are from files, and may be long or hold control characters.
        names[value] = shorten(printable(value, one_line=True), _NAME)
    return names


def _largest_first(counts: Counter[str]) -> list[tuple[str, int]]:
    # Equal counts by name, so that the plot does not depend on the order of the list.
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

"""A heat map: numbers in cells, darker for higher values, as SVG or for papers.

Invariant: each cell also states its number as text, and the description lists all numbers, so that
colour is never the only information.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

import numpy as np

from asdf.arrays import Floats
from asdf.text import shorten

_LABEL = 16
_CELL = 34
_MARGIN = 130
# Above this share of the darkest colour, numbers are white.
_DARK = 0.6


@dataclass(frozen=True)
class Matrix:
    """A matrix of numbers with the text of each cell.

    Attributes:
        values: Values that the colours show, (rows, columns); NaN for an empty cell.
        texts: Text of each cell, row by row; '' for an empty cell.
        highest: Value of the darkest colour; the palest colour stands for 0.
        scale: Label of the colour scale.
    """

    rows: Sequence[str]
    columns: Sequence[str]
    values: Floats
    texts: Sequence[Sequence[str]]
    title: str = ""
    highest: float = 1.0
    scale: str = "EER (%)"
    row_heading: str = ""
    column_heading: str = ""

    def is_dark(self, row: int, column: int) -> bool:
        """Whether a cell is so dark that its number must be white."""
        return bool(self.values[row, column] > _DARK * self.highest)

    def svg(self, description: str, prefix: str = "") -> str:
        """Return the matrix as the content of an SVG file.

        Args:
            description: Description of the matrix in words, for readers who do not see it.
            prefix: Prefix of the element ids, which keeps them unique on a page.
        """
        width = _MARGIN + _CELL * len(self.columns) + 10
        height = _MARGIN + _CELL * len(self.rows) + 10
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img" '
            f'aria-labelledby="{prefix}title {prefix}text" '
            'font-family="sans-serif" font-size="10">',
            f'<title id="{prefix}title">{escape(self.title)}</title>',
            f'<desc id="{prefix}text">{escape(description)}</desc>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]
        for row, name in enumerate(self.rows):
            label = escape(shorten(name, _LABEL))
            middle = _MARGIN + row * _CELL + _CELL / 2
            end = f'x="{_MARGIN - 6}" y="{middle + 3:g}" text-anchor="end"'
            turned = f'transform="translate({middle:g} {_MARGIN - 6}) rotate(-60)"'
            parts += [f"<text {end}>{label}</text>", f"<text {turned}>{label}</text>"]
            parts += [self._cell(row, column) for column in range(len(self.columns))]
        return "\n".join([*parts, "</svg>\n"])

    def _cell(self, row: int, column: int) -> str:
        left = _MARGIN + column * _CELL
        top = _MARGIN + row * _CELL
        share = float(np.nan_to_num(self.values[row, column])) / self.highest
        # Colours run from white, which also marks empty cells, to dark blue.
        colour = "#" + "".join(f"{round(255 - share * (255 - end)):02x}" for end in (8, 48, 107))
        cell = (
            f'<rect x="{left}" y="{top}" width="{_CELL}" height="{_CELL}" fill="{colour}" '
            'stroke="#cccccc"/>'
        )
        if not self.texts[row][column]:
            return cell
        text_colour = "#ffffff" if self.is_dark(row, column) else "#000000"
        return cell + (
            f'<text x="{left + _CELL / 2:g}" y="{top + _CELL / 2 + 3:g}" text-anchor="middle" '
            f'fill="{text_colour}">{escape(self.texts[row][column])}</text>'
        )

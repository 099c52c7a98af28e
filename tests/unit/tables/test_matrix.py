"""A matrix as SVG and in papers: the same numbers in the same cells."""

import re

import numpy as np

from asdf.tables.panels import Matrix
from tests.unit.report.tasks import OPEN, traced

MATRIX = Matrix(
    ["a", "b<"], ["a", "b<"], np.array([[1.0, 0.0], [0.5, np.nan]]), [["9", ""], ["5", ""]]
)


def test_the_svg_has_each_number_on_its_colour():
    svg = MATRIX.svg("all & words", "m-").replace("\n", "")
    assert '<desc id="m-text">all &amp; words</desc>' in svg
    cells = re.findall(r'fill="(#\w+)" stroke="#cccccc"/>(?:<text [^>]*fill="(#\w+)">(\d)<)?', svg)
    assert cells[0] == ("#08306b", "#ffffff", "9")
    assert cells[1][0] == "#ffffff" and cells[2] == ("#8498b5", "#000000", "5")
    assert svg.count(">b&lt;<") == 2


def test_papers_show_the_confusion_matrix_of_the_page():
    from asdf.report import plots
    from asdf.tasks.tracing.source_measures import confusion_matrix, evaluate_sources

    result = evaluate_sources(traced(OPEN))
    axes, bar = plots.confusion_plot(result, "net").axes
    matrix = confusion_matrix(result)
    drawn = {tuple(map(int, text.get_position())): text.get_text() for text in axes.texts}
    for row, texts in enumerate(matrix.texts):
        for column, text in enumerate(texts):
            assert drawn.get((column, row), "") == text
    assert axes.images[0].get_array().tolist() == matrix.values.tolist()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("called", result.column)
    assert bar.get_ylabel() == "proportion of the row"

"""Score histograms: shares of each attack."""

import numpy as np
import pytest

from asdf.report.curves import histogram
from asdf.report.plots import score_histograms
from tests.unit.report.plots.conftest import BONA_FIDE, SPOOF


def test_histograms_are_shares_of_each_attack():
    attacks = {"A01": SPOOF[:500], "A02": SPOOF[500:]}
    counts = histogram(BONA_FIDE, SPOOF, attacks, within=0.25)
    figure = score_histograms(counts, threshold=0.25)
    assert [axes.get_ylabel() for axes in figure.axes] == ["A01\n500", "A02\n400"]
    for axes in figure.axes:
        assert len(axes.patches) == 2
        for patch in axes.patches:
            corners = patch.get_xy()
            # Each bar has two upper corners; the outline begins and ends on the axis.
            assert len(corners) == 2 * len(counts.bona_fide) + 3
            assert (corners[0, 0], corners[-2, 0]) == (counts.low, counts.high)
            assert corners[1:-2:2, 1].sum() == pytest.approx(100)
        assert axes.lines[-1].get_xdata()[0] == 0.25


def test_without_attacks_a_histogram_has_one_row():
    figure = score_histograms(histogram(np.zeros(3), np.zeros(2), {}, 0.0, bins=2))
    (axes,) = figure.axes
    assert axes.get_ylabel() == "spoof\n2"
    heights = [patch.get_xy()[1:-2:2, 1].tolist() for patch in axes.patches]
    assert heights == [[0, 100.0], [0, 100.0]]

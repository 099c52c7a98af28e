"""Score histograms: densities of each attack."""

import numpy as np
import pytest

from asdf.report.curves import histogram
from asdf.report.plots import score_histograms
from tests.unit.report.plots.conftest import BONA_FIDE, SPOOF

pytest.importorskip("matplotlib", reason="needs the extra `report`")


def test_histograms_are_densities_of_each_attack():
    attacks = {"A01": SPOOF[:500], "A02": SPOOF[500:]}
    counts = histogram(BONA_FIDE, SPOOF, attacks, within=0.25)
    figure = score_histograms(counts, threshold=0.25)
    assert [axes.get_ylabel() for axes in figure.axes] == ["A01\n500", "A02\n400"]
    for axes in figure.axes:
        for patch in axes.patches:
            values, edges, _ = patch.get_data()
            assert len(values) == len(counts.bona_fide)
            assert (edges[0], edges[-1]) == (counts.low, counts.high)
            assert (values * np.diff(edges)).sum() == pytest.approx(1)
        assert axes.lines[0].get_xdata()[0] == 0.25


def test_without_attacks_a_histogram_has_one_row():
    figure = score_histograms(histogram(np.zeros(3), np.zeros(2), {}, 0.0, bins=2))
    (axes,) = figure.axes
    assert axes.get_ylabel() == "spoof\n2"
    assert [patch.get_data()[0].tolist() for patch in axes.patches[::2]] == [[0, 2.0], [0, 2.0]]

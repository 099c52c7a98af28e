"""Pictures of likelihood ratios: the curves are of all trials, and say what they show."""

import math
import re

import numpy as np
import pytest

from asdf.metrics.detection import DetCurve, cllr, min_cllr
from asdf.report.llr_pictures import ece_panel, reliability_panel, tippett_panel

RNG = np.random.default_rng(3)
BONA_FIDE, SPOOF = RNG.normal(2, 2, 50), RNG.normal(-2, 2, 70)
ONE = {"one": DetCurve.of(BONA_FIDE, SPOOF)}


def height_at(points: list[float], x: float) -> float:
    """Return the height of falling stairs at x."""
    corners = np.array(points).reshape(-1, 2)
    return float(corners[corners[:, 0] >= x][0, 1])


def test_tippett_curves_are_shares_of_both_classes():
    panel, legend = tippett_panel(ONE)
    assert list(legend) == ["bona fide", "spoof"]
    for line, llrs in zip(panel.lines, (BONA_FIDE, SPOOF), strict=True):
        for x in (-2.0, -0.31, 0.0, 0.5, 1.7):
            expected = 100 * float(np.mean(llrs / math.log(10) >= x))
            assert height_at(list(line.points), x) == pytest.approx(expected, abs=0.01)
        assert line.points[1] == 100 and line.points[-1] == 0
    wrong = 100 * float(np.mean(BONA_FIDE < 0))
    assert f"{wrong:.1f} % of bona fide recordings below" in panel.description


def test_large_sets_are_thinned_within_a_pixel():
    bona_fide = np.random.default_rng(1).normal(2, 2, 20_000)
    panel, _ = tippett_panel({"one": DetCurve.of(bona_fide, SPOOF)})
    line, _ = panel.lines
    assert len(line.points) < 3000
    for x in (-1.0, 0.0, 1.0, 2.0):
        expected = 100 * float(np.mean(bona_fide / math.log(10) >= x))
        assert height_at(list(line.points), x) == pytest.approx(expected, abs=0.3)


def test_cross_entropies_are_named_by_system():
    panel, legend = ece_panel({**ONE, "two": DetCurve.of(BONA_FIDE + 1, SPOOF)})
    assert list(legend) == [
        "one: as they are",
        "one: after PAV",
        "two: as they are",
        "two: after PAV",
        "ratios of 1 (no information)",
    ]
    looks = [line.index for line in panel.lines]
    assert looks == sorted(set(looks))
    values = (
        f"{cllr(BONA_FIDE, SPOOF):.3f} bits at prior odds of 1, {min_cllr(BONA_FIDE, SPOOF):.3f}"
    )
    assert values in panel.description


def test_marks_of_reliability_say_how_many_recordings_they_are_of():
    _, legend = reliability_panel(ONE)
    (label, line), *_ = legend.items()
    counts = label.partition("(")[2].rstrip(")").split(", ")
    assert sum(map(int, counts)) == 120
    assert len(line.mark_words) == len(counts)
    assert f" of {counts[0]} (" in line.mark_words[0]
    for words in line.mark_words:
        _, rate, low, high = map(float, re.findall(r"(\d+\.\d)(?= %|–)", words))
        assert low <= rate <= high and low < high

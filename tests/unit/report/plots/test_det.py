"""DET plots: the curves of the page, each with its EER, in the page's range."""

from statistics import NormalDist

import numpy as np
import pytest

from asdf.evaluation import det_curve, eer
from asdf.report.plots import det_plot
from tests.unit.report.plots.conftest import BONA_FIDE, ONE, SPOOF, curve_of


def deviate(rate: float) -> float:
    return NormalDist().inv_cdf(rate)


def distance_to(corners: np.ndarray, point: np.ndarray) -> float:
    """Return how far a point lies from the lines between corners, (corners, 2)."""
    starts, ends = corners[:-1], corners[1:]
    along = ends - starts
    lengths = np.maximum((along**2).sum(axis=1), 1e-30)
    shares = np.clip(((point - starts) * along).sum(axis=1) / lengths, 0, 1)
    return float(np.linalg.norm(starts + shares[:, None] * along - point, axis=1).min())


def test_a_det_plot_marks_the_eer_of_each_system():
    figure = det_plot({**ONE, "two": curve_of(BONA_FIDE + 1, SPOOF)}, "a set")
    (axes,) = figure.axes
    rates = [eer(BONA_FIDE, SPOOF)[0], eer(BONA_FIDE + 1, SPOOF)[0]]
    marks = [line for line in axes.lines if line.get_marker() != "None" and len(line.get_xdata())]
    assert [mark.get_marker() for mark in marks] == ["o", "s"]
    curves = [line for line in axes.lines if len(line.get_xdata()) > 2]
    for mark, curve, rate in zip(marks, curves, rates, strict=True):
        position = mark.get_xydata()[0]
        # On the curve, within half a pixel of 700 for 3.2 deviates.
        assert distance_to(curve.get_xydata(), position) < 0.5 / 700 * 4
        # The mean of both rates there is the EER.
        middle = np.mean([NormalDist().cdf(value) for value in position])
        assert middle == pytest.approx(rate, abs=1e-5)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        f"{n}: EER {100 * r:.2f} %" for n, r in zip(("one", "two"), rates, strict=True)
    ]
    assert "spoof accepted" in axes.get_xlabel() and "bona fide rejected" in axes.get_ylabel()


def test_a_det_plot_draws_the_curve_of_the_page_from_end_to_end():
    (axes,) = det_plot(ONE).axes
    # After the diagonal.
    drawn = axes.lines[1].get_xydata()
    rates = np.array(ONE["one"].rates).reshape(-1, 2) / 100
    assert len(drawn) == len(rates)
    # Rates of 0 and 1 have no deviate: they lie beyond the axes.
    assert drawn[0].tolist() == [4, -4] and drawn[-1].tolist() == [-4, 4]
    inner = (rates > 0.0001).all(axis=1) & (rates < 0.9999).all(axis=1)
    assert inner.sum() > 50
    expected = [[deviate(far), deviate(frr)] for far, frr in rates[inner].tolist()]
    assert drawn[inner] == pytest.approx(np.array(expected), abs=2e-5)
    # Every corner of the whole curve within the axes lies on a line that is drawn, within a pixel.
    miss, false_alarm, _ = det_curve(BONA_FIDE, SPOOF)
    low, high = axes.get_xlim()
    shown = []
    for far, frr in zip(false_alarm.tolist(), miss.tolist(), strict=True):
        if 0 < far < 1 and 0 < frr < 1:
            point = [deviate(far), deviate(frr)]
            if low < min(point) and max(point) < high:
                shown.append(point)
    assert len(shown) > 500
    for point in shown:
        assert distance_to(drawn, np.array(point)) < (high - low) / 700


@pytest.mark.parametrize(
    ("shift", "low", "high", "last"),
    [(0.0, 0.1, 95, "95"), (1.0, 0.1, 40, "40"), (5.0, 0.01, 40, "40")],
)
def test_a_det_plot_has_the_range_of_the_page(shift, low, high, last):
    rng = np.random.default_rng(1)
    bona_fide, spoof = rng.normal(shift, 1, 9000), rng.normal(-shift if shift < 2 else 0, 1, 9000)
    if shift == 5.0:
        assert 0 < eer(bona_fide, spoof)[0] < 0.01
        bona_fide = bona_fide + 0.9
        assert 0 < eer(bona_fide, spoof)[0] < 0.002
    (axes,) = det_plot({"one": curve_of(bona_fide, spoof)}).axes
    ends = {40: 0.47, 95: 0.97}
    expected = [NormalDist().inv_cdf(0.8 * low / 100), NormalDist().inv_cdf(ends[high])]
    assert list(axes.get_xlim()) == list(axes.get_ylim()) == pytest.approx(expected)
    assert axes.get_xticklabels()[-1].get_text() == last


def test_names_in_legends_are_short():
    systems = {f"output/xlsr300m-{'x' * 30}-seed{i}-{'y' * 30}": ONE["one"] for i in (1, 2)}
    texts = [text.get_text() for text in det_plot(systems).legends[0].get_texts()]
    assert [text.split(":")[0] for text in texts] == ["seed1", "seed2"]

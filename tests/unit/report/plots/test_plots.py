"""Plots: the numbers that are drawn, and files that are the same for the same numbers."""

import sys
from statistics import NormalDist

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs the extra `report`")

from asdf.__main__ import main
from asdf.errors import UsageError
from asdf.evaluation import det_curve, eer
from asdf.metrics.conditions import Condition
from asdf.metrics.detection import DetCurve
from asdf.metrics.results import Result
from asdf.report.by_condition import ConditionTable
from asdf.report.courses import training_course
from asdf.report.curves import ThinnedCurve, histogram, thinned_det
from asdf.report.plots import det_plot, heat_map, save_figure, score_histograms, training_curves
from tests.unit.report.folders import make_run

RNG = np.random.default_rng(3)
BONA_FIDE, SPOOF = RNG.normal(1, 1, 400), RNG.normal(-1, 1, 900)


EVALUATION = {"kind": "evaluation", "step": 9, "epoch": 1.0, "network": "epoch.1.pt"}


def deviate(rate: float) -> float:
    return NormalDist().inv_cdf(rate)


def curve_of(bona_fide: np.ndarray, spoof: np.ndarray) -> ThinnedCurve:
    return thinned_det(DetCurve.of(bona_fide, spoof))


ONE = {"one": curve_of(BONA_FIDE, SPOOF)}


def test_a_det_plot_marks_the_eer_of_each_system():
    figure = det_plot({**ONE, "two": curve_of(BONA_FIDE + 1, SPOOF)}, "a set")
    (axes,) = figure.axes
    rates = [eer(BONA_FIDE, SPOOF)[0], eer(BONA_FIDE + 1, SPOOF)[0]]
    marks = [line for line in axes.lines if line.get_marker() != "None" and len(line.get_xdata())]
    assert [mark.get_marker() for mark in marks] == ["o", "s"]
    positions = [mark.get_xydata()[0].tolist() for mark in marks]
    assert positions == [pytest.approx([deviate(rate)] * 2, abs=1e-5) for rate in rates]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        f"{name}: EER {100 * rate:.2f} %" for name, rate in zip(("one", "two"), rates, strict=True)
    ]
    assert "spoof accepted" in axes.get_xlabel() and "bona fide rejected" in axes.get_ylabel()


def test_a_det_plot_draws_the_curve_of_the_page_from_end_to_end():
    (axes,) = det_plot(ONE).axes
    drawn = axes.lines[0].get_xydata()
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
        assert distance_to_lines(np.array(point), drawn) < (high - low) / 700


def distance_to_lines(point: np.ndarray, corners: np.ndarray) -> float:
    starts, ways = corners[:-1], np.diff(corners, axis=0)
    lengths = (ways**2).sum(axis=1)
    shares = np.clip(((point - starts) * ways).sum(axis=1) / np.maximum(lengths, 1e-30), 0, 1)
    return float(np.hypot(*(starts + shares[:, None] * ways - point).T).min())


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


def test_the_legend_of_training_lies_outside_of_its_axes():
    records = [
        {"kind": "step", "epoch": 0.5, "loss": 0.7, "learning_rate": 0.1},
        {**EVALUATION, "eer": {"dev": 0.25}},
    ]
    figure = training_curves([training_course(name, records) for name in ("one", "two")])
    assert [axes.get_legend() for axes in figure.axes] == [None] * 3
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["one", "two", "one, dev", "two, dev"]
    figure.draw_without_rendering()
    lowest = min(axes.get_window_extent().y0 for axes in figure.axes)
    assert figure.legends[0].get_window_extent().y1 < lowest


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


def condition(value: str, eer: float) -> Condition:
    return Condition("attack", value, Result(eer, 0.0, 0.0, 0.0, 0.0, 30, 30))


def test_a_heat_map_shows_its_numbers():
    one = {"A01": condition("A01", 0.01), "A02": condition("A02", 0.5)}
    two = {"A01": condition("A01", 0.2)}
    figure = heat_map(ConditionTable("attack", ["A01", "A02"], [one, two]), ["one", "two"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.00", "20.00", "50.00"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["A01", "A02"]


def test_training_curves_show_every_record():
    records = [
        {"kind": "step", "epoch": 0.5, "loss": 0.7, "learning_rate": 0.1},
        {"kind": "step", "epoch": 1.0, "loss": 0.5, "learning_rate": 0.05},
        {**EVALUATION, "eer": {"dev": 0.25, "eval": 0.5}},
        {"kind": "end", "epoch": 1.0},
    ]
    losses, rates, eers = training_curves([training_course("one", records)]).axes
    assert losses.lines[0].get_xydata().tolist() == [[0.5, 0.7], [1.0, 0.5]]
    assert rates.lines[0].get_ydata().tolist() == [0.1, 0.05]
    assert [line.get_xydata().tolist() for line in eers.lines] == [[[1.0, 25.0]], [[1.0, 50.0]]]


@pytest.mark.parametrize(
    ("suffix", "magic"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")]
)
def test_the_same_numbers_give_the_same_file(tmp_path, suffix, magic):
    for name in ("a", "b"):
        save_figure(det_plot(ONE), tmp_path / f"{name}.{suffix}")
    first, second = (tmp_path / f"a.{suffix}").read_bytes(), (tmp_path / f"b.{suffix}").read_bytes()
    assert first.startswith(magic) and first == second


def test_another_suffix_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(UsageError, match=r"plots are written as pdf, png, svg"):
        save_figure(det_plot(ONE), tmp_path / "det.doc")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'asdf-antispoofing\[report\]'"):
        det_plot(ONE)


def test_every_plot_of_two_runs(tmp_path, capsys):
    make_run(tmp_path / "net"), make_run(tmp_path / "other", shift=1.0)
    words = ["report", str(tmp_path), "--output", str(tmp_path / "both.html"), "--replicates", "0"]
    assert main([*words, "--plots", str(tmp_path / "figures")]) == 0
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    of_sets = ("det_{}", "eer_by_attack_{}", "eer_by_codec_{}", "scores_net_{}", "scores_other_{}")
    by_attack = ("det_by_attack_net_{}", "det_by_attack_other_{}")
    expected = {
        form.format(name) for form in (*of_sets, *by_attack) for name in ("dev", "eval")
    } | {"training"}
    assert names == {f"{name}.{kind}" for name in expected for kind in ("pdf", "png")}
    assert "15 plots, each as pdf and png" in capsys.readouterr().out

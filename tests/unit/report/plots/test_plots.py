"""Plots: the numbers that are drawn, and files that are the same for the same numbers."""

import sys
from statistics import NormalDist

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs the extra `report`")

from asdf.__main__ import main
from asdf.errors import AsdfError, UsageError
from asdf.evaluation import det_curve, eer
from asdf.metrics.detection import DetCurve
from asdf.report.plots import det_plot, heat_map, save_figure, score_histograms, training_curves
from asdf.report.plots.det import probit, thinned_curve
from tests.unit.report.folders import make_run

RNG = np.random.default_rng(3)
BONA_FIDE, SPOOF = RNG.normal(1, 1, 400), RNG.normal(-1, 1, 900)


def test_probit_is_the_inverse_of_the_normal_distribution():
    rates = np.array([0.0, 0.01, 0.5, 0.975, 1.0])
    expected = [-np.inf, NormalDist().inv_cdf(0.01), 0.0, NormalDist().inv_cdf(0.975), np.inf]
    assert probit(rates).tolist() == expected


def test_a_thinned_curve_keeps_its_ends_and_stays_within_a_pixel():
    bona_fide, spoof = RNG.normal(1.5, 1, 20_000), RNG.normal(-1.5, 1, 60_000)
    miss, false_alarm, _ = det_curve(bona_fide, spoof)
    few_miss, few_false_alarm = thinned_curve(DetCurve.of(bona_fide, spoof), points=500)
    assert len(few_miss) < len(miss) / 20
    assert (few_miss[0], few_miss[-1], few_false_alarm[0], few_false_alarm[-1]) == (0, 1, 1, 0)
    # Every corner of the whole curve lies within a pixel, a 50th of a deviate, of one that was kept.
    whole = np.stack([probit(np.clip(rates, 1e-6, 1 - 1e-6)) for rates in (miss, false_alarm)])[
        :, ::40
    ]
    kept = np.stack(
        [probit(np.clip(rates, 1e-6, 1 - 1e-6)) for rates in (few_miss, few_false_alarm)]
    )
    distances = np.abs(whole[:, :, None] - kept[:, None]).max(axis=0).min(axis=1)
    assert distances.max() <= 10 / 500


def test_a_short_curve_is_drawn_whole():
    assert len(thinned_curve(DetCurve.of(BONA_FIDE, SPOOF))[0]) == len(BONA_FIDE) + len(SPOOF) + 1


def test_a_det_plot_marks_the_eer_of_each_system():
    figure = det_plot({"one": (BONA_FIDE, SPOOF), "two": (BONA_FIDE + 1, SPOOF)}, "a set")
    (axes,) = figure.axes
    rates = [eer(BONA_FIDE, SPOOF)[0], eer(BONA_FIDE + 1, SPOOF)[0]]
    marks = [line for line in axes.lines if line.get_marker() != "None" and len(line.get_xdata())]
    assert [mark.get_marker() for mark in marks] == ["o", "s"]
    places = [mark.get_xydata()[0].tolist() for mark in marks]
    assert places == [pytest.approx([float(probit(np.array([rate]))[0])] * 2) for rate in rates]
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == [
        f"{name}: EER {100 * rate:.2f} %" for name, rate in zip(("one", "two"), rates, strict=True)
    ]
    curve = axes.lines[0].get_xydata()
    miss, false_alarm, _ = det_curve(BONA_FIDE, SPOOF)
    middle = len(miss) // 2
    assert curve[middle].tolist() == pytest.approx(
        [probit(false_alarm)[middle], probit(miss)[middle]]
    )
    assert "spoof accepted" in axes.get_xlabel() and "bona fide rejected" in axes.get_ylabel()


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
    (axes,) = det_plot({"one": (bona_fide, spoof)}).axes
    ends = {40: 0.47, 95: 0.97}
    expected = [NormalDist().inv_cdf(0.8 * low / 100), NormalDist().inv_cdf(ends[high])]
    assert list(axes.get_xlim()) == list(axes.get_ylim()) == pytest.approx(expected)
    assert axes.get_xticklabels()[-1].get_text() == last


def test_names_in_legends_are_short():
    systems = {f"output/xlsr300m-{'x' * 30}-seed{i}-{'y' * 30}": (BONA_FIDE, SPOOF) for i in (1, 2)}
    texts = [text.get_text() for text in det_plot(systems).legends[0].get_texts()]
    assert [text.split(":")[0] for text in texts] == ["seed1", "seed2"]


def test_the_legend_of_training_lies_outside_of_its_axes():
    records = [
        {"kind": "step", "epoch": 0.5, "loss": 0.7, "learning_rate": 0.1},
        {"kind": "evaluation", "epoch": 1.0, "eer": {"dev": 0.25}},
    ]
    figure = training_curves({"one": records, "two": records})
    assert [axes.get_legend() for axes in figure.axes] == [None] * 3
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["one", "two", "one, dev", "two, dev"]
    figure.draw_without_rendering()
    lowest = min(axes.get_window_extent().y0 for axes in figure.axes)
    assert figure.legends[0].get_window_extent().y1 < lowest


def test_histograms_are_densities_of_each_attack():
    figure = score_histograms(BONA_FIDE, {"A01": SPOOF[:500], "A02": SPOOF[500:]}, threshold=0.25)
    assert [axes.get_ylabel() for axes in figure.axes] == ["A01\n500", "A02\n400"]
    for axes in figure.axes:
        for patch in axes.patches:
            values, edges, _ = patch.get_data()
            assert (values * np.diff(edges)).sum() == pytest.approx(1)
        assert axes.lines[0].get_xdata()[0] == 0.25


def test_scores_that_are_all_equal_have_a_histogram_too():
    figure = score_histograms(np.zeros(3), {"A01": np.zeros(2)})
    assert figure.axes[0].patches[0].get_data()[0].tolist() == [1.0]


def test_a_heat_map_tells_its_numbers():
    figure = heat_map([[0.01, 0.2], [0.5, np.nan]], ["one", "two"], ["A01", "A02"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.00", "20.00", "50.00", ""]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["A01", "A02"]


def test_training_curves_show_every_record():
    records = [
        {"kind": "step", "epoch": 0.5, "loss": 0.7, "learning_rate": 0.1},
        {"kind": "step", "epoch": 1.0, "loss": 0.5, "learning_rate": 0.05},
        {"kind": "evaluation", "epoch": 1.0, "eer": {"dev": 0.25, "eval": 0.5}},
        {"kind": "end", "epoch": 1.0},
    ]
    losses, rates, eers = training_curves({"one": records}).axes
    assert losses.lines[0].get_xydata().tolist() == [[0.5, 0.7], [1.0, 0.5]]
    assert rates.lines[0].get_ydata().tolist() == [0.1, 0.05]
    assert [line.get_xydata().tolist() for line in eers.lines] == [[[1.0, 25.0]], [[1.0, 50.0]]]


@pytest.mark.parametrize(
    ("suffix", "magic"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")]
)
def test_the_same_numbers_give_the_same_file(tmp_path, suffix, magic):
    for name in ("a", "b"):
        save_figure(det_plot({"one": (BONA_FIDE, SPOOF)}), tmp_path / f"{name}.{suffix}")
    first, second = (tmp_path / f"a.{suffix}").read_bytes(), (tmp_path / f"b.{suffix}").read_bytes()
    assert first.startswith(magic) and first == second


def test_another_suffix_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(UsageError, match=r"plots are written as pdf, png, svg"):
        save_figure(det_plot({"one": (BONA_FIDE, SPOOF)}), tmp_path / "det.doc")
    assert not list(tmp_path.iterdir())


def test_a_class_without_trials_is_named():
    with pytest.raises(AsdfError, match="bona fide"):
        det_plot({"one": (np.array([]), SPOOF)})


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"pip install 'asdf-antispoofing\[report\]'"):
        det_plot({"one": (BONA_FIDE, SPOOF)})


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

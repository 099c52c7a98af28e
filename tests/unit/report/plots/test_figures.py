"""Plots for papers: the same files for the same numbers, and those of a report of two runs."""

from itertools import product

import numpy as np
import pytest

from asdf.__main__ import main
from asdf.errors import UsageError
from asdf.metrics.results import Condition, Result
from asdf.report import gather, runs_in
from asdf.report.curves import histogram
from asdf.report.drawing import page_colours, training_course
from asdf.report.plots import (
    det_plot,
    heat_map,
    line_style,
    save_figure,
    score_histograms,
    training_curves,
    write_plots,
)
from asdf.tables.panels import Line
from tests.conftest import ROOT
from tests.unit.report.folders import make_run
from tests.unit.report.plots.conftest import BONA_FIDE, ONE, SPOOF


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


def test_nine_curves_have_nine_colours_on_the_page_and_in_plots():
    # All spoofs and eight attacks are nine curves.
    lines = [Line((), index) for index in range(9)]
    plotted = [line_style(line)["color"] for line in lines]
    assert len(set(plotted)) == 9
    drawn = [line.colour for line in lines]
    assert len(set(drawn)) == 9
    looks = (ROOT / "asdf/report/page/plots.css").read_text(encoding="utf-8")
    of_page = [page_colours()[css] for css in drawn]
    assert [light for light, _ in of_page] == plotted
    assert len({dark for _, dark in of_page}) == 9
    for css in drawn:
        assert f".{css} {{ stroke: var(--{css});" in looks


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 defines it."""
    shades = []
    for colour in (one, other):
        values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        shades.append(linear @ [0.2126, 0.7152, 0.0722] + 0.05)
    return max(shades) / min(shades)


@pytest.mark.parametrize("column", [0, 1], ids=["light", "dark"])
def test_texts_and_lines_stand_out(column):
    colours = {name: pair[column] for name, pair in page_colours().items()}
    for ground in ("page", "tint"):
        for name in ("text", "soft", "link", "alarm"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    lines = [f"c{index}" for index in range(9)] + ["bona-fide", "spoof", "warning", "neutral"]
    for name in lines:
        assert contrast(colours[name], colours["page"]) >= 3, name
    # The words of a filled button.
    assert contrast(colours["page"], colours["link"]) >= 4.5


def condition(value: str, eer: float) -> Condition:
    return Condition("attack", value, Result(eer, 0.0, 0.0, 0.0, 0.0, 30, 30))


def test_a_heat_map_shows_its_numbers():
    conditions = {"A01": [condition("A01", 0.01), condition("A01", 0.2)]}
    conditions["A02"] = [condition("A02", 0.5), None]
    figure = heat_map(conditions, ["one", "two"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.00", "20.00", "50.00"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["A01", "A02"]


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


EVALUATION = {"kind": "evaluation", "step": 9, "epoch": 1.0, "network": "epoch.1.pt"}


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


def test_training_curves_show_every_record():
    records = [
        {"kind": "step", "epoch": 0.5, "loss": 0.7, "learning_rate": 0.1},
        {"kind": "step", "epoch": 1.0, "loss": 0.5, "learning_rate": 0.05},
        {**EVALUATION, "eer": {"dev": 0.25, "eval": 0.5}, "validation_loss": {"eval": 0.9}},
        {"kind": "end", "epoch": 1.0},
    ]
    losses, rates, eers = training_curves([training_course("one", records)]).axes
    assert losses.lines[0].get_xydata().tolist() == [[0.5, 0.7], [1.0, 0.5]]
    # In the look of its set.
    assert losses.lines[1].get_xydata().tolist() == [[1.0, 0.9]] and len(losses.lines) == 2
    assert losses.lines[1].get_marker() == eers.lines[1].get_marker()
    assert losses.get_ylabel() == "Loss"
    assert rates.lines[0].get_ydata().tolist() == [0.1, 0.05]
    assert [line.get_xydata().tolist() for line in eers.lines] == [[[1.0, 25.0]], [[1.0, 50.0]]]


@pytest.mark.slow
def test_every_plot_of_two_runs(tmp_path, capsys):
    make_run(tmp_path / "net"), make_run(tmp_path / "other", shift=1.0)
    words = ["report", str(tmp_path), "--output", str(tmp_path / "both.html"), "--replicates", "0"]
    assert main([*words, "--plots", str(tmp_path / "figures")]) == 0
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    of_sets = ("det_{}", "eer_by_attack_{}", "eer_by_codec_{}", "scores_net_{}", "scores_other_{}")
    by_attack = ("det_by_attack_net_{}", "det_by_attack_other_{}")
    forms = product((*of_sets, *by_attack), ("dev", "eval"))
    expected = {"training", *(form.format(name) for form, name in forms)}
    assert names == {f"{name}.{kind}" for name in expected for kind in ("pdf", "png")}
    assert "15 plots, each as pdf and png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("attacks", "expected"),
    [
        (("A01", "A02"), "det eer_by_attack eer_by_codec scores_net det_by_attack_net"),
        # What divides nothing has no plot.
        (("-",), "det eer_by_codec scores_net"),
    ],
)
def test_plots_are_named_after_what_they_show(tmp_path, attacks, expected):
    """A colon, which no file's name may have on some systems, becomes a hyphen."""
    folder = make_run(tmp_path / "net", sets=("la:dev",), attacks=attacks)
    gathered = gather(runs_in([folder]), replicates=0, for_plots=True)
    written = write_plots(tmp_path / "figures", gathered, ["svg"])
    names = [f"{name}_la-dev.svg" for name in expected.split()]
    assert [path.name for path in written] == [*names, "training.svg"]
    assert all(path.stat().st_size for path in written)

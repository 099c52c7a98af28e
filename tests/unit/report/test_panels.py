"""One description of a plot: the page and papers show the same points and courses."""

import re

import numpy as np
import pytest

from asdf.report.curves import Histogram
from asdf.report.drawing import (
    course_panel,
    histogram_panel,
    loss_lines,
    set_lines,
    training_course,
)
from asdf.tables.panels import Axis, Line, Panel, nice_ticks

ACROSS = Axis(-1, 4, [-1, 0, 4], "across", text="{:g}".format)
UP = Axis(1, 100, [1, 10, 100], "up", np.log10)
LINES = [
    Line([-1, 1, 4, 100], 1, "a&b", "0:loss:", choice="first"),
    Line([0, 10, 9, 1000], 2, "c", mark_words=["0 10", "9 1000"], chosen=[0]),
    Line([0, 1, 4, 1], 0, choice="second", is_area=True, is_hidden=True),
]
WORDS = ("<title>", "kind", "what it shows")
PANEL = Panel(ACROSS, UP, 200, 150, *WORDS, LINES, note="a note")


@pytest.fixture(scope="module")
def svg() -> str:
    template = "{% import 'plots.html' as plots %}{{ plots.plot(panel, 'first') }}"
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("asdf.report", "page")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(panel=PANEL)


@pytest.mark.parametrize(
    ("high", "tick", "right"),
    # 14 pixels are free beside the frame; five characters of 6.6 reach 16.5 to the right.
    [(2000, 2000, 186), (20000, 20000, 183), (-3e-5, -3e-5, 180), (20000, 10000, 186)],
)
def test_the_last_value_of_an_axis_is_not_cut_off(high, tick, right):
    panel = Panel(Axis(high - abs(high), high, [high - abs(high), tick], "x"), PANEL.y, 200, 150)
    assert panel.right == right
    assert panel.at_x([tick])[0] + 6.6 * len(panel.x.text(tick)) / 2 <= 200.5


def test_positions_follow_from_the_scales_of_the_axes():
    assert (PANEL.left, PANEL.right, PANEL.top, PANEL.bottom) == (52, 186, 26, 108)
    assert PANEL.at_y([1, 10, 100]).tolist() == [108, 67, 26]
    assert PANEL.path(PANEL.lines[0]) == "M52.0,108.0L186.0,26.0"
    # Marks beyond the axes stand at their ends.
    (inside, beyond) = PANEL.marks(PANEL.lines[1])
    assert (inside.x, inside.y, inside.is_chosen) == ("78.8", "67.0", True)
    assert (beyond.x, beyond.y) == ("186.0", "26.0")
    assert (beyond.words, beyond.is_chosen) == ("9 1000", False)
    assert PANEL.path(Line([0, 1, 4, 1], is_linked=False)) == PANEL.path(Line([0, 1])) == ""


def test_the_svg_has_all_choices_and_hides_what_is_not_chosen(svg):
    classes = re.findall(r'<path d="[^"]*" class="((?:line|area) [^"]*)"', svg)
    assert classes == ["line c1", "line c2", "area c0 unchosen unticked"]
    assert 'data-choice="first" data-name="a&amp;b" data-series="0:loss:"' in svg
    assert "&lt;title&gt;" in svg and "<title>9 1000</title>" in svg and "a note" in svg
    assert svg.count('class="marker c2 chosen"') == 1


def test_papers_draw_the_points_of_the_page():
    from asdf.report.plots import draw_panel, new_figure

    (axes,) = new_figure().axes
    draw_panel(axes, PANEL)
    for drawn, line in zip(axes.lines, PANEL.lines, strict=False):
        xs, ys = drawn.get_xydata().T
        assert xs.tolist() == list(line.points[::2])
        assert ys == pytest.approx(np.log10(line.points[1::2]))
    assert len(axes.patches) == 1
    assert (axes.get_xlim(), axes.get_ylim()) == ((-1, 4), (0, 2))
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "10", "100"]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("across", "up", "<title>")


def test_histograms_have_a_part_for_each_choice():
    counts = Histogram(0.0, 1.0, [1, 1], {"": [2, 0]})
    panel = histogram_panel(counts, {"": [2, 0], "A01": [0, 2]}, 0.5, "net")
    assert [line.choice for line in panel.lines[::2]] == [None, "", "A01"]
    assert panel.lines[2].points == [0, 0, 0, 100, 0.5, 100, 0.5, 0, 1, 0, 1, 0]
    assert panel.y.high == pytest.approx(106)
    assert panel.uprights[0].label == "0.5"


def test_a_long_loss_is_noise_under_its_means():
    step = {"kind": "step", "loss": 1.0, "learning_rate": 0.1}
    records = [{**step, "epoch": number / 100} for number in range(300)]
    course = training_course("net", records)
    noise, means = loss_lines([course])
    assert (noise.css, noise.series, means.css, means.series) == ("noise", "0:loss:", "", "")
    assert noise.dashes == "" and means.points == course.smooth_loss
    panel = course_panel([noise, means], "Loss", "Loss")
    assert panel is not None
    assert panel.description == "Loss by epoch. net: 1 at epoch 2.99"
    assert course_panel(set_lines([course], "dev", "eers"), "", "EER (%)") is None


def test_ticks_are_round_numbers():
    assert nice_ticks(0, 1, 4) == [0, 0.5, 1]
    assert nice_ticks(-3, 7, 5) == [-2, 0, 2, 4, 6]


NAN = float("nan")


def step(epoch, loss, rate=0.1):
    return {"kind": "step", "epoch": epoch, "loss": loss, "learning_rate": rate}


def evaluation(epoch, network, eer):
    record = {"kind": "evaluation", "step": 7, "epoch": epoch, "network": network}
    return {**record, "eer": eer}


def test_a_course_has_every_record():
    records = [
        step(0.5, 0.7),
        step(1.0, 0.5, 0.05),
        evaluation(1.0, "epoch.1.pt", {"dev": 0.25, "eval": 1 / 3})
        | {"validation_loss": {"dev": 1.5}},
        evaluation(2.0, "epoch.2.pt", {"dev": 0.125}),
        {"kind": "end", "epoch": 2.0},
    ]
    course = training_course("net", records, ["epoch.2"])
    assert course.name == "net"
    assert course.loss == [0.5, 0.7, 1.0, 0.5]
    assert course.learning_rate == [0.5, 0.1, 1.0, 0.05]
    assert course.eers == {"dev": [1.0, 25.0, 2.0, 12.5], "eval": [1.0, 33.333333]}
    # An older record has no loss.
    assert course.losses == {"dev": [1.0, 1.5]}
    assert course.chosen == [2.0]
    assert not course.is_empty


def test_what_is_no_number_is_left_out():
    records = [
        step(1, NAN),
        step(2, float("inf")),
        step(None, 1.0),
        step(3, 0.5, None),
        evaluation(1, "epoch.1.pt", {"dev": NAN, "eval": 0.5}),
        evaluation(None, "epoch.1.pt", {"dev": 0.5}),
        {**evaluation(1, "epoch.1.pt", {"eval": NAN}), "validation_loss": {"dev": NAN, "eval": 2}},
        {**evaluation(1, "epoch.1.pt", {"eval": NAN}), "validation_loss": "low"},
        evaluation(2, None, 0.5),
    ]
    course = training_course("net", records, ["epoch.1"])
    assert course.loss == [3, 0.5]
    assert course.learning_rate == [1, 0.1, 2, 0.1]
    assert course.eers == {"eval": [1, 50.0]}
    assert course.losses == {"eval": [1, 2.0]}
    assert course.chosen == [1, 1, 1]
    assert training_course("net", []).is_empty

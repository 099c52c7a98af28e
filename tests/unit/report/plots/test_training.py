"""Training curves: every record, and a legend outside of the axes."""

from asdf.report.drawing import training_course
from asdf.report.plots import training_curves

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

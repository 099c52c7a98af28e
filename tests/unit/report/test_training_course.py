"""The course of a training is that of its records, whatever some of them lack."""

from __future__ import annotations

from asdf.report.drawing import training_course

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
        {
            **evaluation(1.0, "epoch.1.pt", {"dev": 0.25, "eval": 1 / 3}),
            "validation_loss": {"dev": 1.5},
        },
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

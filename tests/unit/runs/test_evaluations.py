"""The evaluations of a run's networks as its files have them, and the best network by them."""

import json

import pytest

from asdf.errors import AsdfError
from asdf.runs.evaluations import (
    ChosenBy,
    Evaluation,
    best_first,
    evaluated_networks,
    last_improvement,
    other_metrics,
    other_precisions,
    read_evaluations,
    write_evaluations,
)
from asdf.runs.layout import Layout, NetworkName
from asdf.runs.log import LOG

RECORDS = [
    {"step": 7, "epoch": 1, "network": "epoch.1.pt", "eer": {"dev": 0.1 + 0.2}},
    {"step": 14, "epoch": 2, "network": "epoch.2.pt", "eer": {"dev": 0.25, "eval": 0}},
]
RECORDS[1]["validation_loss"] = {"dev": 0.5}
EVALUATIONS = [
    Evaluation(7, 1, NetworkName("epoch.1"), {"dev": 0.1 + 0.2}),
    Evaluation(14, 2, NetworkName("epoch.2"), {"dev": 0.25, "eval": 0}, losses={"dev": 0.5}),
]
DAMAGES = [
    b"",
    b"\xff\xfe",
    b'[{"step": 7, "epo',
    b'[{"step": 12}]',
    b'[{"step": 7, "epoch": 1, "network": "epoch.1.pt", "eer": {"dev": 0.3}}, {"step": 14}]',
    b'{"step": 7}',
    b'[{"step": 7, "network": "epoch.1.pt", "eer": {}}]',
    b'[{"step": 7, "network": "epoch.1.pt", "eer": {"dev": "low"}}]',
    b'[{"step": 7, "network": ["epoch.1.pt"], "eer": {"dev": 0.1}}]',
    b"[" * 100_000,
]


def evaluate(eers: dict[int, float]) -> list[Evaluation]:
    """Evaluations of the networks after some epochs, by their EER on the first validation set."""
    return [
        Evaluation(10 * epoch, epoch, NetworkName.after_epoch(epoch), {"dev": eer, "b": 1 - eer})
        for epoch, eer in eers.items()
    ]


@pytest.fixture
def layout(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(LOG, "propagate", True)
    lines = [{"kind": "step", "step": 7}, *({"kind": "evaluation", **record} for record in RECORDS)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    layout = Layout(tmp_path)
    layout.metrics.write_text(text)
    layout.networks.mkdir()
    return layout


def test_what_was_written_is_read(layout, caplog):
    assert read_evaluations(layout) == []
    write_evaluations(layout, EVALUATIONS)
    assert json.loads((layout.system / "networks" / "evaluations.json").read_text()) == RECORDS
    assert read_evaluations(layout) == EVALUATIONS and not caplog.messages


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_replaced_with_a_warning(layout, caplog, damage):
    layout.evaluations.write_bytes(damage)
    assert read_evaluations(layout) == EVALUATIONS
    [warning] = set(caplog.messages)
    assert warning.startswith(f"warning: {layout.evaluations} ")
    assert warning.endswith(f"; its 2 evaluations are read from {layout.metrics}")


def test_without_a_replacement_one_message_says_what_to_do(layout):
    path, metrics = layout.evaluations, layout.metrics
    path.write_text('[{"step": 12}]')
    for text in ('{"kind": "step"}\n', None):
        metrics.write_text(text) if text else metrics.unlink()
        with pytest.raises(AsdfError) as caught:
            read_evaluations(layout)
        message = (
            f"{path} is not a list of evaluations, and {metrics} has no evaluations to replace"
        )
        assert str(caught.value).startswith(f"{message} them. Restore the file from a backup, or")


def test_the_best_comes_first_and_of_equals_the_later():
    eers = {1: 0.4, 2: 0.1, 3: 0.3, 4: 0.05, 5: 0.1, 6: 0.2, 7: 0.35, 8: 0.3}
    assert epochs(best_first(evaluate(eers))) == [4, 5, 2, 6, 8, 3, 7, 1]


def test_the_best_networks_are_those_that_still_exist(layout):
    write_evaluations(layout, evaluate({1: 0.1, 2: 0.3, 3: 0.2}))
    for epoch in (2, 3):
        layout.network_file(NetworkName.after_epoch(epoch)).touch()
    assert list(map(str, evaluated_networks(layout))) == ["epoch.3", "epoch.2"]


@pytest.mark.parametrize(
    ("eers", "epoch", "since"),
    [([0.3], 1, 0), ([0.3, 0.2, 0.25], 2, 1), ([0.3, 0.2, 0.25, 0.2], 2, 2), ([0.1, 0.05], 2, 0)],
)
def test_to_reach_the_same_eer_again_is_no_improvement(eers, epoch, since):
    improvement = last_improvement(evaluate(dict(enumerate(eers, 1))))
    assert (improvement.evaluation.epoch, improvement.evaluations_since) == (epoch, since)


def judged(values: dict[int, float], lower_is_better=True) -> list[Evaluation]:
    """Evaluations of the networks after some epochs, chosen by a metric of the user's."""
    evaluations = []
    for epoch, value in values.items():
        chosen_by = ChosenBy("mine.metric", {"dev": value}, lower_is_better)
        at = (10 * epoch, epoch, NetworkName.after_epoch(epoch))
        evaluations.append(Evaluation(*at, {"dev": 0.5 - value}, chosen_by=chosen_by))
    return evaluations


def epochs(evaluations) -> list[float]:
    return [evaluation.epoch for evaluation in evaluations]


def test_networks_are_chosen_by_the_metric_and_by_its_better_side():
    values = {1: 0.3, 2: 0.1, 3: 0.2, 4: 0.3}
    assert epochs(best_first(judged(values))) == [2, 3, 4, 1]
    assert epochs(best_first(judged(values, lower_is_better=False))) == [4, 1, 3, 2]
    # Every evaluation knows its EER.
    assert epochs(best_first(judged(values), "eer")) == [4, 1, 3, 2]
    improvement = last_improvement(judged(values), "mine.metric")
    assert (improvement.evaluation.epoch, improvement.evaluations_since) == (2, 2)
    improvement = last_improvement(judged(values, lower_is_better=False))
    assert (improvement.evaluation.epoch, improvement.evaluations_since) == (1, 3)


def test_only_values_of_one_metric_are_compared():
    """A run that was started again with another metric."""
    mixed = [*evaluate({1: 0.01, 2: 0.02}), *judged({3: 0.3, 4: 0.2})]
    assert epochs(best_first(mixed)) == [4, 3]
    assert epochs(best_first(mixed, "eer")) == [1, 2, 3, 4]
    assert best_first(mixed, "another") == [] and last_improvement(mixed, "another") is None
    improvement = last_improvement(mixed, "mine.metric")
    assert (improvement.evaluation.epoch, improvement.evaluations_since) == (4, 0)
    assert other_metrics(mixed, "eer") == other_metrics([], "auc") == ""
    message = "2 of the 4 networks so far were validated by eer, without network.validation_metric"
    other = "'mine.metric': none of these can be the best by it"
    assert other_metrics(mixed, "mine.metric").startswith(f"{message} = {other}")


def test_only_values_of_one_set_are_compared():
    """A run that was started again with other validation sets, which its last evaluation has."""
    rates = ({"a": 0.1, "b": 0.4}, {"a": 0}, {"b": 0.3}, {"b": 0.35})
    found = [Evaluation(n, n, NetworkName.after_epoch(n), eers) for n, eers in enumerate(rates, 1)]
    assert epochs(best_first(found)) == [3, 4, 1]
    assert last_improvement(found).evaluation.epoch == 3


def test_a_record_has_its_entries_in_the_order_of_the_files():
    """One of another metric has its name, side and values, too."""
    record = {"step": 5, "epoch": 0.5, "network": "epoch.1.step.5.pt", "eer": {"dev": 0.1}}
    record["scoring_precision"] = "bf16"
    evaluation = Evaluation.from_record({"kind": "evaluation", **record})
    assert evaluation.eers == {"dev": 0.1}
    assert list(evaluation.record().items()) == list(record.items())
    record |= {"validation_metric": "auc", "lower_is_better": False, "auc": {"dev": 0.97}}
    evaluation = Evaluation.from_record(record)
    assert evaluation.metric == "auc" and evaluation.values("auc") == {"dev": 0.97}
    assert list(evaluation.record().items()) == list(record.items())
    for damage in ({"auc": {}}, {"auc": {"dev": "high"}}, {"validation_metric": "cllr"}):
        assert Evaluation.from_record({**record, **damage}) is None
    assert Evaluation.from_record({**record, "validation_metric": ["auc"]}) is None


def test_eers_of_other_precisions_are_remarked():
    quick = [Evaluation(21, 3, NetworkName("epoch.3"), {"dev": 0.1}, "bf16")]
    assert other_precisions([], "bf16") == other_precisions(quick, "bf16") == ""
    assert other_precisions(EVALUATIONS, "fp32") == ""  # the first versions named none
    remark = other_precisions([*EVALUATIONS, *quick], "bf16")
    setting = "computing.scoring_precision = 'fp32'"
    so_far = f"networks were validated with {setting} so far, from here on 'bf16'"
    assert remark.startswith(so_far) and remark.endswith(f"To go on as before set {setting}")

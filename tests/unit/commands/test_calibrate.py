"""`python -m asdf calibrate`: the network file afterwards, and what is said."""

import math

import numpy as np
import pytest
import torch

import asdf
from asdf.__main__ import main
from asdf.evaluation import DetectionCost, cllr, write_scores
from asdf.metrics.calibration import Calibration, calibrate
from tests.unit.conftest import write_small_network

RNG = np.random.default_rng(5)
BONA_FIDE, SPOOF = RNG.normal(1, 2, 60), RNG.normal(-4, 2, 140)


@pytest.fixture
def network(tmp_path):
    return write_small_network(tmp_path / "network.pt", progress={"epochs": 3})


@pytest.fixture
def scores(tmp_path):
    labels = np.repeat([1, 0], [60, 140])
    path = tmp_path / "scores.txt"
    write_scores(path, [f"{i}.wav" for i in range(200)], labels, np.concatenate([BONA_FIDE, SPOOF]))
    return path


def run(capsys, *words):
    status = main(["calibrate", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_threshold_is_that_of_the_eer(capsys, network, scores):
    before = torch.load(network, weights_only=True)
    status, out, _ = run(capsys, network, scores)
    assert status == 0
    calibration = asdf.Detector(network, "cpu").calibration
    assert calibration == calibrate(BONA_FIDE, SPOOF)
    assert calibration.spoof_prior is None
    after = torch.load(network, weights_only=True)
    assert after.pop("calibration") == calibration.content()
    assert after.keys() == before.keys()
    assert after["progress"] == {"epochs": 3}
    for name, tensor in before["model_state_dict"].items():
        assert torch.equal(after["model_state_dict"][name], tensor)
    raised, lowered = (
        cllr(BONA_FIDE, SPOOF),
        cllr(calibration.llr(BONA_FIDE), calibration.llr(SPOOF)),
    )
    assert f"Cllr {raised:.4f} bits before, {lowered:.4f} after" in out
    assert lowered < raised
    assert "60 bona fide, 140 spoof" in out


def test_labels_may_come_from_a_protocol(capsys, tmp_path, network, scores):
    """Scores without labels are read as `evaluate` reads them, those of other trials left out."""
    lines = [line.split() for line in scores.read_text().splitlines()]
    protocol = tmp_path / "protocol.txt"
    keys = {"1": "bonafide", "0": "spoof"}
    protocol.write_text("".join(f"{name} {keys[label]}\n" for name, label, _ in lines))
    unlabelled = tmp_path / "two_columns.txt"
    unlabelled.write_text("".join(f"{name} {score}\n" for name, _, score in lines) + "other 9\n")
    status, _, errors = run(capsys, network, unlabelled)
    assert status == 1 and "there is no label in '0.wav" in errors
    options = ("--protocol", protocol)
    status, _, errors = run(capsys, network, unlabelled, *options)
    assert status == 1 and "1 of 201 scored trials are not in the protocol: 'other'" in errors
    status, out, errors = run(capsys, network, unlabelled, *options, "--ignore-others")
    assert status == 0 and "1 scored trials are left out" in errors
    assert "60 bona fide, 140 spoof" in out
    assert asdf.Detector(network, "cpu").calibration == calibrate(BONA_FIDE, SPOOF)


def test_costs_give_their_bayes_threshold(capsys, tmp_path, network, scores):
    content = network.read_bytes()
    out = tmp_path / "more" / "calibrated.pt"
    status, _, _ = run(capsys, network, scores, "--out", out, "--prior", "0.1", "--cost-miss", "2")
    assert status == 0
    assert network.read_bytes() == content
    calibration = asdf.Detector(out, "cpu").calibration
    assert calibration == calibrate(
        BONA_FIDE, SPOOF, DetectionCost(spoof_prior=0.1, miss=2, false_alarm=10)
    )
    assert calibration.threshold == pytest.approx(math.log(0.1 * 10 / (0.9 * 2)))


def test_calibrating_again_replaces_the_first(capsys, tmp_path, scores):
    path = write_small_network(tmp_path / "c.pt", calibration=Calibration(7.0, 7.0, 7.0).content())
    run(capsys, path, scores, "--at-eer")
    assert asdf.Detector(path, "cpu").calibration == calibrate(BONA_FIDE, SPOOF)


def test_scores_without_an_error_are_reported(capsys, tmp_path, network):
    write_scores(tmp_path / "s.txt", ["a", "b", "c"], [1, 1, 0], [1.0, 2.0, -1.0])
    _, out, _ = run(capsys, network, tmp_path / "s.txt")
    assert "More trials would show more" in out


def test_scores_of_another_network_are_warned_of(capsys, tmp_path, scores):
    networks = [
        write_small_network(tmp_path / "networks" / f"epoch.{number}.pt") for number in (1, 2)
    ]
    theirs = tmp_path / "scores" / "epoch.2" / "dev.txt"
    theirs.parent.mkdir(parents=True)
    scores.rename(theirs)
    assert (
        "likely made with epoch.2.pt, and the network is epoch.1.pt"
        in run(capsys, networks[0], theirs)[2]
    )
    assert run(capsys, networks[1], theirs)[2] == ""


@pytest.mark.parametrize(
    ("options", "status", "message"),
    [
        (("--prior", "1"), 2, "between 0 and 1"),
        (("--cost-fa", "-1"), 2, "costs are positive"),
        (("--cost-fa", "nan"), 2, "finite"),
        (("--cost-fa", "3", "--at-eer"), 2, "choose one of them"),
    ],
)
def test_mistakes(capsys, network, scores, options, status, message):
    content = network.read_bytes()
    result, _, errors = run(capsys, network, scores, *options)
    assert result == status
    assert message in errors
    assert network.read_bytes() == content


def test_scores_and_networks_that_cannot_be_used(capsys, tmp_path, network, scores):
    turned = tmp_path / "turned.txt"
    write_scores(turned, ["a", "b", "c"], [0, 0, 1], [1.0, 2.0, 0.0])
    assert "turned.txt: higher scores do not mean bona fide" in run(capsys, network, turned)[2]
    torch.save({"model_state_dict": {"a": torch.zeros(1)}}, tmp_path / "weights.pt")
    status, _, errors = run(capsys, tmp_path / "weights.pt", scores)
    assert status == 1
    assert "python -m asdf import" in errors
    assert run(capsys, tmp_path / "missing.pt", scores)[0] == 1
    assert run(capsys, network, tmp_path / "missing.txt")[0] == 1

"""The command adversarial, as a user runs it."""

import json

import pytest

from asdf.__main__ import main
from tests.extras.forensic.why.conftest import ROOT
from tests.unit.adversarial.conftest import (  # noqa: F401 (fixtures)
    listener,
    trials,
    write_listener,
)


@pytest.fixture
def words(trials, write_listener, tmp_path):  # noqa: F811
    network = write_listener("Linear", samples=8000)
    table = trials.folder / "list.csv"
    options = ["--output", tmp_path / "out", "--network-folder", ROOT, "--device", "cpu"]
    options += ["--replicates", 20, "--steps", 2]
    return list(map(str, ["adversarial", network, table, *options]))


def test_all_outputs_are_written(words, tmp_path, capsys):
    options = ["--snr", "50,20", "--attacks", "fgsm,pgd", "--transfer", words[1]]
    assert main([*words, *options, "--keep", str(tmp_path / "kept")]) == 0
    shown = capsys.readouterr()
    assert "Linear under attack: 8 recordings (4 bona fide, 4 spoofed)" in shown.out
    assert (
        "8 recordings, 10 combinations of attack and level: 96 gradient computations" in shown.err
    )
    output = tmp_path / "out"
    for name in ("report.html", "success.svg", "results.csv", "results.tex", "results.txt"):
        assert (output / name).stat().st_size > 100
    record = json.loads((output / "results.json").read_text())
    assert record["transferred_from"] == "Linear-2"
    assert len(record["made_by"]["SHA-256 of Linear"]) == 64
    rows = {row["condition"]: row for row in record["results"]}
    assert rows["transferred-pgd_20"]["success"] == rows["pgd_20"]["success"]
    assert len(list((tmp_path / "kept").rglob("*.flac"))) == 10 * 8


def test_a_recording_that_is_left_out_ends_with_1(words, trials, capsys):  # noqa: F811
    trials.path(3).write_bytes(b"no audio")
    assert main([*words, "--snr", "30", "--attacks", "fgsm"]) == 1
    assert "1 recordings are excluded from all results" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("added", "message"),
    [
        (["--snr", "x"], "--snr x: expected numbers separated by commas"),
        (["--peak", "2"], "a share of full scale is needed"),
        (["--attacks", "cw"], "there is no attack cw"),
        (["--workers", "-1"], "give 0 or more"),
        (["--steps", "0"], "at least one step"),
    ],
)
def test_mistakes_are_named(words, added, message, capsys):
    assert main([*words, *added]) == 2
    assert message in capsys.readouterr().err


def test_a_list_and_an_output_are_needed(capsys):
    assert main(["adversarial", "net.pt"]) == 2
    assert "give a network and a list" in capsys.readouterr().err
    assert main(["adversarial", "net.pt", "list.txt"]) == 2
    assert "the output folder is missing" in capsys.readouterr().err

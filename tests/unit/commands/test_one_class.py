"""Sets of one class: exact intervals, and what `evaluate` says of them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from asdf.metrics.decisions import Threshold, decide_one_class
from asdf.trials.how_scored import HowScored, ScoredLength
from asdf.trials.score_file import Scores
from asdf.trials.scored_files import write_how_scored
from tests.unit.commands.running import Runner

run = Runner("evaluate")


def test_the_threshold_itself_is_bona_fide():
    scores = Scores(list("abcd"), [1, 1, 1, 1], np.array([-1.0, 0.0, 0.5, 2.0]))
    found = decide_one_class("x", scores, Threshold(0.5, "stated"), {"sex": list("fmfm")})
    whole = found.whole
    assert (whole.label, whole.trials, whole.errors) == (1, 4, 2)
    assert (whole.recall.value, whole.error_rate.value) == (0.5, 0.5)
    assert {value: part.errors for value, part in found.by["sex"].items()} == {"f": 1, "m": 1}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spoofs, genuine recordings and a set of both, whose EER's threshold is 0.5."""
    monkeypatch.chdir(tmp_path)
    Path("spoofs.txt").write_text("a A1 spoof -1\nb A1 spoof 0.7\nc A2 spoof 0.2\nd A2 spoof -3\n")
    Path("calls.txt").write_text("a.wav 1 2.0\nb.wav 1 0.1\n")
    Path("dev.txt").write_text("x 1 1.0\ny 1 2.0\nz 0 0.0\nw 0 -1.0\n")
    return tmp_path


def test_recall_of_spoofs_at_the_threshold_of_another_set(files, capsys):
    options = ["--threshold-from", "dev.txt", "-o", "o.json"]
    out = run.ok(capsys, "spoofs.txt", *options)
    assert "1 - SRR (spoofs accepted)  25.00 %   95 %: 0.63 .. 80.59, exact" in out
    assert "at the EER of dev.txt" in out
    [record] = json.loads((files / "o.json").read_text())
    assert record["threshold"]["value"] == 0.5
    assert (record["class"], record["trials"], record["errors"]) == ("spoof", 4, 1)
    assert record["recall"] == 0.75 and record["by"]["attack"]["A2"]["error_rate"] == 0.0
    _, out, _ = run(capsys, "calls.txt", "--threshold", "0.5")
    assert "false alarms      1 of 2" in out


def say_network(path: str, digest: str) -> None:
    """Write next to a score file what `score --scores` writes."""
    length = ScoredLength(16000, 16000)
    write_how_scored(Path(path), HowScored(length, "fp32", network=digest))


def test_one_threshold_is_that_of_all_sets_of_a_network(files, capsys):
    words = ["calls.txt", "spoofs.txt", "--threshold-from", "dev.txt"]
    run.refused(capsys, 2, "give it once per system", *words)
    for path in ("calls.txt", "spoofs.txt", "dev.txt"):
        say_network(path, "a" * 64)
    status, out, err = run(capsys, *words)
    assert status == 0 and err == "" and out.count("0.5, at the EER of dev.txt") == 2
    say_network("spoofs.txt", "b" * 64)
    assert run(capsys, *words)[0] == 2


def test_a_threshold_of_another_network_is_warned_of(files, capsys):
    say_network("calls.txt", "a" * 64)
    assert run(capsys, "calls.txt", "--threshold-from", "dev.txt")[2] == ""
    say_network("dev.txt", "b" * 64)
    status, _, err = run(capsys, "calls.txt", "--threshold-from", "dev.txt")
    assert status == 0
    assert "the threshold of dev.txt is of another network (SHA-256 bbbbbbbbbbbb...)" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["spoofs.txt"], "none of the 4 trials is bona fide.*--threshold-from.*--threshold X"),
        (["calls.txt", "dev.txt", "--threshold", "0"], "dev has both classes"),
        (["calls.txt", "--threshold", "0", "--plot", "x.png"], "--plot: the scores are of one"),
        (["calls.txt", "--threshold", "0", "-o", "x.csv"], "--csv: the scores are of one"),
    ],
)
def test_mistakes(files, capsys, options, message):
    status, _, err = run(capsys, *options)
    assert status != 0 and re.search(message.replace("none?", "not"), err, re.DOTALL)

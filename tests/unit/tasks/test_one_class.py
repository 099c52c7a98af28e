"""Sets of one class: exact intervals, and what `evaluate` says of them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import soundfile
from scipy import stats

from asdf.__main__ import main
from asdf.metrics.decisions import Threshold
from asdf.tasks.one_class.one_class import decide_one_class, poisson_bounds
from asdf.trials.how_scored import HowScored, ScoredLength
from asdf.trials.score_file import Scores
from asdf.trials.scored_files import write_how_scored


@pytest.mark.parametrize("events", [0, 1, 4, 50, 3000])
def test_counts_have_the_interval_of_garwood(events):
    low = stats.chi2.ppf(0.025, 2 * events) / 2 if events else 0.0
    high = stats.chi2.ppf(0.975, 2 * events + 2) / 2
    assert poisson_bounds(events) == pytest.approx((low, high), rel=1e-9)


def test_genuine_speech_has_hours_until_the_next_alarm():
    scores = Scores(list("abcd"), [1, 1, 1, 1], np.array([-1.0, 0.0, 1.0, 2.0]))
    seconds = np.array([3600.0, 7200.0, 1800.0, 1800.0])
    found = decide_one_class("x", scores, Threshold(0.5, "stated"), {"sex": list("fmfm")}, seconds)
    whole = found.whole
    # The threshold itself is bona fide; two of four are below it, in four hours.
    assert (whole.trials, whole.errors, whole.hours) == (4, 2, 4.0)
    assert (whole.recall.value, whole.error_rate.value) == (0.5, 0.5)
    assert whole.recall.low == pytest.approx(1 - whole.error_rate.high)
    hours = whole.hours_until_alarm
    assert hours is not None and hours.value == 2.0
    # 95 % of a Poisson variable of which two were seen: 0.2422 to 7.2247.
    assert (hours.low, hours.high) == pytest.approx((4 / 7.2247, 4 / 0.2422), rel=1e-3)
    assert [(name, part.name, part.errors, part.hours) for name, part in found.parts] == [
        ("sex", "f", 1, 1.5),
        ("sex", "m", 1, 2.5),
    ]


def test_without_an_alarm_there_is_a_bound():
    scores = Scores(["a"], [1], np.array([1.0]))
    found = decide_one_class("x", scores, Threshold(0.0, "stated"), {}, np.array([36000.0]))
    hours = found.whole.hours_until_alarm
    assert hours is not None and math.isinf(hours.value) and math.isinf(hours.high)
    # -ln(0.025) events are possible at most.
    assert hours.low == pytest.approx(10 / -math.log(0.025))


def test_spoofs_have_no_alarms():
    scores = Scores(list("ab"), [0, 0], np.array([-1.0, 1.0]))
    found = decide_one_class("x", scores, Threshold(1.0, "stated"), {}, np.array([1.0, 1.0]))
    assert (found.whole.errors, found.whole.hours_until_alarm) == (1, None)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spoofs, genuine recordings of an hour each and a set of both; its EER's threshold is 0.5."""
    monkeypatch.chdir(tmp_path)
    Path("spoofs.txt").write_text("a A1 spoof -1\nb A1 spoof 0.7\nc A2 spoof 0.2\nd A2 spoof -3\n")
    Path("calls.txt").write_text("a.wav 1 2.0\nb.wav 1 0.1\n")
    Path("dev.txt").write_text("x 1 1.0\ny 1 2.0\nz 0 0.0\nw 0 -1.0\n")
    for name in ("a", "b"):
        soundfile.write(f"{name}.wav", np.zeros(16000 * 18), 16000)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["evaluate", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_recall_of_spoofs_at_the_threshold_of_another_set(files, capsys):
    options = ["--threshold-from", "dev.txt", "-o", "o.json", "-o", "o.csv", "-o", "o.tex"]
    status, out, _ = run(capsys, "spoofs.txt", *options)
    assert status == 0
    assert "1 - SRR (spoofs accepted)  25.00 %   95 %: 0.63 .. 80.59, exact" in out
    assert "at the EER of dev.txt" in out
    [record] = json.loads((files / "o.json").read_text())
    assert record["threshold"]["value"] == 0.5
    assert (record["class"], record["trials"], record["errors"]) == ("spoof", 4, 1)
    assert record["recall"] == 0.75 and record["by"]["attack"]["A2"]["error_rate"] == 0.0
    assert "hours_until_alarm" not in record
    rows = (files / "o.csv").read_text().splitlines()
    assert [row.split(",")[:4] for row in rows[1:]] == [
        ["spoofs", "spoof", "", ""],
        ["spoofs", "spoof", "attack", "A1"],
        ["spoofs", "spoof", "attack", "A2"],
    ]
    assert "25.00 (0.63--80.59)" in (files / "o.tex").read_text()


def say_network(path: str, digest: str) -> None:
    """Write next to a score file what `score --scores` writes."""
    length = ScoredLength(16000, 16000)
    write_how_scored(Path(path), HowScored(length, "fp32", network=digest))


def test_one_threshold_is_that_of_all_sets_of_a_network(files, capsys):
    words = ["calls.txt", "spoofs.txt", "--threshold-from", "dev.txt"]
    status, _, err = run(capsys, *words)
    assert status == 2 and "Different systems need different thresholds" in err
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
    assert "dev.txt, whose scores are from another network file (SHA-256 bbbbbbbbbbbb...)" in err


def test_false_alarms_of_genuine_calls(files, capsys):
    _, out, _ = run(capsys, "calls.txt", "--threshold", "0.5", "--audio", ".")
    # An alarm in 36 s; of one event 0.02532 to 5.5716 are possible.
    assert "false alarms      1 of 2" in out
    assert "next false alarm  after 0.01 h of such speech   95 %: 0.00179 .. 0.395 h" in out
    _, out, _ = run(capsys, "calls.txt", "--threshold", "0", "--audio", ".")
    assert "none in these; at 95 %, one in 0.00271 h or more" in out


def test_a_column_of_the_protocol_has_durations(files, capsys):
    (files / "p.tsv").write_text("utterance\tlabel\tduration\na.wav\t1\t1800\nb.wav\t1\t1800\n")
    _, out, _ = run(capsys, "calls.txt", "--threshold", "0.5", "--protocol", "p.tsv")
    assert "speech            1 h" in out and "after 1 h of such speech" in out
    (files / "p.tsv").write_text("utterance\tlabel\tduration\na.wav\t1\t?\nb.wav\t1\t1800\n")
    _, out, err = run(capsys, "calls.txt", "--threshold", "0.5", "--protocol", "p.tsv")
    assert (
        "next false alarm" not in out and "duration contains '?', so durations are not used" in err
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["spoofs.txt"], "none of the 4 trials is bona fide.*--threshold-from.*--threshold X"),
        (
            ["calls.txt", "dev.txt", "--threshold", "0"],
            "dev has trials of both classes",
        ),
        (["calls.txt", "--threshold", "0", "--plot", "x.png"], "--plot: trials of both"),
        (["calls.txt", "--threshold", "0", "--audio", "none"], "2 of 2 recordings cannot be read"),
    ],
)
def test_mistakes(files, capsys, options, message):
    import re

    status, _, err = run(capsys, *options)
    assert status != 0 and re.search(message.replace("none?", "not"), err, re.DOTALL)

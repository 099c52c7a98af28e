"""`python -m asdf case`: the score of `score`, the worth of the network, and the same bytes."""

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.__main__ import main
from asdf.interchange import network_digest
from asdf.metrics.calibration import Calibration
from asdf.metrics.detection import DetCurve
from asdf.metrics.llr_maps import llr_quality
from asdf.scoring.parts import WindowThreshold
from asdf.trials.how_scored import HowScored, ScoredLength
from asdf.trials.score_file import read_scores, write_scores
from asdf.trials.scored_files import write_how_scored
from tests.unit.conftest import small_settings, sound, write_small_network

SET = {"set": "dev", "trials": "0" * 16, "bona_fide": 40, "spoof": 120, "date": "2026-05-03"}
QUALITY = {"eer": 0.1, "cross_validated_cllr": 0.4, "folds_of": "speakers"}
CALIBRATION = Calibration(scale=20.0, offset=0.5, threshold=0.0, **SET, **QUALITY)


@pytest.fixture
def network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = small_settings(max_evaluation_utterance_length_in_samples=16000)
    return write_small_network(tmp_path / "net.pt", settings, calibration=CALIBRATION.content())


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "call.wav"
    soundfile.write(path, sound(70_000), 16000)
    return path


@pytest.fixture
def validation(tmp_path, network):
    rng = np.random.default_rng(4)
    labels = np.repeat([1, 0], [30, 50])
    values = rng.normal(0, 0.1, 80) + np.where(labels == 1, 0.1, -0.1)
    path = tmp_path / "eval.txt"
    write_scores(path, [f"{index}.wav" for index in range(80)], labels, values)
    length = ScoredLength(16000, 16000)
    write_how_scored(path, HowScored(length, "fp32", network=network_digest(network), trials=80))
    return path


def run(capsys, *words):
    status = main(["case", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_a_case_has_the_score_of_score_and_the_files_digest(capsys, network, recording):
    assert main(["score", str(network), str(recording), "--json", "score.json"]) == 0
    of_score = capsys.readouterr().out
    status, out, _ = run(capsys, network, recording, "-o", "case.html", "--json", "case.json")
    # The same fields in the same order.
    assert (status, out) == (0, of_score)
    (expected,) = json.loads(Path("score.json").read_text())["recordings"]
    record = json.loads(Path("case.json").read_text())
    (found,) = record["recordings"]
    assert found["score"] == found["llr"] == expected["score"]
    assert found["log10_llr"] == pytest.approx(expected["score"] / math.log(10))
    assert found["verdict"] == expected["verdict"]
    assert found["sha256"] == hashlib.sha256(recording.read_bytes()).hexdigest()
    assert found["file"]["sample_rate"] == 16000 and found["file"]["codec"] == "PCM_16"
    assert found["file"]["size"] == recording.stat().st_size
    assert found["windows"][-1]["end_s"] == 70_000 / 16000
    digest = hashlib.sha256(network.read_bytes()).hexdigest()
    assert record["made_by"]["network_sha256"] == digest
    assert record["made_by"]["date"] is None
    page = Path("case.html").read_text()
    for text in (found["sha256"], digest, record["made_by"]["command"], "PyTorch"):
        assert text in page
    assert f"{found['llr']:.4f}".replace("-", "−") in page
    assert "dev: 40 bona fide and 120 spoofed recordings" in page
    assert "fewer than 100 recordings of a class" in page
    assert "No validation set was named" in page


def test_error_rates_are_of_the_calibrated_scores(capsys, network, recording, validation):
    words = ("--validation", validation, "--json", "case.json")
    assert run(capsys, network, recording, *words)[0] == 0
    known = json.loads(Path("case.json").read_text())["validation"]
    scores = read_scores(validation)
    llrs = 20 * scores.scores + 0.5
    bona_fide, spoof = llrs[scores.labels == 1], llrs[scores.labels == 0]
    assert known["misses"]["value"] == np.mean(bona_fide < 0)
    assert known["false_alarms"]["value"] == np.mean(spoof >= 0)
    assert known["misses"]["low"] < known["misses"]["value"] < known["misses"]["high"]
    quality = llr_quality(DetCurve.of(bona_fide, spoof))
    assert known["quality"]["cllr"] == pytest.approx(quality.cllr)
    assert known["eer"]["value"] == pytest.approx(DetCurve.of(bona_fide, spoof).eer()[0])
    assert known["is_checked"] and not known["is_calibration_set"]


def test_scores_of_another_network_are_refused(capsys, network, recording, validation):
    write_how_scored(validation, HowScored(ScoredLength(1, 1), "fp32", network="f" * 64))
    status, _, err = run(capsys, network, recording, "--validation", validation, "-o", "c.html")
    assert status == 1
    assert "are of another network" in err and len(err.splitlines()) == 1
    assert not Path("c.html").exists()


def test_the_same_input_gives_the_same_bytes(capsys, network, recording, validation):
    words = [network, recording, "--validation", validation, "--json", "c.json", "-o", "c.html"]
    contents = []
    for _ in range(2):
        assert run(capsys, *words)[0] == 0
        contents.append((Path("c.html").read_bytes(), Path("c.json").read_bytes()))
    assert contents[0] == contents[1]


@pytest.mark.slow
def test_fresh_processes_write_the_same_bytes(network, recording, validation, tmp_path):
    contents = []
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "asdf", "case", str(network), str(recording)]
        command += ["--validation", str(validation), "--json", "c.json", "-o", "c.html"]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, env=environment, cwd=tmp_path)
        contents.append([(tmp_path / name).read_bytes() for name in ("c.html", "c.json")])
    assert contents[0] == contents[1]


def test_what_is_not_scored_or_judged_is_in_the_case_and_names_are_text(
    capsys, network, recording, tmp_path
):
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    soundfile.write(tmp_path / "silence.wav", np.zeros(32000), 16000)
    evil = tmp_path / "<script>alert(1)<.wav"
    shutil.copy(recording, evil)
    words = ("--title", "</title><b>x", "--date", "3 May 2026", "--json", "c.json", "-o", "c.html")
    status, out, _ = run(capsys, network, evil, "bad.wav", *words)
    assert status == 1
    good, bad = json.loads(Path("c.json").read_text())["recordings"]
    assert good["score"] is not None and bad["score"] is None and bad["error"]
    page = Path("c.html").read_text()
    assert "Not scored:" in page and "Date: 3 May 2026" in page
    assert "<script>alert" not in page and "</title><b>" not in page
    # Nothing is judged, and why.
    status, out, _ = run(capsys, network, "silence.wav", "-o", "case.html")
    assert status == 0
    assert "not judged: digital silence" in out
    page = Path("case.html").read_text()
    assert "Not judged: digital silence" in page and "ENFSI" not in page


def test_a_case_says_how_its_windows_were_compared(capsys, network, recording, tmp_path):
    """The dashed line, the table and a sentence are of the threshold that marks parts."""
    counts = (6, 7, 9)
    window = 16000
    learnt = WindowThreshold(-30.0, 0.05, window, window // 2, counts, (-1, -1, 2))
    calibration = replace(CALIBRATION, windows=learnt.content())
    settings = small_settings(max_evaluation_utterance_length_in_samples=window)
    content = calibration.content()
    searching = write_small_network(tmp_path / "windows.pt", settings, calibration=content)
    for path in (searching, network):
        words = (path, recording, "--speech-check", "off")
        status, _, errors = run(capsys, *words, "-o", "case.html", "--json", "case.json")
        assert status == 0, errors
        record = json.loads(Path("case.json").read_text())
        (found,) = record["recordings"]
        searched = found["searched"]
        (sentence,) = [text for text in found["statements"] if "were compared with" in text]
        page = Path("case.html").read_text()
        assert sentence in page
        has_own = path == searching
        assert ("Threshold of windows" in page) == has_own
        assert ("threshold -30.00" in page) == has_own
        assert searched["threshold"] == (-30.0 if has_own else 0.0)
        assert ("compared with -30: of " in sentence) == has_own
        assert ("compared with 0: about 0.8 of 8 windows of genuine speech" in sentence) != has_own


def test_without_a_calibration_nothing_is_said_of_likelihoods(capsys, recording, tmp_path, network):
    settings = small_settings(max_evaluation_utterance_length_in_samples=16000)
    plain = write_small_network(tmp_path / "plain.pt", settings)
    assert run(capsys, plain, recording, "--json", "c.json", "-o", "c.html")[0] == 0
    record = json.loads(Path("c.json").read_text())
    assert "times as likely" not in " ".join(record["recordings"][0]["statements"])
    assert "llr" not in record["recordings"][0] and record["calibration"] is None
    assert "not a likelihood ratio" in Path("c.html").read_text()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "no output is given"),
        (["--json", "call.wav"], "overwrite"),
        (["-o", "c.html", "--validation", "none.txt"], "none.txt"),
    ],
)
def test_mistakes_are_one_line(capsys, network, recording, words, part):
    status, _, err = run(capsys, network, recording, *words)
    assert status in (1, 2)
    assert part in err and len(err.strip().splitlines()) == 1

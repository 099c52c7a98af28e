"""`python -m asdf score`: what it prints, what it writes, how it ends."""

import csv
import json
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.detector import Calibration
from asdf.evaluation import read_scores
from tests.unit.detector.conftest import network_file, recordings, sound, write_small_network  # noqa: F401

NAMES = ["a.wav", "b.flac", "c.WAV", "d.ogg", "e.mp3"]


@pytest.fixture
def folder(recordings, monkeypatch):  # noqa: F811
    monkeypatch.chdir(recordings.parent)
    return recordings


@pytest.fixture
def network(network_file):  # noqa: F811
    return str(network_file)


@pytest.fixture
def score(capsys, network):
    """Run the command on the CPU: exit status, lines of stdout, stderr."""

    def run(*words, network=network):
        status = main(["score", network, *map(str, words), "--device", "cpu"])
        captured = capsys.readouterr()
        return status, captured.out.splitlines(), captured.err

    return run


def expected(network, folder):
    detector = asdf.Detector(network, "cpu")
    return [detector.score(folder / name) for name in NAMES]


def test_one_line_a_recording_in_order(folder, score, network):
    status, lines, errors = score("recordings")
    assert (status, errors) == (0, "")
    scores = expected(network, folder)
    assert lines == [f"recordings/{name}\t{value:.4f}" for name, value in zip(NAMES, scores, strict=True)]


def test_a_threshold_gives_verdicts(folder, score, network):
    scores = expected(network, folder)
    threshold = sorted(scores)[2]
    status, lines, errors = score("recordings", f"--threshold={threshold!r}")
    assert status == 0
    assert [line.split("\t")[2] for line in lines] == [
        "bona fide" if value >= threshold - 1e-6 else "spoof" for value in scores
    ]
    assert "bona fide from a score of" in errors


def test_a_broken_file_is_reported_and_the_rest_go_on(folder, score):
    (folder / "b2.wav").write_text("no sound")
    status, lines, errors = score("recordings", "--json", "out.json")
    assert status == 1
    assert lines[2] == "recordings/b2.wav\terror"
    assert len(lines) == 6
    assert "recordings/b2.wav is not audio" in errors
    assert "1 of 6 recordings could not be scored" in errors
    written = json.loads((folder.parent / "out.json").read_text())["recordings"]
    assert written[2]["score"] is None
    assert "not audio" in written[2]["error"]
    assert [entry["score"] is None for entry in written].count(False) == 5


def test_csv_and_json_hold_the_very_numbers(folder, score, network):
    detector = asdf.Detector(network, "cpu")
    (folder / "list.txt").write_text("a.wav 1\nc.WAV 0\n")
    options = ("--csv", "o/out.csv", "--json", "o/out.json", "--window", "0.25", "--hop", "0.125", "--threshold", "0")
    status, lines, errors = score(folder / "list.txt", *options)
    assert status == 0
    rows = list(csv.DictReader((folder.parent / "o/out.csv").open()))
    assert list(rows[0]) == ["path", "start_s", "end_s", "score", "verdict", "label", "error"]
    whole = [row for row in rows if not row["start_s"]]
    assert [(row["path"], row["label"]) for row in whole] == [
        (str(folder / "a.wav"), "1"),
        (str(folder / "c.WAV"), "0"),
    ]
    written = json.loads((folder.parent / "o/out.json").read_text())
    assert (written["kind"], written["threshold"]) == ("score", 0.0)
    for row, entry, name in zip(whole, written["recordings"], ("a.wav", "c.WAV"), strict=True):
        assert float(row["score"]) == entry["score"] == pytest.approx(detector.score(folder / name), abs=1e-6)
        assert row["verdict"] == entry["verdict"] == ("bona fide" if entry["score"] >= 0 else "spoof")
        windows = detector.score_over_time(folder / name, 0.25, 0.125)
        parts = [part for part in rows if part["path"] == row["path"] and part["start_s"]]
        for kept in (entry["windows"], parts):
            assert [(float(w["start_s"]), float(w["end_s"]), float(w["score"])) for w in kept] == [
                (w.start_s, w.end_s, w.score) for w in windows
            ]
    assert sum("█" in line for line in lines) > 2
    assert "pictures beside o/out.csv: 2" in errors
    for name in ("a", "c"):
        root = ElementTree.parse(folder.parent / "o" / f"out - {name}.svg").getroot()
        assert len(root.findall("{http://www.w3.org/2000/svg}circle")) == len(windows)


def test_pictures_of_one_name_do_not_overwrite_each_other(folder, score):
    (folder / "more").mkdir()
    soundfile.write(folder / "more" / "a.wav", sound(6000, 9), 16000)
    score("recordings/a.wav", "recordings/more/a.wav", "--window", "1", "--csv", "out.csv")
    assert sorted(path.name for path in folder.parent.glob("*.svg")) == ["out - a (2).svg", "out - a.svg"]


def test_a_calibrated_network_prints_llrs_and_verdicts(folder, score, network, tmp_path):
    calibration = Calibration(2.0, 1.0, 0.5, 0.05, 1.0, 10.0)
    path = write_small_network(tmp_path / "calibrated.pt", calibration=calibration.content())
    plain = expected(network, folder)
    status, lines, errors = score("recordings", "--csv", "out.csv", network=str(path))
    assert status == 0
    llrs = [float(line.split("\t")[1]) for line in lines]
    np.testing.assert_allclose(llrs, 2 * np.array(plain) + 1, atol=1e-4)
    assert [line.split("\t")[2] for line in lines] == ["bona fide" if llr >= 0.5 else "spoof" for llr in llrs]
    assert "an accepted spoof 10" in errors
    assert (folder.parent / "out.csv").read_text().startswith("path,start_s,end_s,llr,verdict")


def test_a_score_file_of_labelled_lists_holds_the_networks_own_scores(folder, score, network, tmp_path):
    (folder / "list.txt").write_text("".join(f"{name} {int(place < 2)}\n" for place, name in enumerate(NAMES)))
    path = write_small_network(tmp_path / "c.pt", calibration=Calibration(2.0, 1.0, 0.5).content())
    status, _, _ = score(folder / "list.txt", "--scores", "scores.txt", network=str(path))
    assert status == 0
    written = read_scores(folder.parent / "scores.txt")
    assert written.ids == NAMES
    assert written.labels.tolist() == [1, 1, 0, 0, 0]
    np.testing.assert_allclose(written.scores, expected(network, folder), atol=1e-6)
    (folder / "b.flac").write_text("no sound")
    status, _, errors = score(folder / "list.txt", "--scores", "other.txt")
    assert status == 1
    assert "other.txt is not written" in errors
    assert not (folder.parent / "other.txt").exists()


def test_names_stay_one_field_of_one_line(folder, score):
    (folder / "a.wav").rename(folder / "a\tb\nc.wav")
    _, lines, _ = score(folder / "a\tb\nc.wav", "--csv", "out.csv")
    assert len(lines) == 1
    assert lines[0].split("\t")[0].endswith(r"a\tb\nc.wav")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("missing.wav",), "there is no file or folder missing.wav"),
        (("recordings", "--hop", "2"), "give --window too"),
        (("recordings", "--window", "1", "--hop", "2"), "parts of the recording would be in no window"),
        (("recordings", "--scores", "out.txt"), "--scores needs labels"),
        (("recordings", "--csv", "a.csv", "--window", "0"), "must be positive"),
    ],
)
def test_mistakes_end_with_2_before_any_work(folder, score, words, message):
    status, lines, errors = score(*words)
    assert (status, lines) == (2, [])
    assert message in errors
    assert not list(folder.parent.glob("*.csv"))


def test_a_file_that_is_no_network(folder, score):
    status, lines, errors = score("recordings", network=str(folder / "a.wav"))
    assert (status, lines) == (1, [])
    assert "a.wav" in errors


def test_help_has_examples():
    """In a process of its own, as a user sees it."""
    done = subprocess.run([sys.executable, "-m", "asdf", "score", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "python -m asdf score network.pt call.mp3 --window 4 --hop 2" in done.stdout

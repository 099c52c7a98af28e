"""The command robustness, as a user runs it."""

import json

import pytest

import asdf.scoring.detector
import asdf.scoring.document
from asdf.__main__ import main
from asdf.runs.files import lock_work
from tests.extras.robustness.conftest import LevelDetector


@pytest.fixture
def detectors(monkeypatch):
    opened = []

    def make(network, *arguments, **options):
        detector = LevelDetector(0.5 if "half" in str(network) else 1.0)
        opened.append(detector)
        return detector

    monkeypatch.setattr(asdf.scoring.detector, "Detector", make)
    monkeypatch.setattr(asdf.scoring.document, "network_digest", str)
    return opened


def test_all_outputs_are_written(trials, tmp_path, capsys, detectors) -> None:
    output = tmp_path / "out"
    table = str(trials.folder / "list.csv")
    words = ["robustness", "a/net.pt", "b/net.pt", table, "--output", str(output), "--workers", "0"]
    words += ["--only", "white_10,gain", "--replicates", "20", "--keep-audio"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "24 recordings (12 bona fide, 12 spoofed) as they are and under 4" in shown.out
    assert "24 recordings, 0.2 minutes, 4 conditions: copies take up to 2 MB" in shown.err
    for name in ("report.html", "results.csv", "results.tex", "results.txt"):
        assert (output / name).stat().st_size > 100
    record = json.loads((output / "results.json").read_text())
    assert {row["network"] for row in record["results"]} == {"net", "net-2"}
    assert record["made_by"]["SHA-256 of net-2"] == "b/net.pt"
    # The detectors are the same.
    for row in record["comparisons"]:
        assert (row["first"], row["second"], row["eer_difference"]) == ("net", "net-2", 0)
        assert row["eer_p"] == row["eer_p_holm"] == 1
    assert len(list((output / "audio").rglob("*.flac"))) == 4 * 24
    heard = len(detectors[0].heard)
    assert main(words) == 0
    # A second time nothing is scored again.
    assert len(detectors[2].heard) == 0 and heard == 5 * 24


def test_a_killed_process_is_one_message(
    trials, tmp_path, capsys, detectors, killed_workers
) -> None:
    words = ["robustness", "net.pt", str(trials.folder / "list.csv"), "--workers", "1"]
    assert main([*words, "--output", str(tmp_path / "out"), "--only", "gain"]) == 1
    assert "error: a worker process was killed, likely by the system" in capsys.readouterr().err


def test_reasons_stay_where_nothing_is_scored_again(
    trials, tmp_path, monkeypatch, capsys, detectors
) -> None:
    monkeypatch.chdir(tmp_path)
    heard_well = LevelDetector.score_many

    def score_many(self, paths):
        for result in heard_well(self, paths):
            if "white_10" in str(paths[result.index]) and result.index in (3, 7):
                result.compared, result.error = None, f"{result.index} is too loud"
            yield result

    monkeypatch.setattr(LevelDetector, "score_many", score_many)
    words = ["robustness", "net.pt", str(trials.folder / "list.csv"), "--workers", "0"]
    words += ["--output", "out", "--only", "white_10,gain", "--replicates", "20"]
    whole = {}
    # The second time nothing is scored.
    for _ in range(2):
        assert main(words) == 1
        found = {path.name: path.read_bytes() for path in (tmp_path / "out").glob("results.*")}
        assert found == (whole or found)
        whole = found
    assert detectors[1].heard == []
    assert b"r3.wav: 3 is too loud" in whole["results.txt"]


def test_two_studies_do_not_write_together(trials, tmp_path, capsys, detectors) -> None:
    output = tmp_path / "out"
    words = ["robustness", "net.pt", str(trials.folder / "list.csv"), "--workers", "0"]
    words += ["--output", str(output), "--only", "gain_-20", "--replicates", "20"]
    with lock_work(output / ".progress", output):
        assert main(words) == 2
        assert f"another process is writing {output}" in capsys.readouterr().err
    assert main(words) == 0
    assert not (output / ".progress").exists()


def test_a_recording_that_is_left_out_ends_with_1(
    trials, tmp_path, capsys, detectors, monkeypatch
) -> None:
    trials.path(3).write_bytes(b"no audio")
    monkeypatch.setattr(LevelDetector, "level", lambda self, path: -1.0 - len(str(path)) % 7)
    words = ["robustness", "net.pt", str(trials.folder / "list.csv"), "--workers", "0"]
    words += ["--output", str(tmp_path / "out"), "--only", "white_10", "--replicates", "20"]
    assert main(words) == 1
    assert "1 recordings are excluded from all results" in capsys.readouterr().out


def test_the_catalogue_is_printed(capsys) -> None:
    assert main(["robustness"]) == 0
    shown = capsys.readouterr().out
    assert "codec          mp3                64 32 16         kbit/s" in shown
    assert "amr-wb: PyAV" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["net.pt"], "give one or more networks and a list"),
        (["--output", "o", "--only", "gain"], "give one or more networks and a list"),
        (["net.pt", "list.txt"], "the output folder is missing"),
        (["net.pt", "missing.txt", "--output", "o"], "there is no list, folder or corpus missing"),
        (["net.pt", "l.txt", "--output", "o", "--workers", "-1"], "give 0 or more"),
    ],
)
def test_mistakes_are_named(words, message, capsys) -> None:
    assert main(["robustness", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_list_without_labels_is_refused(trials, tmp_path, capsys) -> None:
    assert main(["robustness", "net.pt", str(trials.folder), "--output", str(tmp_path)]) != 0
    assert "needs a label" in capsys.readouterr().err

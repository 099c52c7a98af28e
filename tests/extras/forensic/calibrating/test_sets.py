"""What `calibrate` learns from recordings: what is unlike its set, and a threshold for windows."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main
from asdf.checkpoint.network_file import write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.evaluation import read_scores, write_scores
from asdf.extras.forensic.calibrating.learning import learn_window_threshold
from asdf.extras.forensic.unlike import learn_home, read_home
from asdf.scoring.parts import PartSearch, read_window_threshold
from asdf.tasks.fusion.gain import make_folds
from tests.unit.conftest import small_settings, sound, write_small_network

COUNT = 40
# Three and more windows of the network's 8,000 samples.
LONG = 17_000


def run(capsys, *words):
    status = main([str(word) for word in words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Forty recordings of seven speakers with a network, its scores, and long recordings."""
    folder = tmp_path_factory.mktemp("set")
    for index in range(COUNT):
        samples = sound(8000, index)
        soundfile.write(folder / f"{index}.wav", samples, 16000)
    (folder / "list.txt").write_text(
        "".join(f"{index}.wav {index % 2}\n" for index in range(COUNT))
    )
    settings = small_settings()
    # Embeddings that tell these recordings apart.
    settings.front_end.front_end_class = "filter_bank"
    write_small_network(folder / "net.pt", settings)
    words = ("score", "net.pt", "list.txt", "--scores", "raw.txt", "--device", "cpu")
    before = Path.cwd()
    os.chdir(folder)
    try:
        assert main(list(words)) == 0
        # Labelled by their order, so that they can be calibrated whatever the network says.
        raw = read_scores("raw.txt")
        labels = (raw.scores >= np.sort(raw.scores)[15]).astype(int)
        write_scores("scores.txt", raw.ids, labels, raw.scores)
        rows = [
            f"{name},{'bonafide' if label else 'spoof'},s{index % 7}\n"
            for index, (name, label) in enumerate(zip(raw.ids, labels, strict=True))
        ]
        (folder / "protocol.csv").write_text("path,label,speaker\n" + "".join(rows))
        (folder / "long").mkdir()
        for index in range(19):
            soundfile.write(
                folder / "long" / f"{index:02}.wav", sound(LONG + 100 * index, index), 16000
            )
        arguments = ["net.pt", "scores.txt", "--protocol", "protocol.csv", "--output", "home.pt"]
        assert main(["calibrate", *arguments]) == 0
    finally:
        os.chdir(before)
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    monkeypatch.chdir(made)
    return made


def test_a_home_is_that_of_the_recordings_embeddings(folder):
    detector = asdf.Detector("home.pt", "cpu")
    home = read_home(detector.calibration.others["home"])
    scores = read_scores("scores.txt")
    plain = asdf.Detector("net.pt", "cpu")
    rows = np.stack(
        [plain.score_trial(name, embedding=True).embedding.reshape(-1) for name in scores.ids]
    )
    folds = make_folds(scores.ids, scores.labels, [f"s{i % 7}" for i in range(COUNT)], 20)
    expected = learn_home(rows, scores.labels, folds, 0.05, "speakers")
    assert home.limit == pytest.approx(expected.limit, rel=1e-4)
    assert (home.bona_fide, home.spoof, home.folds_of) == (25, 15, "speakers")
    assert home.bona_fide_beyond == expected.bona_fide_beyond
    for name, row in zip(scores.ids[:5], rows, strict=False):
        score = detector.score_trial(name)
        assert score.distance == pytest.approx(expected.distance(row), rel=1e-3)
        assert score.unlike is (score.distance > 1)


def test_levels_and_offsets_outside_those_of_the_set_are_a_remark(folder):
    detector = asdf.Detector("home.pt", "cpu", threshold=0.0, speech_check="off")
    names = read_scores("scores.txt").ids
    results = [detector.score(name) for name in names]
    for name in ("level_dbfs", "offset"):
        values = [getattr(result, name) for result in results]
        assert detector.calibration.others["levels"][name] == [min(values), max(values)]
    assert not any("outside the range" in result.remark for result in results)
    samples, rate = soundfile.read(names[0], dtype="float32")
    for other, noun in ((samples / 1000, "level in dBFS"), (samples + 0.7, "constant offset 0.")):
        for result in (detector.score(other, rate), detector.score_whole(other, rate)):
            assert "outside the range of the calibration set: " in result.remark
            assert noun in result.remark
    assert "outside" not in detector.score(np.zeros(20000, np.float32), rate).remark
    # A small set has a narrow range: 1 dB and 0.001 of full scale beyond it are no remark.
    loudest, rate = soundfile.read(max(zip(results, names, strict=True), key=_level)[1])
    for gain_db, offset, remarked in ((0.9, 0, False), (1.1, 0, True), (0, 5e-4, False)):
        changed = loudest * 10 ** (gain_db / 20) + offset
        assert ("outside" in detector.score(changed, rate).remark) == remarked


def _level(scored):
    return scored[0].level_dbfs


@pytest.mark.parametrize(
    "damaged", [5, {"level_dbfs": [1]}, {"offset": "ab"}, {"offset": [0, "b"]}]
)
def test_damaged_levels_are_no_levels(folder, damaged):
    content = read_network_file(folder / "home.pt")
    content.calibration = {**content.calibration, "levels": damaged}
    write_network_file(folder / "damaged.pt", content)
    assert "outside" not in asdf.Detector("damaged.pt", "cpu").score("long/05.wav").remark


def test_scores_are_those_without_it_and_the_embedding_stays_on_request(folder):
    detector = asdf.Detector("home.pt", "cpu", threshold=0.0, speech_check="off")
    content = read_network_file(folder / "home.pt")
    content.calibration = replace(detector.calibration, others={}).content()
    write_network_file(folder / "without.pt", content)
    plain = asdf.Detector("without.pt", "cpu", threshold=0.0, speech_check="off")
    path = "long/05.wav"
    for whole in (False, True):
        with_home = detector.score_whole(path) if whole else detector.score_trial(path)
        without = plain.score_whole(path) if whole else plain.score_trial(path)
        assert (with_home.raw, with_home.llr) == (without.raw, without.llr)
        assert with_home.windows_scores == without.windows_scores
        assert with_home.embedding is None and without.unlike is None
        assert not any(window.extras for window in with_home.windows_scores)
    asked = detector.score_whole(path, embedding=True)
    expected = plain.score_whole(path, embedding=True).embedding
    np.testing.assert_array_equal(asked.embedding, expected)
    assert asked.distance == detector.score_whole(path).distance
    # Every way to a score says the same.
    samples, _ = soundfile.read(path, dtype="float32")
    stream = detector.stream(16000, 0.5, 0.5)
    stream.add(samples)
    stream.finish()
    assert stream.score.distance == pytest.approx(asked.distance, rel=1e-3)
    pipeline = detector.pipeline
    pieces = pipeline.cut(samples)
    result, _ = pipeline.conclude(pieces, pipeline.score(pieces.all), path)
    assert result.distance == pytest.approx(asked.distance, rel=1e-3)
    assert "embedding" not in result.extras
    [many] = detector.score_many([path], whole=True)
    assert many.distance == pytest.approx(asked.distance, rel=1e-3)
    silence = detector.score_trial(np.zeros(8000, np.float32), 16000)
    assert silence.unlike is None and "unlike" not in silence.remark


def test_score_says_what_is_unlike_the_set(capsys, folder):
    """A tone is far from every sound of the set; its row, entry, line and case page say so."""
    tone = 0.5 * np.sin(np.arange(8000) * 0.9)
    soundfile.write("tone.wav", tone, 16000)
    options = ("--csv", "out.csv", "--json", "out.json", "--device", "cpu", "--speech-check", "off")
    status, out, _ = run(capsys, "score", "home.pt", "tone.wav", "3.wav", *options)
    assert status == 0
    words = "unlike the recordings that the calibration was learnt from (distance "
    first, second = out.splitlines()[:2]
    assert words in first and words not in second
    assert "): its likelihood ratio is not valid for it" in first
    rows = list(csv.DictReader(io.StringIO((folder / "out.csv").read_text())))
    assert [row["unlike"] for row in rows] == ["true", "false"]
    document = json.loads((folder / "out.json").read_text())
    for row, entry in zip(rows, document["recordings"], strict=True):
        assert entry["unlike"] is (row["unlike"] == "true")
        assert entry["distance"] == float(row["distance"])
    assert document["recordings"][0]["distance"] > 1
    home = document["calibration"]["home"]
    assert home["bona_fide"] == 25 and "clusters" not in home
    assert home["measured_rate"][0] == home["bona_fide_beyond"] / 25
    status, _, errors = run(capsys, "case", "home.pt", "tone.wav", "--output", "case.html")
    assert status == 0, errors
    page = (folder / "case.html").read_text()
    assert "Unlike the recordings that the calibration was learnt from" in page
    assert "Distance from the calibration set" in page


def test_what_it_is_not_learnt_from_is_said(capsys, folder, tmp_path):
    status, out, _ = run(
        capsys, "calibrate", "net.pt", "scores.txt", "-o", tmp_path / "o.pt", "--unlike-rate", "0"
    )
    assert status == 0 and "unlike" not in out
    assert "home" not in asdf.Detector(tmp_path / "o.pt", "cpu").calibration.others
    options = ("calibrate", "net.pt", "scores.txt", "-o", tmp_path / "o.pt", "--unlike-rate")
    status, _, errors = run(capsys, *options, "0.01")
    assert status == 1 and "25 genuine recordings are too few" in errors and "needs 99" in errors
    status, _, errors = run(capsys, *options, "1")
    assert status == 2 and "--unlike-rate 1" in errors
    # Scores alone are calibrated, and what cannot be told is said.
    lines = (folder / "scores.txt").read_text().replace(".wav", ".flac")
    (tmp_path / "elsewhere.txt").write_text(lines)
    words = ("calibrate", "net.pt", tmp_path / "elsewhere.txt", "-o", tmp_path / "o.pt")
    status, out, _ = run(capsys, *words)
    assert status == 0
    assert "unlike this set cannot be detected: recordings of " in out
    assert "Give their folder with --folder" in out


@pytest.mark.slow
def test_windows_get_a_threshold_of_their_own(capsys, folder):
    """The whole command: the threshold is the rank of the recordings' lowest windows."""
    words = ("--output", "windows.pt", "--windows", "long", "--windows-rate", "0.1")
    options = ("--unlike-rate", "0", *words)
    torch.manual_seed(0)
    # Noise of these levels is no speech to the check, which windows are judged by.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asdf.audio.speech_check.has_speech", lambda _: True)
        status, out, errors = run(capsys, "calibrate", "net.pt", "scores.txt", *options)
        assert status == 0, errors
        detector = asdf.Detector("windows.pt", "cpu")
        learnt = read_window_threshold(detector.calibration.windows)
        # What a detector without it compares windows with.
        lowest = []
        scores = []
        for index in range(19):
            result = detector.score_whole(f"long/{index:02}.wav")
            scores.append([window.compared for window in result.windows_scores])
            lowest.append(min(scores[-1]))
        highest = detector.calibration.threshold
        # floor(0.1 * 20) = 2.
        assert learnt.threshold == pytest.approx(min(sorted(lowest)[1], highest), abs=1e-4)
        again = learn_window_threshold(scores, 0.1, learnt.window, learnt.hop, highest)
        assert learnt.counts == again.counts
        assert min(learnt.counts) >= 3
        search = detector.pipeline.summary.search
        assert isinstance(search, PartSearch) and search.threshold == learnt.threshold
        below = sum(value < learnt.threshold - 1e-4 for value in lowest)
        assert below <= 1
        result = detector.score_whole("long/00.wav")
        assert result.searched.false_alarms.recordings == 19
    assert f"{learnt.describe()}\n" in out


def test_what_fails_on_the_way_leaves_the_network_as_it_was(capsys, folder, tmp_path):
    """It is written once, at the end; recordings that are too short are known before the work."""
    own = tmp_path / "own.pt"
    own.write_bytes((folder / "net.pt").read_bytes())
    for index in range(25):
        soundfile.write(tmp_path / f"{index}.wav", sound(6000, index), 16000)
    words = ("calibrate", own, "scores.txt", "--windows", tmp_path)
    status, out, errors = run(capsys, *words)
    assert status == 1 and "only 0 genuine recordings have windows of" in errors
    assert "LLR =" not in out
    assert own.read_bytes() == (folder / "net.pt").read_bytes()


def test_windows_of_few_or_broken_recordings_are_refused(capsys, folder, tmp_path):
    (tmp_path / "few").mkdir()
    for index in range(3):
        soundfile.write(tmp_path / "few" / f"{index}.wav", sound(LONG, index), 16000)
    words = ("calibrate", "net.pt", "scores.txt", "-o", tmp_path / "o.pt", "--unlike-rate", "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("asdf.audio.speech_check.has_speech", lambda _: True)
        status, _, errors = run(capsys, *words, "--windows", tmp_path / "few")
        assert status == 1 and "needs at least 19" in errors
    (tmp_path / "few" / "broken.wav").write_bytes(b"no audio")
    status, _, errors = run(capsys, *words, "--windows", tmp_path / "few")
    assert status == 1 and "broken.wav" in errors and "It is one of the recordings" in errors
    status, _, errors = run(capsys, *words, "--windows-rate", "0.1")
    assert status == 2 and "--windows-rate needs --windows" in errors
    status, _, errors = run(capsys, *words, "--windows", "long", "--windows-rate", "2")
    assert status == 2 and "give a proportion" in errors

"""What `calibrate` learns from recordings to tell which others are unlike its set."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
import soundfile

import asdf
from asdf.checkpoint.network_file import write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.evaluation import read_scores
from asdf.extras.forensic.unlike import UnlikeColumn, learn_region, read_region
from asdf.extras.service.answers import entry_of, stated_columns
from asdf.tasks.fusion.gain import make_folds
from tests.extras.forensic.calibrating.conftest import COUNT, run


def test_a_region_is_that_of_the_recordings_embeddings(folder):
    detector = asdf.Detector("home.pt", "cpu")
    region = read_region(detector.calibration.others["home"])
    scores = read_scores("scores.txt")
    plain = asdf.Detector("net.pt", "cpu")
    heard = [plain.score_trial(name, embedding=True).embedding for name in scores.ids]
    rows = np.stack([embedding.reshape(-1) for embedding in heard])
    folds = make_folds(scores.ids, scores.labels, [f"s{i % 7}" for i in range(COUNT)], 20)
    expected = learn_region(rows, scores.labels, folds, 0.05, "speakers")
    assert region.limit == pytest.approx(expected.limit, rel=1e-4)
    assert (region.bona_fide, region.spoof, region.folds_of) == (25, 15, "speakers")
    assert region.bona_fide_beyond == expected.bona_fide_beyond
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
    loudest, rate = soundfile.read(names[np.argmax([result.level_dbfs for result in results])])
    for gain_db, offset, remarked in ((0.9, 0, False), (1.1, 0, True), (0, 5e-4, False)):
        changed = loudest * 10 ** (gain_db / 20) + offset
        assert ("outside" in detector.score(changed, rate).remark) == remarked


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
        with_region = detector.score_whole(path) if whole else detector.score_trial(path)
        without = plain.score_whole(path) if whole else plain.score_trial(path)
        assert (with_region.raw, with_region.llr) == (without.raw, without.llr)
        assert with_region.windows_scores == without.windows_scores
        assert with_region.embedding is None and without.unlike is None
        assert not any(window.extras for window in with_region.windows_scores)
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
    region = document["calibration"]["home"]
    assert region["bona_fide"] == 25 and "clusters" not in region
    assert region["measured_rate"][0] == region["bona_fide_beyond"] / 25
    status, _, errors = run(capsys, "case", "home.pt", "tone.wav", "--output", "case.html")
    assert status == 0, errors
    page = (folder / "case.html").read_text()
    assert "Unlike the recordings that the calibration was learnt from" in page
    assert "Distance from the calibration set" in page


def test_what_it_is_not_learnt_from_is_said(capsys, folder, tmp_path):
    options = ("calibrate", "net.pt", "scores.txt", "-o", tmp_path / "o.pt", "--unlike-rate")
    status, out, _ = run(capsys, *options, "0")
    assert status == 0 and "unlike" not in out
    assert "home" not in asdf.Detector(tmp_path / "o.pt", "cpu").calibration.others
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


def test_a_service_answers_what_it_describes_and_its_page_says_it(folder):
    detector = asdf.Detector("home.pt", "cpu", threshold=0.0, speech_check="off")
    tone = 0.5 * np.sin(np.arange(8000) * 0.9)
    [result] = detector.score_many([(tone.astype(np.float32), 16000)])
    assert UnlikeColumn.entry(result.values["unlike"]).keys() == UnlikeColumn.answer.keys()
    assert UnlikeColumn.cells in stated_columns()
    shown = entry_of(result, is_shown=True)["shown"]
    assert shown["facts"]["Distance from the calibration set"].endswith(" (unlike it above 1)")
    assert shown["doubt"] == [
        "but unlike the calibration set",
        "But it is unlike the recordings that the detector was calibrated on",
    ]

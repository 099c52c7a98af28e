"""Watermarks beside scores: pieces of recordings, packages that fail or lack, the command."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import soundfile
import torch

from asdf import Detector
from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.watermarks import Watermark, WatermarkSearch, describe_watermarks, read_marks, searching
from asdf.watermarks.mark_readers import AudioSeal, Mark, MarkReader, Perth, SilentCipher
from tests.unit.conftest import sound, write_small_network

RATE = 8000


class Loud(MarkReader):
    """Calls a piece marked where a sample is above half of full scale."""

    name = "loud"
    package = "loud-marks"

    def __init__(self, device=None):
        print("loaded")
        self.heard = []

    def read(self, samples, rate):
        self.heard.append((len(samples), rate))
        loudest = float(np.abs(samples).max())
        return Mark(loudest > 0.5, loudest, "2a" if loudest > 0.5 else "")


class Missing(MarkReader):
    name = "missing"
    package = "missing-marks"

    def __init__(self, device):
        raise ImportError("No module named 'missing'")

    def read(self, samples, rate):
        raise AssertionError


class Failing(Loud):
    name = "failing"

    def read(self, samples, rate):
        raise RuntimeError("no such kernel")


def write(path, seconds, loud=()):
    """Write a quiet recording with loud samples at these seconds."""
    samples = np.full((round(seconds * RATE), 2), 0.01)
    for second in loud:
        samples[round(second * RATE)] = 0.9
    soundfile.write(path, samples, RATE, subtype="FLOAT")
    return str(path)


def test_pieces_cover_a_recording_at_its_own_rate(tmp_path):
    reader = Loud()
    path = write(tmp_path / "a.wav", 90.5, loud=(70,))
    [mark] = read_marks(WatermarkSearch((reader,), {}), path)
    # Half a second at the end belongs to the piece before.
    assert reader.heard == [(30 * RATE, RATE), (30 * RATE, RATE), (round(30.5 * RATE), RATE)]
    assert (mark.found, mark.message) == (True, "2a")
    assert mark.strength == pytest.approx(0.9) and (mark.start_s, mark.end_s) == (60, 90.5)


def test_from_the_first_to_the_last_piece_with_a_mark(tmp_path):
    path = write(tmp_path / "a.wav", 100, loud=(5, 65))
    [mark] = read_marks(WatermarkSearch((Loud(),), {}), path)
    assert (mark.start_s, mark.end_s) == (0, 90)


def test_a_recording_without_a_mark(tmp_path):
    [mark] = read_marks(WatermarkSearch((Loud(),), {}), write(tmp_path / "a.wav", 2))
    assert mark == Watermark("loud", False, pytest.approx(0.01))
    assert mark.entry() == {"detector": "loud", "found": False, "strength": mark.strength}
    assert describe_watermarks([mark]) == ""


def test_what_cannot_be_asked_says_why(tmp_path):
    short, path = write(tmp_path / "a.wav", 0.9), write(tmp_path / "b.wav", 2)
    [mark] = read_marks(WatermarkSearch((Loud(),), {}), short)
    assert mark.found is None and mark.error == "shorter than 1 s"
    good, bad = read_marks(WatermarkSearch((Loud(), Failing()), {}), path)
    assert good.found is False
    assert bad.found is None and bad.error == "failing failed: no such kernel"
    [mark] = read_marks(WatermarkSearch((Loud(),), {}), str(tmp_path / "missing.wav"))
    assert mark.found is None and "missing.wav" in mark.error


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_small_network(tmp_path / "net.pt")
    for name, level in (("a", 0.3), ("b", 0.9)):
        samples = sound(20000, 1)
        samples *= level / np.abs(samples).max()
        soundfile.write(f"{name}.wav", samples, 16000)
    return tmp_path


class Heard(Loud):
    """The same at 16 kHz, as AudioSeal hears."""

    name = "heard"
    rate = 16000


def test_a_detector_searches_whatever_it_scores(folder, monkeypatch):
    """Files, their bytes and samples, at their own rate or at the package's; opened once."""
    monkeypatch.setattr(searching, "READERS", (Loud, Heard, Missing))
    detector = Detector("net.pt", "cpu")
    path = write(folder / "c.wav", 2, loud=(1,))
    samples, rate = soundfile.read(path)
    expected = [Watermark("loud", True, pytest.approx(0.9), "2a", 0.0, 2.0)]
    # At twice the rate the peak is where it was, less what the filter takes of it.
    expected.append(Watermark("heard", True, pytest.approx(0.89, abs=0.01), "2a", 0.0, 2.0))
    content = (folder / "c.wav").read_bytes()
    assert detector.find_watermarks(path) == expected
    assert detector.find_watermarks(content) == expected
    assert detector.find_watermarks(samples, rate) == expected
    assert detector.find_watermarks((samples.T, rate)) == expected
    loud, heard = detector._watermarks.readers
    assert loud.heard == 4 * [(2 * RATE, RATE)] and heard.heard == 4 * [(32000, 16000)]
    assert list(detector._watermarks.missing) == ["missing"]
    with pytest.raises(AsdfError, match="there is no file"):
        detector.find_watermarks("missing.wav")


def test_a_search_ends_where_nobody_waits(tmp_path):
    reader = Loud()
    path = write(tmp_path / "a.wav", 90)
    [mark] = read_marks(WatermarkSearch((reader,), {}), path, lambda: len(reader.heard) == 1)
    assert len(reader.heard) == 1 and mark.found is False


def test_the_command_reports_marks_apart_from_scores(folder, capsys, monkeypatch):
    monkeypatch.setattr(searching, "READERS", (Loud, Missing))
    words = ["score", "net.pt", "a.wav", "b.wav", "--device", "cpu", "--csv", "out.csv"]
    assert main(words) == 0
    plain = list(csv.DictReader((folder / "out.csv").open()))
    capsys.readouterr()
    assert main([*words, "--watermarks"]) == 0
    captured = capsys.readouterr()
    first, second = captured.out.splitlines()
    assert "watermark" not in first and "watermark found: loud 0.90, message 2a" in second
    # What a package prints is not among the results.
    assert "loaded" not in captured.out
    assert "searched for by loud, apart from the score; not by missing (not installed: pip" in (
        captured.err
    )
    rows = list(csv.DictReader((folder / "out.csv").open()))
    assert [row["watermark_loud"] for row in rows] == ["no", "yes"]
    assert float(rows[1]["watermark_loud_strength"]) == pytest.approx(0.9, abs=1e-4)
    for row, before in zip(rows, plain, strict=True):
        assert {key: row[key] for key in before} == before
    assert main([*words[:-2], "--watermarks", "--json", "out.json"]) == 0
    document = json.loads((folder / "out.json").read_text())
    assert document["watermarks"]["asked"] == ["loud"]
    assert list(document["watermarks"]["not_asked"]) == ["missing"]
    [mark] = document["recordings"][1]["watermarks"]
    assert mark["found"] is True and mark["message"] == "2a"


def test_without_a_package_the_message_names_all(folder, capsys, monkeypatch):
    monkeypatch.setattr(searching, "READERS", (Missing,))
    assert main(["score", "net.pt", "a.wav", "--watermarks"]) == 2
    errors = capsys.readouterr().err
    assert "needs audioseal, resemble-perth or silentcipher" in errors
    assert "missing: not installed: pip install missing-marks" in errors


def test_perth_finds_its_own_mark(tmp_path):
    """The package itself, whose weights come with it."""
    perth = pytest.importorskip("perth", reason="resemble-perth is not installed")
    if perth.PerthImplicitWatermarker is None:
        pytest.skip("perth lacks a package that it needs")
    speech = (0.3 * sound(3 * 16000, 2)).astype(np.float32)
    marked = perth.PerthImplicitWatermarker().apply_watermark(speech, 16000)
    reader = Perth(torch.device("cpu"))
    for samples, found in ((speech, False), (marked, True)):
        soundfile.write(tmp_path / "a.wav", samples, 16000)
        [mark] = read_marks(WatermarkSearch((reader,), {}), str(tmp_path / "a.wav"))
        assert mark.found is found


def test_audioseal_is_called_as_its_class_wants_it():
    """Its own detector, small and of random weights: the published ones cannot be had here."""
    pytest.importorskip("audioseal", reason="audioseal is not installed")
    from audioseal.libs.audiocraft.modules.seanet import SEANetEncoderKeepDimension
    from audioseal.models import AudioSealDetector

    torch.manual_seed(0)
    encoder = SEANetEncoderKeepDimension(
        output_dim=4, channels=1, dimension=8, n_filters=2, n_residual_layers=1, ratios=[4, 2]
    )
    model = AudioSealDetector(encoder, nbits=16)
    reader = AudioSeal(torch.device("cpu"), model)
    samples = (0.1 * sound(16000, 3)).astype(np.float32)
    with torch.no_grad():
        result, message = model.eval()(torch.from_numpy(samples)[None, None])
    expected = float((result[0, 1] > 0.5).float().mean())
    assert reader.read(samples, 16000).strength == pytest.approx(expected)
    for bias, found in ((-50.0, False), (50.0, True)):
        with torch.no_grad():
            model.detector[-1].bias[1] = bias
        mark = reader.read(samples, 16000)
        assert (mark.found, mark.strength) == (found, float(found))
    bits = (message[0] > 0.5).int().tolist()
    assert mark.message == f"{int(''.join(map(str, bits)), 2):04x}"


def test_silentcipher_answers_as_its_source_says():
    """A stand-in with the dictionary of its `decode_wav`: its weights cannot be had here."""

    class Model:
        def __init__(self):
            self.answer = {"status": False, "messages": [], "confidences": [], "error": "none"}

        def decode_wav(self, samples, rate, phase_shift_decoding):
            assert samples.shape == (16000,) and rate == 16000 and phase_shift_decoding is False
            return self.answer

    model = Model()
    reader = SilentCipher(torch.device("cpu"), model)
    samples = np.zeros(16000, np.float32)
    assert reader.read(samples, 16000) == Mark(False)
    model.answer = {
        "status": True,
        "messages": [[123, 234, 111, 222, 11]],
        "confidences": [0.9],
    }
    assert reader.read(samples, 16000) == Mark(True, 0.9, "7bea6fde0b")

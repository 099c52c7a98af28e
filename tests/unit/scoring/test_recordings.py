"""The same samples get the same score, whatever they come as; what is no recording is refused."""

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
import torch
from numpy.testing import assert_allclose, assert_array_equal

import asdf
from asdf.audio import read_audio
from asdf.errors import AsdfError, UsageError
from asdf.interchange import read_network
from asdf.metrics.calibration import Calibration
from asdf.scoring.recordings import as_recording, as_waveform
from asdf.scoring.scored import Score, Scored
from tests.unit.conftest import sound, write_small_network

NOISE = np.random.default_rng(0).uniform(-0.9, 0.9, (5000, 2))


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
def test_any_rate_is_read_as_a_file_is(tmp_path, rate):
    soundfile.write(tmp_path / "a.wav", NOISE.astype(np.float32), rate, subtype="FLOAT")
    expected = read_audio(tmp_path / "a.wav")
    for array in (NOISE, NOISE.T, NOISE.astype(np.float32)):
        waveform = as_waveform(array, rate)
        assert waveform.dtype == np.float32
        assert_allclose(waveform, expected, atol=1e-6)


def test_integers_have_their_own_full_scale():
    samples = np.array([-32768, 16384, 1], np.int16)
    assert_array_equal(as_waveform(samples, 16000), [-1, 0.5, 2**-15])
    assert_array_equal(as_waveform(np.array([-(2**31), 2**30], np.int32), 16000.0), [-1, 0.5])


@pytest.mark.parametrize("rate", [None, 0, -16000, 16000.5, "fast", float("nan")])
def test_a_rate_is_needed(rate):
    with pytest.raises(UsageError, match="sample_rate in Hz"):
        as_waveform(NOISE[:, 0], rate)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([0.1, np.nan]), "not finite"),
        (np.array([0.1, -np.inf]), "not finite"),
        (np.zeros(0), "no samples"),
        (np.array([0.0, 20000.0]), "full scale of floats is 1"),
        (np.zeros((24, 16000)), "not one recording"),
        (np.zeros((8, 16000)), "may be a batch of utterances"),
        (np.zeros((3, 16000)), r"give channels as \(samples, channels\)"),
        (np.zeros((2, 3, 100)), "not one recording"),
        (np.zeros((2, 2)), "not one recording"),
        (np.array(0.5), "not one recording"),
        (np.zeros(100, np.uint16), "type uint16"),
        (np.array(["a.wav"]), "give floats"),
        (np.zeros(100, complex), "give floats"),
    ],
)
def test_what_cannot_be_meant_is_refused(array, message):
    with pytest.raises(UsageError, match=message):
        as_waveform(array, 16000)


@pytest.fixture(scope="module")
def detector(network_file: Path) -> asdf.Detector:
    return asdf.Detector(network_file, "cpu")


class Endless:
    """A file object that never ends, and counts what was read of it."""

    def __init__(self) -> None:
        self.count = 0

    def read(self, size: int) -> bytes:
        self.count += size
        return bytes(size)


class Unseekable(io.RawIOBase):
    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._content.readinto(memoryview(buffer)[:1000])


@pytest.mark.parametrize("name", ["a.wav", "b.flac", "d.ogg", "e.mp3"])
def test_content_in_memory_scores_as_its_file(detector, recordings, name):
    path = recordings / name
    content = path.read_bytes()
    expected = detector.score_trial(path)
    forms = [content, bytearray(content), memoryview(content), io.BytesIO(content)]
    forms += [Unseekable(content), io.BufferedReader(Unseekable(content))]
    for form in forms:
        score = detector.score_trial(form)
        assert (score, score.seconds) == (expected, expected.seconds), type(form)
    with path.open("rb") as file:
        whole = detector.score_whole(file)
    assert (whole.score, whole.path) == (detector.score_whole(path).score, None)
    assert whole.name == "the recording (BufferedReader)"
    assert detector.score_over_time(content, 0.5, 0.25) == detector.score_over_time(path, 0.5, 0.25)


def test_content_that_only_pyav_decodes_needs_no_file(detector, tmp_path):
    path = tmp_path / "a.m4a"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        stream.layout = "mono"
        samples = sound(16384).astype(np.float32)[None]
        frame = av.AudioFrame.from_ndarray(samples, format="fltp", layout="mono")
        frame.sample_rate = 16000
        for part in (frame, None):
            for packet in stream.encode(part):
                container.mux(packet)
    content = path.read_bytes()
    assert detector.score_trial(content) == detector.score_trial(path)
    assert detector.score_whole(io.BytesIO(content)).score == detector.score_whole(path).score
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_object_is_read_from_where_it_is(detector: asdf.Detector, recordings: Path) -> None:
    content = (recordings / "a.wav").read_bytes()
    file = io.BytesIO(b"head" + content)
    file.seek(4)
    assert detector.score_trial(file) == detector.score_trial(content)
    with pytest.raises(AsdfError, match=r"the recording \(BytesIO\) is empty \(0 bytes\)"):
        detector.score_trial(file)


def test_all_kinds_together(detector: asdf.Detector, recordings: Path) -> None:
    samples = read_audio(recordings / "a.wav")
    content = (recordings / "a.wav").read_bytes()
    mixed = [recordings / "a.wav", content, io.BytesIO(content), (samples, 16000)]
    mixed += [(torch.from_numpy(samples), 16000), b"no sound", (np.full(9000, np.nan), 16000)]
    mixed.append(str(recordings / "a.wav"))
    results = sorted(detector.score_many(iter(mixed)), key=lambda result: result.index)
    assert [result.index for result in results] == list(range(8))
    assert [bool(result.error) for result in results] == [index in (5, 6) for index in range(8)]
    expected = detector.score_trial(recordings / "a.wav")
    for index in (0, 1, 2, 3, 4, 7):
        assert results[index].score == pytest.approx(expected, abs=1e-5)
    kinds = ["1 (bytes)", "2 (BytesIO)", "3 (ndarray)", "4 (Tensor)"]
    assert [result.name for result in results[1:5]] == [f"recording {kind}" for kind in kinds]
    assert [result.path for result in results[:2]] == [recordings / "a.wav", None]
    assert "recording 5 (bytes) is not audio" in results[5].error
    assert "not finite" in results[6].error
    wholes = detector.score_many(mixed[:2], whole=True)
    assert [result.score for result in wholes] == pytest.approx([expected] * 2, abs=1e-5)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, r"recording 1 \(NoneType\) cannot be scored: give a path, the content of"),
        (17, r"recording 1 \(int\) cannot be scored"),
        ({}, r"recording 1 \(dict\) cannot be scored"),
        (np.zeros(9000), r"recording 1 \(ndarray\) needs its sample_rate in Hz"),
        ((np.zeros(9000), "fast"), r"recording 1 \(ndarray\) needs its sample_rate in Hz"),
        ((np.zeros(9000), 1), r"recording 1 \(ndarray\) needs .* from 1,000"),
        ((b"RIFF", 16000), r"recording 1 \(bytes\): sample_rate is for samples"),
        (io.StringIO("RIFF"), r"recording 1 \(StringIO\) returns str instead of bytes. Open it in"),
    ],
)
def test_what_is_no_recording_is_one_error_with_index_and_type(
    detector: asdf.Detector, recordings: Path, value: Any, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        list(detector.score_many([recordings / "a.wav", value]))


def test_several_recordings_where_one_is_expected(detector, recordings):
    path = recordings / "a.wav"
    for several in ([path, str(path)], (str(path), str(path)), [path.read_bytes()]):
        kind = type(several).__name__
        message = rf"the recording \({kind}\): `score_many` scores several"
        with pytest.raises(UsageError, match=message):
            detector.score_trial(several)


def test_file_objects_that_give_no_bytes(detector: asdf.Detector, recordings: Path) -> None:
    class Text:
        def read(self, size: int) -> str:
            return "RIFF"

    class Asynchronous:
        def read(self, size: int) -> None:
            return None

    for file, kind in ((Text(), "str"), (Asynchronous(), "NoneType")):
        with pytest.raises(UsageError, match=f"returns {kind} instead of bytes"):
            detector.score_trial(file)
    closed = io.BytesIO(b"RIFF")
    closed.close()
    with pytest.raises(AsdfError, match=r"the recording \(BytesIO\) cannot be read: I/O operation"):
        detector.score_trial(closed)
    results = list(detector.score_many([closed, recordings / "a.wav"]))
    assert {result.index: bool(result.error) for result in results} == {0: True, 1: False}


def test_two_numbers_are_samples_and_no_pair() -> None:
    recording = as_recording((0.5, 0.25), 16000)
    assert_array_equal(recording.read_whole(), np.array([0.5, 0.25], np.float32))


def test_a_longer_recording_than_the_limit_is_refused_in_any_form(network_file, recordings):
    detector = asdf.Detector(network_file, "cpu", max_seconds=0.4)
    path = recordings / "d.ogg"  # 0.4535 s
    samples, rate = soundfile.read(path)
    message = r"is longer than 0\.4 s, the limit max_seconds"
    for form in (path, path.read_bytes(), (samples, rate)):
        for score in (detector.score, detector.score_whole):
            with pytest.raises(AsdfError, match=message):
                score(form)
        with pytest.raises(AsdfError, match=message):
            detector.score_over_time(form, 0.25, 0.25)
        (result,) = detector.score_many([form])
        assert "the limit max_seconds" in result.error and result.score is None
    assert detector.score_trial(recordings / "a.wav").seconds == 0.375


@pytest.mark.slow
def test_the_memory_of_a_recording_has_a_limit(network_file: Path, tmp_path: Path) -> None:
    samples = sound(40 * 16000)
    soundfile.write(tmp_path / "a.flac", samples, 16000)
    plain = asdf.Detector(network_file, "cpu")
    # The trial is of 8,000 samples, and long recordings are read in parts of 30 s.
    enough = asdf.Detector(network_file, "cpu", memory_limit=2 * 4 * 30 * 16000)
    assert enough.score_trial(tmp_path / "a.flac") == plain.score_trial(tmp_path / "a.flac")
    whole = enough.score_whole(tmp_path / "a.flac")
    assert whole == plain.score_whole(tmp_path / "a.flac")
    assert (whole.windows, whole.seconds_scored) == (80, 40.0)
    less = asdf.Detector(network_file, "cpu", memory_limit=2 * 4 * 30 * 16000 - 1)
    with pytest.raises(AsdfError, match=r"would take 4 MB of memory at once, more than the limit"):
        less.score_whole(tmp_path / "a.flac")
    endless = Endless()
    with pytest.raises(AsdfError, match=r"the recording \(Endless\) holds more than 3,839,999 by"):
        less.score_trial(endless)
    assert endless.count < 3_839_999 + 2**20 + 1


@pytest.mark.parametrize("values", [{"max_seconds": 0}, {"memory_limit": -1}])
def test_limits_are_positive(network_file: Path, values: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="give a positive number"):
        asdf.Detector(network_file, "cpu", **values)


def test_a_score_is_a_number_with_what_is_known_of_it(detector, network_file, recordings):
    score = detector.score_trial(recordings / "a.wav")
    assert isinstance(score, float) and score + 0.0 == float(score) == score.raw
    assert (score.verdict, score.threshold, score.llr, score.embedding) == (None,) * 4
    assert (score.seconds, score.seconds_scored) == (0.375, 0.375)
    assert (score.windows, score.judged) == (1, False)
    assert score.remark == "not judged: 0.38 s are too short (under 0.5 s of speech)"
    for same in (copy.deepcopy(score), pickle.loads(pickle.dumps(score))):
        assert isinstance(same, Score) and (same, vars(same)) == (score, vars(score))
    with pytest.raises(AttributeError):
        score.verdict = "spoof"


@pytest.mark.parametrize("calibrated", [False, True])
def test_verdicts_follow_the_threshold(tmp_path: Path, calibrated: bool) -> None:
    """An LLR of 2 * score - 0.5; bona fide from the threshold on, that score included."""
    entries: dict[str, Any] = {}
    if calibrated:
        entries["calibration"] = Calibration(2.0, -0.5, 1000.0).content()
    path = write_small_network(tmp_path / "network.pt", **entries)
    samples = sound(9000).astype(np.float32)
    plain = asdf.Detector(path, "cpu")
    score = plain.score_trial(samples, 16000)
    if calibrated:
        assert score == score.llr == pytest.approx(2 * score.raw - 0.5)
        assert (score.verdict, score.threshold) == ("spoof", 1000.0)
    for threshold, verdict in ((float(score), "bona fide"), (np.nextafter(score, 1e9), "spoof")):
        detector = asdf.Detector(path, "cpu", threshold=threshold)
        judged = detector.score_trial(samples, 16000)
        assert (judged, judged.verdict, judged.threshold) == (score, verdict, threshold)
        (result,) = detector.score_many([(samples, 16000)])
        for other in (result, detector.score_whole(samples, 16000)):
            assert isinstance(other, Scored) and other.threshold == threshold
            assert (other.llr is None) is not calibrated
        assert result.verdict == verdict
        assert detector.score_trial(np.zeros(9000), 16000).verdict is None
    with pytest.raises(UsageError, match="threshold = nan"):
        asdf.Detector(path, "cpu", threshold=float("nan"))


def test_embeddings_are_those_of_the_network(detector, network_file, recordings):
    network, _ = read_network(network_file)
    waveform = read_audio(recordings / "a.wav")
    with torch.inference_mode():
        expected = network(torch.from_numpy(waveform)[None])[0][0].numpy()
    score = detector.score_trial(recordings / "a.wav", embedding=True)
    assert score == detector.score_trial(recordings / "a.wav")
    assert score.embedding.dtype == np.float32
    assert_allclose(score.embedding, expected, atol=1e-5)
    many = list(detector.score_many([recordings / "c.WAV", recordings / "a.wav"], embedding=True))
    by_index = {result.index: result for result in many}
    assert_allclose(by_index[1].embedding, expected, atol=1e-5)
    assert np.abs(by_index[0].embedding - expected).max() > 1e-3
    samples = np.concatenate([sound(8000, seed) for seed in range(3)])
    whole = detector.score_whole(samples, 16000, embedding=True)
    parts = [detector.score_trial(part, 16000, embedding=True) for part in np.split(samples, 3)]
    assert_allclose(whole.embedding, np.mean([part.embedding for part in parts], 0), atol=1e-5)
    assert detector.score_whole(samples, 16000).embedding is None


def test_entries_are_plain_values(detector: asdf.Detector, recordings: Path) -> None:
    results = {result.index: result for result in detector.score_many([b"x", recordings / "a.wav"])}
    good = results[1]
    sound_of = {
        "seconds": 0.375,
        "seconds_scored": 0.375,
        "level_dbfs": -17.57,
        "offset": -0.023019,
    }
    remark = "not judged: 0.38 s are too short (under 0.5 s of speech)"
    path = str(recordings / "a.wav")
    scored = {"path": path, "score": good.score, "verdict": None}
    assert good.entry() == {**scored, **sound_of, "remark": remark}
    bad = results[0].entry()
    assert bad.pop("error").startswith("recording 0 (bytes) is not audio")
    unknown = dict.fromkeys(("score", "verdict", "seconds", "seconds_scored"))
    assert bad == {"path": "recording 0 (bytes)", **unknown}

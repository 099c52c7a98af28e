"""No recording is judged by its beginning, by silence or by nothing, without a word."""

import logging
import subprocess
import sys
import weakref
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.audio import read_audio, sample_rates
from asdf.errors import AsdfError, UsageError
from asdf.metrics.calibration import Calibration
from asdf.scoring.computing import choose_threads
from asdf.scoring.scored import WindowScore
from asdf.scoring.whole_recording import Tally, Window
from asdf.trials.how_scored import ScoredLength
from tests.unit.conftest import small_settings, sound, write_small_network

MOST = 8000  # samples that the small network hears


@pytest.fixture
def detector(network_file):
    return asdf.Detector(network_file, "cpu")


def parts(samples):
    """Windows of MOST samples; the last ends with the recording."""
    last = len(samples) - MOST
    return [(start, samples[start : start + MOST]) for start in [*range(0, last, MOST), last]]


@pytest.fixture
def long(tmp_path):
    samples = np.concatenate([sound(MOST, seed) for seed in range(3)])[: 2 * MOST + 3000]
    soundfile.write(tmp_path / "long.wav", samples, 16000, subtype="FLOAT")
    return tmp_path / "long.wav"


def test_the_score_is_that_of_the_whole_recording_and_the_trial_score_has_its_name(detector, long):
    whole = detector.score_whole(long)
    for score in (detector.score(long), detector(long)):
        assert float(score) == whole.score and score.windows == whole.windows > 1
        assert score.seconds_scored == whole.seconds_scored == whole.seconds
    trial = detector.score_trial(long)
    assert float(trial) == next(detector.score_many([long])).score != whole.score
    assert trial.windows == 1 and trial.seconds_scored < trial.seconds


def test_the_score_of_a_whole_recording_is_the_mean_over_its_windows(detector, long):
    samples = read_audio(long)
    scores = [detector.score_trial(part, 16000) for _, part in parts(samples)]
    assert len(set(scores)) == 3
    result = detector.score_whole(long)
    assert result.score == pytest.approx(np.mean(scores), abs=1e-5)
    assert result.raw == result.score
    assert (result.seconds, result.seconds_scored) == (19000 / 16000, 19000 / 16000)
    assert (result.windows, result.remark, result.judged) == (3, "", True)
    start = parts(samples)[int(np.argmin(scores))][0]
    lowest = pytest.approx(min(scores), abs=1e-5)
    assert result.lowest == WindowScore(start / 16000, (start + MOST) / 16000, lowest)
    array = detector.score_whole(samples, 16000)
    assert (array.score, array.path) == (pytest.approx(result.score, abs=1e-5), None)


def test_a_detector_in_a_program_shows_no_progress_unless_requested(
    detector, long, capsys, caplog, monkeypatch
):
    monkeypatch.setattr("asdf.runs.log._FIRST_LINES_EVERY_S", 0.0)
    monkeypatch.setattr("asdf.scoring.pipeline._HELD_ON_CPU", MOST)
    caplog.set_level(logging.INFO, "asdf")
    monkeypatch.setattr(logging.getLogger("asdf"), "propagate", True)
    detector.score_whole(long)
    quiet = list(detector.score_many([long], whole=True))
    detector.score_over_time(long, 0.5, 0.25)
    assert caplog.messages == [] and capsys.readouterr() == ("", "")
    assert list(detector.score_many([long], whole=True, progress=True)) == quiet
    shown = [line.split(",")[0] for line in caplog.messages]
    assert shown == ["scoring long.wav: 1 of 3", "scoring long.wav: 2 of 3"]


def test_progress_counts_what_is_computed(detector, network_file, tmp_path, caplog, monkeypatch):
    """Windows are computed in groups: a group counts once all of it has a score."""
    monkeypatch.setattr("asdf.runs.log._FIRST_LINES_EVERY_S", 0.0)
    monkeypatch.setattr(logging.getLogger("asdf"), "propagate", True)
    caplog.set_level(logging.INFO, "asdf")
    path = tmp_path / "longer.wav"
    soundfile.write(path, sound(90 * MOST), 16000)
    together = 2**18 // MOST

    def lines(computed):
        counts = range(together, computed, together)
        return [f"scoring longer.wav: {done} of {computed}" for done in counts]

    def said():
        shown = [line.split(",")[0] for line in caplog.messages]
        caplog.clear()
        return shown

    (result,) = detector.score_many([path], whole=True, progress=True)
    assert result.windows == 90
    assert said() == lines(90)
    # The search for parts takes the scores of the windows that it shares.
    judging = asdf.Detector(network_file, "cpu", threshold=0.0)
    list(judging.score_many([path], whole=True, progress=True))
    assert said() == lines(90) + lines(89)
    detector.score_over_time(path, 0.5, 0.25, progress=True)
    assert said() == lines(179)


def test_a_short_recording_is_one_window(detector, recordings):
    result = detector.score_whole(recordings / "a.wav")
    assert result.score == pytest.approx(detector.score_trial(recordings / "a.wav"), abs=1e-6)
    assert (result.windows, result.lowest) == (1, None)


def test_many_whole_recordings(detector, recordings, long):
    paths = [long, *sorted(recordings.iterdir())]
    results = list(detector.score_many(paths, whole=True))
    assert sorted(result.index for result in results) == list(range(6))
    for result in results:
        expected = detector.score_whole(paths[result.index])
        assert result.score == pytest.approx(expected.score, abs=1e-5)
        assert (result.seconds, result.windows) == (expected.seconds, expected.windows)
    assert max(result.windows for result in results) == 3


def test_of_many_recordings_what_no_frame_reaches_counts_too(tmp_path):
    """Samples after the last whole frame of the network have a level, and belong to parts."""
    settings = small_settings(
        network_class="asdf.networks.SSL_Linear", max_evaluation_utterance_length_in_samples=200_000
    )
    settings.front_end.front_end_class = "log_mel"
    path = write_small_network(tmp_path / "net.pt", settings)
    detector = asdf.Detector(path, "cpu", threshold=1000, speech_check="off")
    samples = sound(130_159).astype(np.float32)
    samples[-150:] = 0.5
    alone = detector.score_whole(samples, 16000)
    [scored] = detector.score_many([(samples, 16000)], whole=True)
    assert (scored.level_dbfs, scored.offset) == (alone.level_dbfs, alone.offset)
    assert [part.end_s for part in scored.parts] == [130_159 / 16000]
    assert scored.parts == alone.parts


def test_a_trial_that_is_a_part_of_its_recording_is_said_so(detector, long, caplog):
    with caplog.at_level(logging.WARNING, "asdf"):
        trial = detector.score_trial(long)
    message = "only the first 0.50 s of 1.19 s are scored"
    assert caplog.messages == [f"{long}: {message}"]
    (result,) = detector.score_many([long])
    assert (result.score, result.remark) == (pytest.approx(trial, abs=1e-5), message)
    assert (result.seconds, result.seconds_scored, result.judged) == (19000 / 16000, 0.5, True)
    caplog.clear()
    exact = read_audio(long)[:MOST]
    assert detector.score_trial(exact, 16000) == pytest.approx(trial, abs=1e-5)
    assert caplog.messages == []
    detector.score_trial(read_audio(long), 16000)
    assert caplog.messages == [f"the recording (ndarray): {message}"]


@pytest.mark.parametrize("level", [0.0, 0.25, "dither"])
def test_silence_has_no_verdict(detector, tmp_path, level):
    samples = np.full(20000, 0.0 if level == "dither" else level)
    if level == "dither":
        samples = np.random.default_rng(0).choice([-2, -1, 0, 1, 2], 20000) / 32768
    soundfile.write(tmp_path / "silence.wav", samples, 16000)
    message = "not judged: digital silence (nothing above -80 dB of full scale)"
    whole = detector.score_whole(tmp_path / "silence.wav")
    assert (whole.judged, whole.remark, whole.speech_share) == (False, message, 1.0)
    assert whole.score is not None
    (trial,) = detector.score_many([tmp_path / "silence.wav"])
    assert not trial.judged
    assert trial.remark == f"{message}; only the first 0.50 s of 1.25 s are scored"


def test_quiet_speech_is_no_silence(detector, tmp_path):
    soundfile.write(tmp_path / "quiet.wav", sound(9000) * 2e-3, 16000, subtype="FLOAT")
    assert detector.score_whole(tmp_path / "quiet.wav").judged


def test_half_a_second_is_the_least_that_is_judged(detector):
    assert detector.score_whole(sound(8000), 16000).remark == ""
    short = detector.score_whole(sound(800), 16000)
    assert short.remark == "not judged: 0.05 s are too short (under 0.5 s of speech)"
    assert not short.judged


def test_silent_windows_do_not_count(detector):
    samples = np.concatenate([sound(MOST, 1), np.zeros(MOST), sound(MOST, 2)])
    loud = [detector.score_trial(part, 16000) for part in (samples[:MOST], samples[2 * MOST :])]
    result = detector.score_whole(samples, 16000)
    assert result.score == pytest.approx(np.mean(loud), abs=1e-5)
    assert (result.windows, result.judged) == (2, True)
    assert result.remark == "1 of 3 windows are digital silence and do not count"
    assert (result.seconds, result.seconds_scored) == (1.5, 1.0)


def test_speech_activity_detection_comes_before_the_windows(tmp_path):
    settings = small_settings()
    settings.sad = replace(settings.sad, mode="endpoint", hangover_s=0.02)
    detector = asdf.Detector(write_small_network(tmp_path / "net.pt", settings), "cpu")
    speech = np.tile(sound(320, 1) + 0.1 * np.sin(np.arange(320)), 50).astype(np.float32)
    samples = np.concatenate([np.zeros(8000, np.float32), speech, np.zeros(8000, np.float32)])
    result = detector.score_whole(samples, 16000)
    assert result.seconds == 2.0
    assert result.seconds_scored == pytest.approx(1.0, abs=0.05)
    soundfile.write(tmp_path / "a.wav", samples, 16000, subtype="FLOAT")
    (many,) = detector.score_many([tmp_path / "a.wav"], whole=True)
    assert (many.score, many.seconds) == (pytest.approx(result.score, abs=1e-5), 2.0)


def test_a_calibrated_whole_score_is_the_llr_of_the_mean(tmp_path, detector, long):
    calibration = Calibration(2.0, -0.5, 0.25)
    path = write_small_network(tmp_path / "c.pt", calibration=calibration.content())
    plain = detector.score_whole(long)
    result = asdf.Detector(path, "cpu").score_whole(long)
    assert (result.raw, result.score) == pytest.approx((plain.raw, 2 * plain.raw - 0.5), abs=1e-5)
    assert result.lowest.score == pytest.approx(2 * plain.lowest.score - 0.5, abs=1e-5)


def test_full_length(tmp_path, network_file, long, recordings):
    detector = asdf.Detector(network_file, "cpu", full_length=True)
    assert detector.length == ScoredLength(16000, 1000000)
    lengths = {"min_evaluation_utterance_length_in_samples": 16000}
    lengths["max_evaluation_utterance_length_in_samples"] = 1000000
    settings = small_settings(**lengths)
    default = asdf.Detector(write_small_network(tmp_path / "default.pt", settings), "cpu")
    for path in (long, recordings / "b.flac"):
        assert detector.score_trial(path) == pytest.approx(default.score_trial(path), abs=1e-6)
    fixed = small_settings(network_class="asdf.networks.SSL_SLS")
    fixed.back_end.sls_samples = 7000
    path = write_small_network(tmp_path / "sls.pt", fixed)
    with pytest.raises(UsageError, match="SSL_SLS only takes recordings of 7,000 samples"):
        asdf.Detector(path, "cpu", full_length=True)
    whole = asdf.Detector(path, "cpu").score_whole(long)
    assert whole.windows == 3


def test_a_long_recording_is_not_held_whole(detector, tmp_path, monkeypatch):
    """Twenty blocks of windows: at no time are more than a few of them in memory."""
    monkeypatch.setattr("asdf.scoring.pipeline._HELD_ON_CPU", 2 * MOST)
    monkeypatch.setattr("asdf.scoring.recordings._BLOCK_S", MOST / 16000)
    soundfile.write(tmp_path / "long.wav", sound(40 * MOST), 16000)
    alive, most = [], 0
    spans = sample_rates.resample

    def counted(span, rate, to):
        nonlocal most
        block = spans(span, rate, to).copy()
        alive.append(weakref.ref(block))
        most = max(most, sum(reference() is not None for reference in alive))
        return block

    monkeypatch.setattr(sample_rates, "resample", counted)
    assert detector.score_whole(tmp_path / "long.wav").windows == 40
    assert len(alive) == 40 and most <= 4


@pytest.mark.slow
def test_threads(network_file):
    """In a separate process: the number is one of the whole process."""
    code = """
import asdf, sys, torch
from asdf.distributed.world import usable_cores
for before, options in ((2, {"threads": 1}), (1, {}), (10**3, {})):
    torch.set_num_threads(before)
    asdf.Detector(sys.argv[1], "cpu", **options)
    print(torch.get_num_threads() if before < 10 else torch.get_num_threads() == usable_cores())
"""
    command = [sys.executable, "-c", code, str(network_file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1", "True"]
    for threads in (0, 100_000):
        with pytest.raises(UsageError, match=f"threads = {threads}: give 1 to 1024, or leave"):
            asdf.Detector(network_file, "cpu", threads=threads)


@pytest.mark.parametrize(
    ("requested", "device", "parameters", "expected"),
    [
        (None, "cpu", 9_999_999, 1),
        (None, "cpu", 10_000_000, 3),
        (None, "cuda", 1000, 3),
        (3, "cpu", 1000, 3),
    ],
)
def test_a_small_network_computes_with_one_thread(requested, device, parameters, expected):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert choose_threads(requested, torch.device(device), parameters) == expected
    finally:
        torch.set_num_threads(before)


def test_the_detector_states_its_threads(network_file):
    assert asdf.Detector(network_file, "cpu").threads == 1
    assert asdf.Detector(network_file, "cpu", threads=2).threads == 2
    torch.set_num_threads(1)


def test_a_file_that_asks_for_too_much_memory_costs_no_other_its_score(
    detector, recordings, monkeypatch
):
    def read(path, *span):
        if str(path).endswith("c.WAV"):
            raise MemoryError
        return read_audio(path, *span)

    monkeypatch.setattr("asdf.audio.speech.read_audio", read)
    results = {result.path.name: result for result in detector.score_many(recordings.iterdir())}
    assert "does not fit into free memory" in results["c.WAV"].error
    assert sum(result.score is not None for result in results.values()) == 4


def test_the_level_and_the_offset_of_what_was_heard(tmp_path):
    """The offset is no level, and windows of silence have no say."""
    rng = np.random.default_rng(0)
    scoring = make_detector(tmp_path, "off").pipeline
    for level, offset in ((0.1, 0.0), (0.01, 0.25), (0.0, -0.5)):
        waveform = (level * rng.standard_normal(50000) + offset).astype(np.float32)
        windows = [scoring.make_piece(each).scored(0.0, {}) for each in (0 * waveform, waveform)]
        level_dbfs, mean = Tally(windows).level_and_offset
        expected = 20 * np.log10(level) if level else -120
        assert level_dbfs == pytest.approx(expected, abs=0.1)
        assert mean == pytest.approx(offset if level else offset / 2, abs=1e-3)


@pytest.mark.parametrize("silent", ["0011", "1100", "1101", "0110", "1111", "0000"])
def test_windows_that_count_are_those_that_are_not_silent_unless_all_are(silent):
    """Windows overlap; those of silence have the lowest scores, and an offset."""
    windows = []
    for number, is_silent in enumerate(map(bool, map(int, silent))):
        rows = {"embedding": np.full(2, number, np.float32)}
        sound_of = np.array([1e-4 * number, 0.5 if is_silent else 0.1 * number])
        raw = -9.0 if is_silent else abs(number - 2.0)
        start = 4 * number
        windows.append(Window(start, start + 8, raw, rows, sound_of, is_silent, number != 2))
    counted = [window for window in windows if not window.silent] or windows
    tally = Tally(windows)
    assert (tally.windows, tally.silent, tally.end) == (4, silent.count("1"), 20)
    assert tally.counted == len(counted) and tally.all_silent == (silent == "1111")
    assert tally.raw == pytest.approx(np.mean([window.raw for window in counted]))
    assert tally.lowest is min(counted, key=lambda window: window.raw)
    heard = {sample for window in counted for sample in range(window.start, window.end)}
    assert tally.covered == len(heard)
    assert tally.speech == sum(each.has_speech and not each.silent for each in windows)
    rows = [window.extras["embedding"] for window in counted]
    assert tally.extras["embedding"].tolist() == pytest.approx(np.mean(rows, axis=0))
    power, offset = np.mean([window.sound for window in counted], axis=0)
    assert tally.level_and_offset == pytest.approx((10 * np.log10(power), offset), abs=0.005)


def make_detector(folder, mode: str) -> asdf.Detector:
    settings = small_settings(max_evaluation_utterance_length_in_samples=6000)
    settings.sad.mode = mode
    return asdf.Detector(write_small_network(folder / "network.pt", settings), "cpu", threads=1)


def waveform(samples: int) -> np.ndarray:
    """A recording with pauses, which are no digital silence."""
    made = sound(samples).astype(np.float32)
    made[samples // 3 : samples // 2] *= 1e-3
    return made


def score_in_pieces(detector, recording, **options):
    scoring = detector.pipeline
    pieces = scoring.cut(recording, **options)
    # Backwards, and one at a time: batches are the caller's.
    scores = [scoring.score([piece])[0] for piece in reversed(pieces.all)][::-1]
    return scoring.conclude(pieces, scores, "a name")


def same(result, expected) -> None:
    for name in ("seconds", "seconds_scored", "windows", "remark", "judged", "verdict"):
        assert getattr(result, name) == getattr(expected, name), name
    assert result.raw == pytest.approx(expected.raw, abs=3e-6)
    assert (result.lowest is None) == (expected.lowest is None)
    if result.lowest:
        assert result.lowest.start_s == expected.lowest.start_s
        assert result.lowest.score == pytest.approx(expected.lowest.score, abs=3e-6)


@pytest.mark.parametrize("mode", ["off", "on"])
@pytest.mark.parametrize("samples", [1000, 6000, 20001])
def test_whole_recordings_trials_and_windows(tmp_path, mode, samples):
    detector = make_detector(tmp_path, mode)
    recording = waveform(samples)
    result, windows = score_in_pieces(detector, recording, window=(0.25, 0.1))
    same(result, detector.score_whole(recording, 16000))
    assert result.name == "a name"
    expected = detector.score_over_time(recording, 0.25, 0.1, sample_rate=16000)
    assert [(w.start_s, w.end_s) for w in windows] == [(w.start_s, w.end_s) for w in expected]
    assert [w.score for w in windows] == pytest.approx([w.score for w in expected], abs=3e-6)
    trial, none = score_in_pieces(detector, recording, whole=False)
    same(trial, detector.score_trial(recording, 16000))
    assert none == []


def test_pieces_of_one_length_fill_a_batch(tmp_path):
    scoring = make_detector(tmp_path, "off").pipeline
    pieces = scoring.cut(waveform(20001))
    starts = (0, 6000, 12000, 14001)
    assert [(each.start, each.end) for each in pieces.scored] == [(s, s + 6000) for s in starts]
    lengths = {scoring.batch_length(piece) for piece in pieces.scored}
    assert len(lengths) == 1
    # A short one is repeated up to the minimum of 4,000 samples.
    short = scoring.cut(waveform(1000)).scored[0]
    assert scoring.batch_length(short) <= 4000 < scoring.batch_length(pieces.scored[0])
    size = scoring.scorer.batch_size(lengths.pop())
    batches = scoring.scorer.plan_batches(np.full(2 * size, 6000))
    assert [len(batch.trials) for batch in batches] == [size, size]


def test_a_recording_in_memory_is_not_copied(tmp_path):
    recording = waveform(20001)
    pieces = make_detector(tmp_path, "off").pipeline.cut(recording, window=(0.25, 0.1))
    assert all(np.shares_memory(piece.waveform, recording) for piece in pieces.all)


def test_what_has_no_score_is_refused(tmp_path):
    scoring = make_detector(tmp_path, "off").pipeline
    pieces = scoring.cut(waveform(5000))
    with pytest.raises(AsdfError, match="not a finite number"):
        scoring.conclude(pieces, [pieces.all[0].scored(float("nan"), {})], "a name")
    with pytest.raises(UsageError, match="this network hears 6,000 samples"):
        scoring.cut(waveform(5000), window=(1.0, 0.5))

"""Where windows lie, and which of them sound spoofed."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

import asdf
from asdf.metrics.calibration import Calibration
from asdf.scoring.columns import Request
from asdf.scoring.parts import PartColumn, PartSearch, make_search, part_window
from asdf.scoring.scored import Score, WindowScore, decide_verdict
from asdf.scoring.whole_recording import count_windows, cut_windows, in_samples
from asdf.trials.how_scored import ScoredLength
from tests.unit.conftest import small_settings, sound, write_small_network


def window_starts(length, window, hop, block=3):
    """Of a recording whose samples are 0, 1, 2, ..., so that a window says where it is from."""
    samples = np.arange(length, dtype=np.float32)
    starts = []
    for start, waveform in cut_windows(np.split(samples, range(block, length, block)), window, hop):
        np.testing.assert_array_equal(waveform, samples[start : start + window])
        starts.append(start)
    return starts


def test_the_last_window_ends_where_the_recording_ends():
    assert window_starts(10, 4, 2) == [0, 2, 4, 6]
    assert window_starts(11, 4, 2) == [0, 2, 4, 6, 7]
    assert window_starts(4, 4, 2) == [0]
    assert window_starts(3, 4, 2) == [0]
    assert in_samples(4, 2) == (64000, 32000)


@given(length=st.integers(1, 500), window=st.integers(1, 60), data=st.data())
def test_how_many_windows_there_will_be_is_known_before_they_are_cut(length, window, data):
    hop = data.draw(st.integers(1, window))
    assert count_windows(length, window, hop) == len(window_starts(length, window, hop))


@given(length=st.integers(1, 500), window=st.integers(1, 60), data=st.data())
def test_every_sample_is_in_a_window(length, window, data):
    hop = data.draw(st.integers(1, window))
    starts = window_starts(length, window, hop, data.draw(st.integers(1, 80)))
    last = max(0, length - window)
    assert starts == [*range(0, last, hop), last]
    covered = {sample for start in starts for sample in range(start, min(start + window, length))}
    assert covered == set(range(length))
    assert len(set(starts)) == len(starts)
    assert all(0 <= start <= max(0, length - window) for start in starts)


HEARD = 8000  # samples that the small network hears
SEARCH = PartSearch(64000, 32000, 0.5)


def windows(*scores: float) -> list[WindowScore]:
    """Windows of 4 s every 2 s."""
    return [WindowScore(2.0 * i, 2.0 * i + 4, score) for i, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "parts"),
    [
        ([1, 1, 1], []),
        # One window alone is more often an error than a splice.
        ([1, 0.4, 1], []),
        # A threshold is the lowest score of bona fide speech, as of whole recordings.
        ([1, 0.5, 0.4, 1], []),
        ([1, 0.4, 0.3, 1], [(2, 8, 0.3)]),
        ([1, 0.4, -3, 0.2, 1], [(2, 10, -3)]),
        # Windows that touch, with a better one between them, are no part.
        ([0, 1, 0, 1, 1, 0], []),
        ([0, -1, 1, -2, 0], [(0, 6, -1), (6, 12, -2)]),
    ],
)
def test_windows_below_the_threshold_are_joined(scores, parts):
    found = SEARCH.find_parts(windows(*scores))
    assert [(part.start_s, part.end_s, part.score) for part in found.parts] == parts
    of_parts = sum(
        any(start <= 2 * i and 2 * i + 4 <= end for start, end, _ in parts)
        for i, score in enumerate(scores)
        if score < 0.5
    )
    assert of_parts + len(found.single) == sum(score < 0.5 for score in scores)


def test_the_worst_part_is_named_first_and_single_windows_are_said():
    scores = [0.0, 0.1, 1, -3, -2, 1, 0.2, 1, -9]
    found = SEARCH.find_parts(windows(*scores))
    words = PartColumn.words(found)
    parts = "2 parts sound spoofed: 0:06-0:12 (lowest -3.0000), 0:00-0:06 (lowest 0.0000)"
    assert words == f"{parts}; 2 single windows below 0.5: 0:16-0:20 (lowest -9.0000)"
    alone = SEARCH.find_parts(windows(1, -1, 1))
    assert PartColumn.words(alone) == "1 single window below 0.5: 0:02-0:06 (lowest -1.0000)"
    assert PartColumn.veto(alone, "bona fide") is None
    assert PartColumn.words(SEARCH.find_parts(windows(1, 1))) == ""


def test_the_number_to_expect_in_genuine_speech_is_that_of_the_error_rate():
    network = Calibration(1.0, 0.0, 0.5, eer=0.08)
    request = Request(network, 0.5, True, ScoredLength(1, 10**6), 10**6)
    column = PartColumn.wanted(request)
    found = column.search.find_parts(windows(*[0.0, 0.0], *[1.0] * 98))
    assert found.searched.expected == 8.0
    alarms = "about 8 of 100 windows of genuine speech would be below it"
    assert found.searched.describe_alarms() == alarms
    assert PartColumn.entry(found)["searched"]["expected"] == 8.0
    # At another threshold the rate is not known.
    for other in (replace(request, threshold=0.7), replace(request, calibration=None)):
        searched = PartColumn.wanted(other).search.searched(100)
        assert searched.expected is None and "expected" not in searched.entry()


def test_a_window_that_is_not_judged_is_in_no_part():
    silent = WindowScore(2, 6, -9, judged=False)
    first, _, last = windows(1, 1, 1)
    assert SEARCH.find_parts([first, silent, last]).parts == ()
    assert SEARCH.find_parts([first, silent, last]).searched.windows == 2


@pytest.mark.parametrize(
    ("score", "threshold", "judged", "has_parts", "verdict"),
    [
        (1.0, 0.0, True, False, "bona fide"),
        (1.0, 0.0, True, True, "mixed"),
        (-1.0, 0.0, True, True, "spoof"),
        (1.0, 0.0, False, True, None),
        (1.0, None, True, True, None),
    ],
)
def test_verdicts(score, threshold, judged, has_parts, verdict):
    found = SEARCH.find_parts(windows(0, 0 if has_parts else 1))
    known = {"values": {"parts": found}, "columns": {"parts": PartColumn}}
    assert decide_verdict(Score(score, threshold=threshold, judged=judged, **known)) == verdict


@pytest.mark.parametrize(
    ("length", "heard", "window"),
    [
        (ScoredLength(16000, 10**6), 10**6, 64000),
        (ScoredLength(64600, 64600), 64600, 64600),
        (ScoredLength(16000, 48000), 48000, 48000),
        (ScoredLength(96000, 10**6), 10**6, 96000),
    ],
)
def test_a_window_is_of_4_s_or_of_the_length_that_the_network_takes(length, heard, window):
    assert part_window(length, heard) == window
    search = make_search(length, heard, 0.0)
    assert (search.window, search.hop) == (window, window // 2)
    assert not search.applies(2 * window) and search.applies(2 * window + 1)


def test_without_a_threshold_nothing_is_searched():
    assert make_search(ScoredLength(1, 64000), 64000, None) is None


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    return write_small_network(tmp_path_factory.mktemp("parts") / "network.pt", small_settings())


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """Three windows and a bit of the small network, of different sounds."""
    samples = np.concatenate([sound(HEARD, seed) for seed in (0, 2, 7, 3)])[: 3 * HEARD + 3000]
    path = tmp_path_factory.mktemp("parts") / "long.wav"
    soundfile.write(path, samples, 16000, subtype="FLOAT")
    return path


def detector_between(network, recording, **options) -> asdf.Detector:
    """A detector whose threshold lies below the recording's score and above some windows'."""
    plain = asdf.Detector(network, "cpu", threads=1)
    scores = [window.score for window in plain.score_over_time(recording, 0.5, 0.25)]
    low = min(map(max, itertools.pairwise(scores)))
    threshold = (low + plain.score_whole(recording).score) / 2
    return asdf.Detector(network, "cpu", threads=1, threshold=threshold, **options)


def expected_parts(detector, recording):
    """Joined windows below the threshold, from `score_over_time`, without `PartSearch`."""
    below = np.zeros(round(1e3 * 30), bool)
    scores = detector.score_over_time(recording, 0.5, 0.25)
    for one, other in itertools.pairwise(scores):
        if max(one.score, other.score) < detector.threshold:
            # Milliseconds.
            below[round(1e3 * one.start_s) : round(1e3 * other.end_s)] = True
    edges = np.flatnonzero(np.diff(below.astype(int), prepend=0))
    return [(start / 1e3, end / 1e3) for start, end in edges.reshape(-1, 2).tolist()]


def test_every_way_of_scoring_finds_the_same_parts(network, recording):
    detector = detector_between(network, recording)
    whole = detector.score_whole(recording)
    assert whole.verdict == "mixed"
    times = [(part.start_s, part.end_s) for part in whole.parts]
    expected = expected_parts(detector, recording)
    assert np.array(times) == pytest.approx(np.array(expected), abs=2e-3)
    [of_many] = detector.score_many([recording], whole=True)
    samples, rate = soundfile.read(recording, dtype="float32")
    pipeline = detector.pipeline
    pieces = pipeline.cut(samples)
    in_pieces, _ = pipeline.conclude(pieces, pipeline.score(pieces.all), "x")
    stream = detector.stream(rate, 0.5, 0.25)
    stream.add(samples)
    stream.finish()
    for result in (of_many, in_pieces, stream.score):
        assert [(part.start_s, part.end_s) for part in result.parts] == times
        scores = [[part.score for part in one.parts] for one in (result, whole)]
        assert scores[0] == pytest.approx(scores[1], abs=3e-6)
        assert result.searched == whole.searched
    assert of_many.verdict == in_pieces.verdict == "mixed"
    assert whole.searched.windows == len(whole.windows_scores) == 6
    assert whole.entry()["parts"] == [part.entry() for part in whole.parts]


def test_a_search_changes_no_score_to_the_last_bit(network, recording):
    detector = detector_between(network, recording)
    without = detector_between(network, recording, parts=False)
    for score in (
        lambda d: d.score_trial(recording),
        lambda d: d.score_whole(recording).score,
        lambda d: next(d.score_many([recording], whole=True)).score,
    ):
        assert score(detector) == score(without)
    plain = without.score_whole(recording)
    assert (plain.verdict, plain.parts, plain.searched) == ("bona fide", (), None)
    assert detector.score_trial(recording).searched is None
    found = detector.score(recording)
    assert (found.verdict, found.parts) == ("mixed", detector.score_whole(recording).parts)
    assert "parts" not in plain.entry()
    assert pickle.loads(pickle.dumps(without)).score_whole(recording).searched is None


def test_windows_of_the_score_are_not_scored_again(network, recording, monkeypatch):
    detector = detector_between(network, recording)
    heard = []
    score = type(detector.pipeline.scorer).score_waveforms

    def count(scorer, waveforms, wanted=()):
        heard.append(len(waveforms))
        return score(scorer, waveforms, wanted)

    monkeypatch.setattr(type(detector.pipeline.scorer), "score_waveforms", count)
    detector.score_whole(recording)
    # 4 windows of the score; of the 6 half a window apart, these are 4.
    assert heard == [4, 2]
    samples, _ = soundfile.read(recording, dtype="float32")
    assert len(detector.pipeline.cut(samples, window=(0.5, 0.25)).all) == 6


def test_digital_silence_is_in_no_part(network, tmp_path):
    samples = np.concatenate([sound(2 * HEARD, 3), np.zeros(3 * HEARD)])
    detector = asdf.Detector(network, "cpu", threads=1, threshold=1e6)
    [part] = detector.score_whole(samples, 16000).parts
    # The window that is half silent counts, those that are silent do not.
    assert (part.start_s, part.end_s) == (0.0, 1.25)


def test_bounds_of_a_calibration_hide_no_part():
    search = PartSearch(window=64000, hop=32000, threshold=-2.5)
    bounded = WindowScore(0.0, 4.0, -2.0, unbounded_llr=-3.0)
    above = WindowScore(2.0, 6.0, -2.0, unbounded_llr=-2.1)
    lower = WindowScore(2.0, 6.0, -2.0, unbounded_llr=-3.5)
    assert search.find_parts([bounded, above]).single == (bounded,)
    [part] = search.find_parts([bounded, lower]).parts
    assert (part.start_s, part.end_s, part.score, part.compared) == (0.0, 6.0, -2.0, -3.5)
    assert above.entry()["unbounded_llr"] == -2.1
    assert "unbounded_llr" not in WindowScore(0.0, 4.0, 1.0).entry()

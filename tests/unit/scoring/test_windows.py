"""Where windows lie, and which of them sound spoofed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

import asdf
from asdf.scoring.parts import PartColumn, Parts, PartSearch, make_search, part_window
from asdf.scoring.scored import Score, WindowScore, decide_verdict
from asdf.scoring.windows import count_windows, cut_windows, in_samples
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
        ([1, 0.4, 1], [(2, 6, 0.4)]),
        # A threshold is the lowest score of bona fide speech, as of whole recordings.
        ([1, 0.5, 1], []),
        ([1, 0.4, -3, 0.2, 1], [(2, 10, -3)]),
        # Windows that touch are one part, others are not.
        ([0, 1, 0, 1, 1, 0], [(0, 8, 0), (10, 14, 0)]),
        ([0, 1, 1, 0], [(0, 4, 0), (6, 10, 0)]),
    ],
)
def test_windows_below_the_threshold_are_joined(scores, parts):
    found = SEARCH.find(windows(*scores))
    assert [(part.start_s, part.end_s, part.score) for part in found] == parts


def test_a_window_that_is_not_judged_is_in_no_part():
    silent = WindowScore(2, 6, -9, judged=False)
    first, _, last = windows(1, 1, 1)
    assert SEARCH.find([first, silent, last]) == ()
    assert SEARCH.describe([first, silent, last]).searched.windows == 2


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
    found = Parts(SEARCH.find(windows(0, 0)) if has_parts else (), SEARCH.searched(2))
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
    samples = np.concatenate([sound(HEARD, seed) for seed in range(4)])[: 3 * HEARD + 3000]
    path = tmp_path_factory.mktemp("parts") / "long.wav"
    soundfile.write(path, samples, 16000, subtype="FLOAT")
    return path


def detector_between(network, recording, **options) -> asdf.Detector:
    """A detector whose threshold lies below the recording's score and above some windows'."""
    plain = asdf.Detector(network, "cpu", threads=1)
    low = min(window.score for window in plain.score_over_time(recording, 0.5, 0.25))
    threshold = (low + plain.score_whole(recording).score) / 2
    return asdf.Detector(network, "cpu", threads=1, threshold=threshold, **options)


def expected_parts(detector, recording):
    """Joined windows below the threshold, from `score_over_time`, without `PartSearch`."""
    below = np.zeros(round(1e3 * 30), bool)
    scores = detector.score_over_time(recording, 0.5, 0.25)
    for window in scores:
        if window.score < detector.threshold:
            # Milliseconds; one more, so that windows that touch are joined.
            below[round(1e3 * window.start_s) : round(1e3 * window.end_s) + 1] = True
    edges = np.flatnonzero(np.diff(below.astype(int)))
    if below[0]:
        edges = np.concatenate([[-1], edges])
    starts = (edges[::2] + 1) / 1e3
    ends = edges[1::2] / 1e3
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def test_every_way_of_scoring_finds_the_same_parts(network, recording):
    detector = detector_between(network, recording)
    whole = detector.score_whole(recording)
    assert whole.verdict == "mixed"
    expected = expected_parts(detector, recording)
    assert [(part.start_s, part.end_s) for part in whole.parts] == [
        (pytest.approx(start, abs=2e-3), pytest.approx(end, abs=2e-3)) for start, end in expected
    ]
    [of_many] = detector.score_many([recording], whole=True)
    samples, rate = soundfile.read(recording, dtype="float32")
    hearing = detector.hearing
    pieces = hearing.cut(samples)
    in_pieces, _ = hearing.conclude(pieces, hearing.score(pieces.all), "x")
    stream = detector.stream(rate, 0.5, 0.25)
    stream.add(samples)
    stream.finish()
    for result in (of_many, in_pieces, stream.score):
        assert [(part.start_s, part.end_s) for part in result.parts] == [
            (part.start_s, part.end_s) for part in whole.parts
        ]
        assert [part.score for part in result.parts] == pytest.approx(
            [part.score for part in whole.parts], abs=3e-6
        )
        assert result.searched == whole.searched
    assert of_many.verdict == in_pieces.verdict == "mixed"
    assert whole.searched.windows == len(whole.windows_scores) == 6
    assert whole.entry()["parts"] == [part.entry() for part in whole.parts]


def test_a_search_changes_no_score_to_the_last_bit(network, recording):
    detector = detector_between(network, recording)
    without = detector_between(network, recording, parts=False)
    for score in (
        lambda d: d.score(recording),
        lambda d: d.score_whole(recording).score,
        lambda d: next(d.score_many([recording], whole=True)).score,
    ):
        assert score(detector) == score(without)
    plain = without.score_whole(recording)
    assert (plain.verdict, plain.parts, plain.searched) == ("bona fide", (), None)
    assert detector.score(recording).searched is None
    assert "parts" not in plain.entry()
    assert pickle.loads(pickle.dumps(without)).score_whole(recording).searched is None


def test_windows_of_the_score_are_not_scored_again(network, recording, monkeypatch):
    detector = detector_between(network, recording)
    heard = []
    score = type(detector.hearing.scorer).score_waveforms

    def count(scorer, waveforms, wanted=()):
        heard.append(len(waveforms))
        return score(scorer, waveforms, wanted)

    monkeypatch.setattr(type(detector.hearing.scorer), "score_waveforms", count)
    detector.score_whole(recording)
    # 4 windows of the score; of the 6 half a window apart, these are 4.
    assert heard == [4, 2]
    samples, _ = soundfile.read(recording, dtype="float32")
    assert len(detector.hearing.cut(samples, window=(0.5, 0.25)).all) == 6


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
    [part] = search.find([bounded, above])
    assert (part.start_s, part.end_s, part.score) == (0.0, 4.0, -2.0)
    assert above.entry()["unbounded_llr"] == -2.1
    assert "unbounded_llr" not in WindowScore(0.0, 4.0, 1.0).entry()

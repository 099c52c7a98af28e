"""Where windows lie, which of them sound spoofed, and a threshold that holds its rate."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

import asdf
from asdf.errors import AsdfError
from asdf.metrics.calibration import Calibration
from asdf.scoring.scored import WindowScore, decide_verdict
from asdf.scoring.windows import (
    PartSearch,
    count_windows,
    cut_windows,
    in_samples,
    learn_window_threshold,
    make_search,
    part_window,
    read_window_threshold,
)
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


WINDOW, HOP = 64000, 32000


def draw(rng, recordings: int, windows: int) -> list[list[float]]:
    """Windows of a recording resemble each other, and have a long tail to the left."""
    rows = []
    for _ in range(recordings):
        own = rng.normal(0, 2)
        rows.append((own - rng.exponential(1, windows) ** 2).tolist())
    return rows


def learn(scores, rate=0.05, highest=np.inf):
    return learn_window_threshold(scores, rate, WINDOW, HOP, highest)


def test_the_threshold_is_a_rank_of_the_lowest_windows():
    scores = [[float(i), i + 10.0] for i in range(39)]
    # floor(0.05 * 40) = 2: the second lowest; one recording is below it.
    learnt = learn(scores)
    assert learnt.threshold == 1.0
    assert learnt.first_below == (0,) + (-1,) * 38
    assert learn(scores, highest=0.5).threshold == 0.5
    assert learn(scores[:19]).threshold == 0.0
    with pytest.raises(AsdfError, match="needs at least 19"):
        learn(scores[:18])
    with pytest.raises(AsdfError, match="needs at least 19"):
        learn([*scores[:18], []])


def test_other_recordings_fall_below_it_at_the_stated_rate():
    rng = np.random.default_rng(0)
    false_alarms = []
    for _ in range(400):
        learnt = learn(draw(rng, 59, 20))
        others = draw(rng, 50, 20)
        false_alarms.append(np.mean([min(row) < learnt.threshold for row in others]))
    # floor(0.05 * 60) / 60 = 0.05; its standard error is 0.029 / sqrt(400), and a bit.
    assert np.mean(false_alarms) == pytest.approx(0.05, abs=0.006)


def test_the_rate_is_counted_in_recordings_of_as_many_windows():
    scores = [[1.0, 1, 1, 1, -5]] * 4 + [[1.0, -5, 1]] * 2 + [[-5.0]] + [[1.0, 1, 1]] * 33
    learnt = learn(scores, rate=0.3, highest=0.0)
    assert learnt.threshold == 0.0
    for windows, below, recordings in [(1, 1, 40), (2, 2, 39), (3, 2, 39), (5, 4, 4)]:
        alarms = learnt.false_alarms(windows)
        assert (alarms.rate, alarms.recordings) == (below / recordings, recordings)
        exact = binomtest(below, recordings, alternative="less").proportion_ci(0.95, "exact")
        assert alarms.at_most == pytest.approx(exact.high, abs=1e-6)
    longer = learn(scores[7:], rate=0.3, highest=0.0).false_alarms(7)
    # 3 windows are the most that it was learnt from; 7 are up to three times as many chances.
    assert longer.rate is None
    assert longer.at_most == pytest.approx(3 * (1 - 0.05 ** (1 / 33)), abs=1e-6)


def test_it_is_stored_as_plain_values_in_the_calibration():
    learnt = learn(draw(np.random.default_rng(1), 40, 3))
    assert read_window_threshold(learnt.content()) == learnt
    calibration = Calibration(1.0, 0.0, 0.5, windows=learnt.content())
    assert calibration.content()["windows"] == learnt.content()
    for name, value in [("counts", []), ("rate", 2), ("threshold", float("nan")), ("hop", "x")]:
        assert read_window_threshold({**learnt.content(), name: value}) is None
    assert read_window_threshold(None) is None


def test_a_search_uses_it_for_its_own_windows_alone():
    learnt = learn(draw(np.random.default_rng(1), 40, 3))
    search = make_search(ScoredLength(1, 10**6), 10**6, 0.5, learnt)
    assert search.threshold == learnt.threshold
    assert search.searched(3).false_alarms == learnt.false_alarms(3)
    assert search.searched(0).false_alarms is None
    assert search.with_windows(WINDOW, HOP // 2).searched(3).false_alarms is None
    published = ScoredLength(64600, 64600)
    assert make_search(published, 64600, 0.5, learnt) == PartSearch(64600, 32300, 0.5)


def test_words_say_the_rate_and_its_bound():
    # 2 of 39: Clopper and Pearson's one-sided bound, by scipy.
    learnt = learn([[float(i), 100.0, 100.0] for i in range(39)])
    assert learnt.describe() == (
        "windows are compared with 1: at most 5 % of genuine recordings of 3 windows, like the "
        "39 that it was learnt from, have one below it"
    )
    highest = binomtest(1, 39, alternative="less").proportion_ci(0.95).high
    assert learnt.false_alarms(3).describe() == (
        "of 39 genuine recordings of this length, 2.6 % have one "
        f"(95 % bound: at most {100 * highest:.2g} %)"
    )
    longer = learnt.false_alarms(6).describe()
    assert longer.startswith(f"of genuine recordings of this length, at most {200 * highest:.2g} %")
    searched = PartSearch(WINDOW, HOP, 1.0, learnt).searched(3)
    assert searched.describe().startswith("3 windows of 4 s were compared with 1: of 39 genuine")
    alone = PartSearch(WINDOW, HOP, 1.0).searched(3).describe()
    expected = "3 windows of 4 s were compared with 1: each is one more chance of a false alarm"
    assert alone == expected


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
    assert SEARCH.describe([first, silent, last])["searched"].windows == 2


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
    assert decide_verdict(score, threshold, judged, has_parts) == verdict


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

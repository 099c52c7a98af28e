"""A threshold for windows that holds its rate."""

import numpy as np
import pytest
from scipy.stats import binomtest

from asdf.errors import AsdfError
from asdf.extras.forensic.calibrating.learning import learn_window_threshold
from asdf.metrics.calibration import Calibration
from asdf.scoring.parts import PartSearch, make_search, read_window_threshold
from asdf.trials.how_scored import ScoredLength

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

"""The competence of detectors: the test against scipy's, and what is excluded."""

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from asdf.evaluation import Scores, eer
from asdf.tasks.panels.competence import measure_competence
from asdf.tasks.panels.competence_table import competence_lines, competence_record

LABELS = np.repeat([1, 0], [30, 40])
DISTANCES = {"good": 1.5, "weak": 0.5, "chance": 0.0, "turned": -1.5}


def draw(steps=None):
    """Return the scores of four detectors, in steps where these are requested."""
    rng = np.random.default_rng(3)
    ids = [f"{index}" for index in range(LABELS.size)]
    systems = []
    for distance in DISTANCES.values():
        scores = rng.normal(size=LABELS.size) + distance * LABELS
        if steps:
            scores = np.round(scores * steps) / steps
        systems.append(Scores(ids, LABELS, scores))
    return systems


def independent_p(bona_fide, spoof):
    test = mannwhitneyu(bona_fide, spoof, alternative="greater", method="asymptotic")
    return test.pvalue


@pytest.mark.parametrize("steps", [None, 2])
def test_p_values_are_those_of_scipy_times_the_tests_that_are_left(steps):
    systems = draw(steps)
    known = measure_competence(systems, list(DISTANCES), replicates=50)
    alone = [independent_p(system.bona_fide, system.spoof) for system in systems]
    expected = np.empty(4)
    highest = 0.0
    # Holm's method, written out: the smallest p counts four times, the next one three times.
    for rank, index in enumerate(np.argsort(alone)):
        highest = max(highest, min(1, (4 - rank) * alone[index]))
        expected[index] = highest
    np.testing.assert_allclose([one.p_value for one in known], expected, rtol=1e-9)
    assert [one.is_member for one in known] == (expected < 0.05).tolist()
    assert [one.is_turned for one in known] == [False, False, False, True]
    for one, system in zip(known, systems, strict=True):
        assert one.eer.value == eer(system.bona_fide, system.spoof)[0]
        assert one.eer.low <= one.eer.value <= one.eer.high


def test_where_speakers_are_known_a_mean_of_each_is_ranked():
    systems = draw()
    speakers = [f"s{index % 9}" for index in range(LABELS.size)]
    known = measure_competence(systems, list(DISTANCES), speakers, replicates=50)
    alone = []
    for system in systems:
        means = {1: [], 0: []}
        for label in means:
            for speaker in sorted(set(speakers)):
                chosen = [
                    score
                    for score, own, other in zip(
                        system.scores, system.labels, speakers, strict=True
                    )
                    if own == label and other == speaker
                ]
                means[label].append(np.mean(chosen))
        assert len(means[1]) == len(means[0]) == 9
        alone.append(independent_p(means[1], means[0]))
    assert known[0].p_value == pytest.approx(min(4 * alone[0], 1), rel=1e-9)
    over_trials = measure_competence(systems, list(DISTANCES), replicates=50)
    assert known[0].p_value > over_trials[0].p_value


def test_two_speakers_show_nothing_however_many_their_recordings_are():
    systems = draw()
    speakers = [f"s{index % 2}" for index in range(LABELS.size)]
    known = measure_competence(systems, list(DISTANCES), speakers, replicates=50)
    assert not any(one.is_member for one in known)


def test_the_level_decides():
    systems = draw()
    names = list(DISTANCES)
    p_value = measure_competence(systems, names, replicates=50)[0].p_value
    for level, is_member in ((p_value / 2, False), (p_value * 2, True)):
        known = measure_competence(systems, names, level=level, replicates=50)
        assert known[0].is_member is is_member


@pytest.mark.slow
def test_the_false_alarms_of_the_test_are_below_its_level():
    rng = np.random.default_rng(11)
    ids = [f"{index}" for index in range(40)]
    labels = np.arange(40) % 2
    runs = 200
    wrong = 0
    for _ in range(runs):
        systems = [Scores(ids, labels, rng.normal(size=40)) for _ in range(5)]
        known = measure_competence(systems, list("abcde"), replicates=20)
        wrong += any(one.is_member for one in known)
    # 5 % of the runs, and the two-sided 99.9 % of a binomial of so many.
    assert wrong <= runs * 0.05 + 3.3 * np.sqrt(runs * 0.05 * 0.95)


def test_text_and_values_say_the_same():
    known = measure_competence(draw(), list(DISTANCES), replicates=50)
    text = "\n".join(competence_lines(known, 0.05, 9))
    assert "inverted: excluded" in text and "over 9 speakers" in text
    assert "not better than chance: excluded" in text and "corrected for 4 detectors" in text
    record = competence_record(known)
    assert [row["name"] for row in record] == list(DISTANCES)
    assert record[0]["eer"] == known[0].eer.value and record[0]["member"] is True
    assert record[3]["turned"] is True

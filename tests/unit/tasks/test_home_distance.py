"""The Fréchet distance against its definition, and how far sets are from a training set."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from asdf.errors import AsdfError
from asdf.tasks.embeddings.home_distance import frechet_distance, measure_distance

RNG = np.random.default_rng(1)


def test_the_distance_is_that_of_the_definition():
    first = RNG.normal(size=(300, 5)) @ RNG.normal(size=(5, 5))
    second = RNG.normal(0.3, 1.5, size=(200, 5)) @ RNG.normal(size=(5, 5))
    c1, c2 = np.cov(first.T), np.cov(second.T)
    mean = first.mean(axis=0) - second.mean(axis=0)
    expected = mean @ mean + np.trace(c1 + c2 - 2 * sqrtm(c1 @ c2).real)
    assert frechet_distance(first, second) == pytest.approx(expected, rel=1e-9)


def test_two_points_by_hand():
    """One dimension: (m1 - m2)^2 + (s1 - s2)^2; the variances are 2 and 18."""
    first = np.array([[-1.0], [1.0]])
    second = np.array([[0.0], [6.0]])
    expected = 3**2 + (np.sqrt(18) - np.sqrt(2)) ** 2
    assert frechet_distance(first, second) == pytest.approx(expected, rel=1e-12)
    assert frechet_distance(first, first) == pytest.approx(0, abs=1e-12)


def test_the_same_distribution_is_near_and_others_are_far():
    training = RNG.normal(size=(400, 8))
    near = measure_distance(training, RNG.normal(size=(150, 8)), draws=60)
    assert not near.is_far and near.recordings == 150 and near.axes == 8
    assert near.value == pytest.approx(near.home, rel=0.6)
    moved = measure_distance(training, RNG.normal(0.8, 1, size=(150, 8)), draws=60)
    assert moved.is_far
    # The squared distance of the means is 8 * 0.64.
    assert moved.value - moved.home == pytest.approx(5.12, rel=0.25)


MOVED = RNG.normal(0.8, 1, size=(150, 8))


def test_the_same_seed_gives_the_same_numbers():
    training = RNG.normal(size=(200, 8))
    first = measure_distance(training, MOVED, draws=40)
    assert first == measure_distance(training, MOVED, draws=40)
    assert first != measure_distance(training, MOVED, draws=40, seed=1)


def test_a_direction_that_the_training_set_never_took_counts():
    training = np.zeros((200, 40))
    training[:, :3] = RNG.normal(size=(200, 3))
    new = np.zeros((100, 40))
    new[:, :3] = RNG.normal(size=(100, 3))
    assert not measure_distance(training, new, draws=40).is_far
    new[:, 39] = 3
    assert measure_distance(training, new, draws=40).is_far


def test_speakers_are_held_out_together():
    """Ten speakers who differ much: new ones are near, drawn by recordings far."""
    speakers = [f"s{index % 10}" for index in range(300)]
    voices = RNG.normal(0, 3, size=(20, 4))
    training = voices[np.arange(300) % 10] + RNG.normal(0, 0.3, size=(300, 4))
    new = voices[10 + np.arange(300) % 10] + RNG.normal(0, 0.3, size=(300, 4))
    names = [f"t{index % 10}" for index in range(300)]
    by_speakers = measure_distance(
        training, new, training_speakers=speakers, new_speakers=names, draws=60
    )
    assert by_speakers.by_speakers and not by_speakers.is_far
    assert measure_distance(training, new, draws=60).is_far


@pytest.mark.parametrize(
    ("training", "new", "message"),
    [((100, 4), (100, 5), "of different networks"), ((100, 4), (10, 4), "too few")],
)
def test_what_cannot_be_compared_is_refused(training, new, message):
    with pytest.raises(AsdfError, match=message):
        measure_distance(np.zeros(training), np.zeros(new))

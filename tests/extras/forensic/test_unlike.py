"""What is unlike a calibration's set: distances, the limit, and its rate on other recordings."""

import json

import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis

from asdf.errors import AsdfError
from asdf.extras.forensic.unlike import UnlikeColumn, fit_cluster, learn_region, read_region
from asdf.metrics.calibration import Calibration, read_calibration
from asdf.metrics.intervals import exact_bounds
from asdf.scoring.columns import Heard, Request

NUMBERS = 12


def draw(rng: np.random.Generator, count: int, mean: float = 0.0) -> np.ndarray:
    """Embeddings with correlated numbers and long tails."""
    mixed = np.random.default_rng(9).normal(0, 1, (NUMBERS, NUMBERS))
    return mean + rng.standard_t(5, (count, NUMBERS)) @ mixed


def make_set(rng, genuine: int, spoofs: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = np.concatenate([draw(rng, genuine), draw(rng, spoofs, 30.0)])
    labels = np.repeat([1, 0], [genuine, spoofs])
    return values, labels, np.arange(len(labels)) % 10


def test_a_distance_is_that_of_the_covariance_written_out():
    rows = draw(np.random.default_rng(0), 60)
    cluster = fit_cluster(rows)
    variances, directions = np.linalg.eigh(np.cov(rows.T, bias=True))
    order = np.argsort(-variances)
    kept = directions[:, order[:8]]
    rest = variances[order[8:]].mean()
    covariance = kept @ np.diag(variances[order[:8]] - rest) @ kept.T + rest * np.eye(NUMBERS)
    others = draw(np.random.default_rng(1), 5)
    for row, distance in zip(others, cluster.distances(others), strict=True):
        expected = mahalanobis(row, rows.mean(axis=0), np.linalg.inv(covariance))
        assert distance == pytest.approx(expected, rel=1e-9)


def test_the_limit_is_a_rank_of_held_out_genuine_recordings():
    """By hand: each fold is left out of both classes, and of 39 the second largest is taken."""
    values, labels, folds = make_set(np.random.default_rng(2), 39)
    region = learn_region(values, labels, folds, 0.05, "trials")
    held_out = np.empty(39)
    for fold in range(10):
        rest = folds != fold
        classes = [fit_cluster(values[rest & (labels == label)]) for label in (1, 0)]
        mine = np.flatnonzero((folds == fold) & (labels == 1))
        held_out[mine] = np.minimum(*(each.distances(values[mine]) for each in classes))
    # ceil(0.95 * 40) = 38.
    assert region.limit == pytest.approx(np.sort(held_out)[37], rel=1e-12)
    beyond = 0
    for fold in range(10):
        mine = folds[:39] == fold
        others = np.sort(held_out[~mine])
        rank = min(int(np.ceil(0.95 * (len(others) + 1))), len(others))
        beyond += (held_out[mine] > others[rank - 1]).sum()
    assert region.bona_fide_beyond == beyond
    with pytest.raises(AsdfError, match=r"18 genuine recordings are too few.* needs 19"):
        learn_region(*make_set(np.random.default_rng(2), 18), 0.05, "trials")
    with pytest.raises(AsdfError, match="needs 99"):
        learn_region(values, labels, folds, 0.01, "trials")


def test_other_recordings_exceed_it_at_the_stated_rate():
    rng = np.random.default_rng(3)
    rates = []
    stated = []
    for _ in range(60):
        region = learn_region(*make_set(rng, 99), 0.1, "trials")
        rates.append(np.mean([region.distance(row) > 1 for row in draw(rng, 40)]))
        stated.append(region.bona_fide_beyond / region.bona_fide)
    # Each limit is fitted without a tenth of the set, and so a little wide: never above the rate.
    assert 0.06 < np.mean(rates) < 0.11
    assert np.mean(stated) == pytest.approx(0.1, abs=0.02)


def test_spoofs_of_the_set_are_in_the_region_and_others_are_not():
    rng = np.random.default_rng(4)
    region = learn_region(*make_set(rng, 80), 0.05, "speakers")
    assert region.distance(draw(rng, 1, 30.0)[0]) < 1.5
    assert region.spoof_beyond <= 9
    between = region.distance(np.full(NUMBERS, 15.0))
    assert between > 2
    words = region.describe_unlike(between)
    assert words.startswith("unlike the recordings that the calibration was learnt from (distance ")
    assert words.endswith("): its likelihood ratio is not valid for it")
    assert (
        f"{100 * region.bona_fide_beyond / 80:.1f} % of their genuine ones are called so" in words
    )
    # What is no number is like nothing.
    unknown = Heard(0.0, 0.0, rows={"embedding": np.full(NUMBERS, np.nan)})
    assert UnlikeColumn(region, False).add(unknown).unlike
    with pytest.raises(AsdfError, match="calibrate it again"):
        region.distance(np.zeros(NUMBERS + 1))


def test_a_set_of_equal_recordings_has_none():
    values, labels, folds = make_set(np.random.default_rng(5), 40)
    values[:40] = 1.0
    with pytest.raises(AsdfError, match="same embedding"):
        learn_region(values, labels, folds, 0.05, "trials")


def test_a_file_holds_it_and_readers_get_it_without_the_model():
    region = learn_region(*make_set(np.random.default_rng(6), 60), 0.05, "speakers")
    entry = json.loads(json.dumps(region.content()))
    read = read_region(entry)
    row = draw(np.random.default_rng(7), 1)[0]
    assert read.distance(row) == pytest.approx(region.distance(row), rel=1e-5)
    known = Calibration(1.0, 0.0, 0.0, set="s", bona_fide=60, spoof=60, others={"home": entry})
    calibration = read_calibration(known.content(), "x")
    assert calibration.others == {"home": entry}
    assert calibration == Calibration(1.0, 0.0, 0.0, set="s", bona_fide=60, spoof=60)
    assert "home" not in calibration.summary()
    shown = UnlikeColumn.wanted(Request(calibration)).heading()["calibration"]["home"]
    assert "clusters" not in shown
    assert shown["bona_fide_beyond"] == region.bona_fide_beyond
    low, high = exact_bounds(region.bona_fide_beyond, 60)
    assert shown["measured_rate"] == [region.bona_fide_beyond / 60, low, high]


@pytest.mark.parametrize(
    "change",
    [
        {"limit": 0.0},
        {"limit": float("nan")},
        {"rate": 1.0},
        {"bona_fide": 0},
        {"spoof_beyond": 99},
        {"clusters": []},
        {"clusters": [{"mean": [0.0], "directions": [], "variances": [], "rest": 0.0}] * 2},
        {"clusters": [{"mean": ["x"], "directions": [], "variances": [], "rest": 1.0}] * 2},
        {"clusters": [{"mean": [[0.0]], "directions": [], "variances": [], "rest": 1.0}] * 2},
        {"clusters": [{"mean": [0.0], "directions": [1], "variances": [[1]], "rest": 1.0}] * 2},
        {"clusters": 5},
        {"folds_of": "rooms"},
    ],
)
def test_a_damaged_one_is_refused(change):
    region = learn_region(*make_set(np.random.default_rng(6), 60), 0.05, "speakers")
    entry = {**region.content(), **change}
    assert read_region(entry) is None
    calibration = Calibration(1.0, 0.0, 0.0, others={"home": entry})
    with pytest.raises(AsdfError, match=r"the calibration in net\.pt cannot be used"):
        UnlikeColumn.wanted(Request(calibration, source="net.pt"))

"""The optimum of the logistic loss, and what a calibration keeps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asdf.errors import AsdfError
from asdf.evaluation import DetectionCost, act_dcf, cllr, eer
from asdf.metrics.calibration import Calibration, calibrate, eer_threshold, read_calibration
from asdf.metrics.llr_maps import fit_llr


def drawn(seed: int = 0, distance: float = 1.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(distance, 2, 200) * 3 - 7, rng.normal(-distance, 1, 900) * 3 - 7


@pytest.mark.parametrize("size", [1e-6, 1, 1e6])
def test_the_gradient_is_zero(size):
    """Of the loss, written out: the mean log(1 + e^-llr), and of spoofs with the other sign."""
    bona_fide, spoof = (scores * size for scores in drawn())
    scale, offset = fit_llr(bona_fide, spoof)
    wrong_b = 1 / (1 + np.exp(scale * bona_fide + offset))
    wrong_s = 1 / (1 + np.exp(-(scale * spoof + offset)))
    by_scale = np.mean(wrong_s * spoof) - np.mean(wrong_b * bona_fide)
    by_offset = wrong_s.mean() - wrong_b.mean()
    assert scale > 0
    assert abs(by_scale) / size < 1e-11
    assert abs(by_offset) < 1e-11


def test_two_scores_have_a_closed_solution():
    """Three of four bona fide and one of four spoofs score 1: LLR log 3 at 1, and -log 3 at 0."""
    scale, offset = fit_llr([1, 1, 1, 0], [0, 0, 0, 1])
    assert scale == pytest.approx(2 * math.log(3), abs=1e-12)
    assert offset == pytest.approx(-math.log(3), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    distance=st.floats(0.2, 2),
    shift=st.floats(-30, 30),
    size=st.floats(0.01, 100),
)
def test_cllr_never_rises_and_the_eer_stays(seed, distance, shift, size):
    rng = np.random.default_rng(seed)
    bona_fide = size * (rng.normal(distance, 1, 40) + shift)
    spoof = size * (rng.normal(0, 1, 60) + shift)
    if bona_fide.min() >= spoof.max():
        return
    try:
        calibration = calibrate(bona_fide, spoof)
    except AsdfError:
        assert np.mean(bona_fide) <= np.mean(spoof)
        return
    llrs = calibration.llr(bona_fide), calibration.llr(spoof)
    assert cllr(*llrs) <= min(1, cllr(bona_fide, spoof)) + 1e-12
    assert eer(*llrs)[0] == eer(bona_fide, spoof)[0]


def test_scores_without_an_error_claim_no_more_than_their_number():
    bona_fide, spoof = np.linspace(1, 2, 10), np.linspace(-2, -1, 30)
    scale, offset = fit_llr(bona_fide, spoof)
    assert 0 < scale < 20
    llrs = scale * bona_fide + offset, scale * spoof + offset
    # At the optimum both classes' mean posteriors of the wrong class exceed their targets equally.
    wrong = np.mean(1 / (1 + np.exp(llrs[0]))), np.mean(1 / (1 + np.exp(-llrs[1])))
    assert wrong[0] - 1 / 12 == pytest.approx(wrong[1] - 1 / 32, abs=1e-12)
    assert fit_llr([1, 1], [0, 0, 1])[0] > 0


def test_what_cannot_be_calibrated():
    bona_fide, spoof = drawn()
    with pytest.raises(AsdfError, match="do not mean bona fide"):
        fit_llr(spoof, bona_fide)
    with pytest.raises(AsdfError, match="do not mean bona fide"):
        fit_llr([0, 1], [2, 3])
    with pytest.raises(AsdfError, match="all scores are equal"):
        fit_llr([1, 1], [1])
    with pytest.raises(AsdfError, match="no spoof trial"):
        fit_llr([1, 2], [])
    with pytest.raises(AsdfError, match="NaN or infinite"):
        fit_llr([1, np.nan], [0])


def test_the_eer_threshold_has_the_rates_of_the_eer():
    bona_fide, spoof = drawn(3)
    rate, _ = eer(bona_fide, spoof)
    threshold = eer_threshold(bona_fide, spoof)
    missed, accepted = np.mean(bona_fide < threshold), np.mean(spoof >= threshold)
    assert (missed + accepted) / 2 == pytest.approx(rate, abs=1e-12)
    assert abs(missed - accepted) <= 1 / 200
    calibration = calibrate(bona_fide, spoof)
    assert np.mean(calibration.llr(bona_fide) < calibration.threshold) == missed
    assert eer_threshold([2.0, 3.0], [0.0, 1.0]) == 1.5


def test_the_bayes_threshold_of_costs():
    bona_fide, spoof = drawn()
    cost = DetectionCost(spoof_prior=0.2, miss=3, false_alarm=5)
    calibration = calibrate(bona_fide, spoof, cost)
    assert calibration.threshold == pytest.approx(math.log(0.2 * 5 / (0.8 * 3)))
    assert "a missed bona fide costs 3 and an accepted spoof 5" in calibration.describe()
    llrs = calibration.llr(bona_fide), calibration.llr(spoof)
    assert act_dcf(*llrs, cost) < 0.6 < act_dcf(bona_fide, spoof, cost)
    assert (calibration.scale, calibration.offset) == fit_llr(bona_fide, spoof)


def test_it_comes_back_from_a_network_file():
    for costs in ((), (0.05, 1.0, 10.0)):
        calibration = Calibration(1.5, -2.0, 0.25, *costs)
        assert read_calibration(calibration.content(), "net.pt") == calibration
    assert read_calibration(None, "net.pt") is None


def test_an_entry_of_before_is_read_and_written_as_it_was():
    """Bounds, intervals and methods are no part of it."""
    entry = {"scale": 1.5, "offset": -2.0, "threshold": 0.25}
    entry |= dict.fromkeys(("spoof_prior", "miss", "false_alarm"))
    entry |= {"set": "dev", "bona_fide": 80, "spoof": 120}
    calibration = read_calibration(entry, "net.pt")
    assert calibration.content() == entry
    assert list(calibration.content()) == list(entry)
    assert calibration.llr([100.0, -100.0]).tolist() == [148.0, -152.0]
    assert calibration.describe_limit(100.0) == ""
    origin = "calibrated on dev: 80 bona fide and 120 spoofed recordings"
    assert calibration.describe_origin() == origin


def test_llrs_end_at_the_bounds():
    bounds = {"lowest_llr": -3.0, "highest_llr": 4.0}
    calibration = Calibration(2.0, 1.0, 0.0, bona_fide=80, spoof=120, **bounds)
    assert calibration.llr([-9.0, -1.0, 1.0, 9.0]).tolist() == [-3.0, -1.0, 3.0, 4.0]
    assert calibration.unbounded_llr([-9.0, 9.0]).tolist() == [-17.0, 19.0]
    assert calibration.describe_limit(9.0) == "LLR at the limit of what 80 + 120 recordings support"
    assert calibration.describe_limit(1.0) == ""
    assert read_calibration(calibration.content(), "net.pt") == calibration


@pytest.mark.parametrize(
    "change",
    [
        *({"scale": -1.0}, {"scale": "1"}, {"scale": 10**400}, {"offset": math.nan}),
        *({"threshold": None}, {"miss": 1.0}),
        {"lowest_llr": -1.0},
        {"lowest_llr": 1.0, "highest_llr": 2.0},
        {"lowest_llr": -1.0, "highest_llr": math.inf},
        {"method": "guess"},
        {"chose_network": 1},
        {"map_scores": [0.0, 1.0]},
        {"map_scores": [0.0, 1.0], "map_llrs": [1.0, 0.0]},
        {"map_scores": [0.0, 0.0], "map_llrs": [0.0, 1.0]},
        {"map_scores": [0.0, 1.0], "map_llrs": [0.0, 1.0, 2.0]},
        {"map_scores": [0.0], "map_llrs": [0.0]},
        {"map_scores": "ab", "map_llrs": [0.0, 1.0]},
        {1: 2.0},
    ],
)
def test_a_damaged_entry_is_refused(change):
    entry = {**Calibration(1.0, 0.0, 0.0).content(), **change}
    for damaged in (entry, [1]):
        with pytest.raises(AsdfError, match=r"net\.pt cannot be used"):
            read_calibration(damaged, "net.pt")


@pytest.mark.parametrize(("threshold", "supported"), [(-3, False), (-2.9, True), (3, True)])
def test_a_threshold_is_supported_where_ratios_lie_on_both_sides(threshold, supported):
    limited = Calibration(1.0, 0.0, threshold, lowest_llr=-3.0, highest_llr=3.0)
    assert limited.supports_threshold == supported
    assert Calibration(1.0, 0.0, threshold).supports_threshold

"""a-DCF, EERs and tandem metrics of SASV scores: the numbers of the package of ASVspoof 5."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asdf.errors import AsdfError, UsageError
from asdf.metrics.tandem import TANDEM, TandemCost, min_a_dcf
from asdf.tasks.sasv.sasv_files import SasvScores, SasvTrials
from asdf.tasks.sasv.sasv_measures import (
    DRAWN,
    FUSIONS,
    _Bootstrap,
    act_a_dcf,
    bayes_threshold,
    fit_fusion,
    sasv_result,
    summarise_sasv,
    tandem_path,
)
from tests.unit.metrics import official
from tests.unit.metrics.strategies import triples

SIZES = [60, 80, 120]
# What the functions of the evaluation package return for the scores below.
OFFICIAL = {
    "a_dcf": 0.3760714285714286,
    "a_dcf_threshold": 1.46,
    "min_tdcf": 0.47741844496637076,
    "t_eer": 0.1517361111111111,
    "t_eer_asv_threshold": -0.57,
    "t_eer_cm_threshold": -0.02,
    "sasv_eer": 0.16333333333333333,
    "sv_eer": 0.18541666666666667,
    "spf_eer": 0.15,
}


def _trials(sizes=SIZES) -> SasvTrials:
    kinds = np.repeat([0, 1, 2], sizes).astype(np.int8)
    count = kinds.size
    attacks = [f"A{i % 3}" if kind == 2 else "-" for i, kind in enumerate(kinds)]
    codecs = ["c1" if i % 2 else "-" for i in range(count)]
    return SasvTrials(
        [f"S{i % 7}" for i in range(count)],
        [f"U{i}" for i in range(count)],
        kinds,
        {"attack": attacks, "codec": codecs, "lonely": ["x"] + ["y"] * (count - 1)},
    )


@pytest.fixture(scope="module")
def scores() -> SasvScores:
    """Scores in steps of a hundredth, so that ties of all kinds occur."""
    rng = np.random.RandomState(2024)
    asv = np.round(rng.normal(np.repeat([2.0, -1.5, 1.0], SIZES), 1), 2)
    cm = np.round(rng.normal(np.repeat([1.5, 1.5, -1.5], SIZES), 1.2), 2)
    return SasvScores(_trials(), cm=cm, asv=asv, sasv=asv + cm)


def test_the_numbers_of_the_package_of_asvspoof_5(scores):
    result = sasv_result(scores)
    assert (result.target, result.nontarget, result.spoof) == tuple(SIZES)
    for name, value in OFFICIAL.items():
        assert getattr(result, name) == pytest.approx(value, rel=1e-12), name
    assert result.act_a_dcf is None
    # The costs that the package of the a-DCF has by itself, a-DCF1 of its paper.
    first = TandemCost(0.9, 0.05, 0.05, miss=1, false_alarm=10, spoof_false_alarm=20)
    assert sasv_result(scores, first).a_dcf == pytest.approx(0.3277777777777778, rel=1e-12)


def test_what_has_no_scores_is_none(scores):
    alone = sasv_result(SasvScores(scores.trials, sasv=scores.sasv))
    assert alone.a_dcf == sasv_result(scores).a_dcf
    assert (alone.t_eer, alone.min_tdcf, alone.asv_eer, alone.cm_eer) == (None,) * 4
    tandem = sasv_result(SasvScores(scores.trials, cm=scores.cm, asv=scores.asv))
    assert tandem.t_eer == sasv_result(scores).t_eer
    assert (tandem.a_dcf, tandem.sasv_eer) == (None, None)


@settings(max_examples=60, deadline=None)
@given(triples, st.integers(0, 2**32 - 1))
def test_a_replicate_is_the_trials_written_out(kinds, seed):
    """Of blocks and counts come the metrics of the trials that were drawn, ties and all."""
    sizes = [len(kind) for kind in kinds]
    scores = SasvScores(_trials(sizes), sasv=np.concatenate(kinds))
    rng = np.random.default_rng(seed)
    weights = [np.bincount(rng.integers(n, size=n), minlength=n) for n in sizes]
    written = [np.repeat(kind, times) for kind, times in zip(kinds, weights, strict=True)]
    bootstrap = _Bootstrap(scores, TANDEM, sasv_result(scores), None)
    target, nontarget, spoof = (part.tolist() for part in written)
    expected = [
        min_a_dcf(target, nontarget, spoof)[0],
        official.eer(target, nontarget + spoof)[0],
        official.eer(target, nontarget)[0],
        official.eer(target, spoof)[0],
    ]
    a_dcf = (bootstrap._weights @ bootstrap._rates(*weights)).min()
    drawn = [a_dcf, *bootstrap._eers(*weights)]
    assert drawn == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_intervals_over_trials_and_claimed_speakers(scores):
    summary = summarise_sasv("s", scores, replicates=100)
    again = summarise_sasv("s", scores, replicates=100)
    assert summary == again
    assert tuple(summary.intervals) == tuple(summary.speaker_intervals) == DRAWN
    for name, interval in summary.intervals.items():
        assert interval.low < interval.value == getattr(summary.result, name) < interval.high
    assert summary.intervals != summary.speaker_intervals
    alone = SasvTrials(["S"] * 260, scores.trials.utterances, scores.trials.kinds)
    single = summarise_sasv("s", SasvScores(alone, sasv=scores.sasv), replicates=20)
    assert single.speaker_intervals == {}


def test_the_interval_of_the_lowest_cost_takes_its_bias_out(scores):
    """Percentiles of the replicates lie around a cost that is lower than the measured one."""
    summary = summarise_sasv("s", scores, replicates=200)
    bootstrap = _Bootstrap(scores, TANDEM, summary.result, None)
    rng = np.random.default_rng(0)
    lowest = []
    for _ in range(200):
        weights = bootstrap._draw(rng, over_speakers=False)
        lowest.append((bootstrap._weights @ bootstrap._rates(*weights)).min())
    interval = summary.intervals["a_dcf"]
    assert np.mean(lowest) < interval.value
    assert interval.high > np.quantile(lowest, 0.975)
    assert interval.low <= interval.value < (interval.low + interval.high) / 2


def test_conditions(scores):
    summary = summarise_sasv("s", scores, by=("attack", "codec", "lonely"))
    by_attack = [c for c in summary.conditions if c.column == "attack"]
    assert [(c.value, c.result.target, c.result.nontarget, c.result.spoof) for c in by_attack] == [
        ("A0", 60, 80, 40), ("A1", 60, 80, 40), ("A2", 60, 80, 40),
    ]  # fmt: skip
    codecs = [c for c in summary.conditions if c.column == "codec"]
    assert [(c.value, c.result.target, c.result.spoof) for c in codecs] == [
        ("-", 30, 60), ("c1", 30, 60),
    ]  # fmt: skip
    # By hand: the spoofs of A1 with all others.
    chosen = np.array(scores.trials.columns["attack"]) != "A0"
    chosen &= np.array(scores.trials.columns["attack"]) != "A2"
    target, nontarget, spoof = scores.by_kind("sasv", chosen)
    assert by_attack[1].result.a_dcf == min_a_dcf(target, nontarget, spoof)[0]
    assert summary.left_out == {"lonely": ["x"]}


def test_the_path_of_the_t_eer(scores):
    """At a pair of thresholds the tandem's two rates differ less than at any other CM threshold."""
    path = tandem_path(scores)
    assert path.asv_thresholds.shape == path.rates.shape == (261,)
    best = int(np.argmin(path.gaps))
    assert path.concurrent().rate == path.spoof_rates[best]
    asv = scores.by_kind("asv")
    target, nontarget, spoof = scores.by_kind("cm")
    speech = np.concatenate([target, nontarget])
    for index in (40, 100, 180):
        # A threshold of the curves rejects what lies up to it; 9 of 10 of them are not tied here.
        passed = [np.mean(part > path.asv_thresholds[index]) for part in asv]

        def tandem(cm_threshold: float, passed=passed) -> tuple[float, float]:
            speech_passes = np.mean(speech > cm_threshold)
            spoof_passes = np.mean(spoof > cm_threshold)
            miss = 1 - speech_passes * passed[0]
            return miss, (speech_passes * passed[1] + spoof_passes * passed[2]) / 2

        miss, false_alarm = tandem(path.cm_thresholds[index])
        others = [abs(np.subtract(*tandem(t))) for t in np.unique([*speech, *spoof])]
        assert abs(miss - false_alarm) <= min(others) + 0.03
        assert path.rates[index] == pytest.approx((miss + false_alarm) / 2, abs=0.02)


def test_actual_a_dcf_by_hand():
    # With ASVspoof 5's costs impostors weigh .595 and misses .9405.
    assert bayes_threshold(TANDEM) == pytest.approx(np.log(0.595 / 0.9405))
    threshold = bayes_threshold(TANDEM)
    rows = ([threshold, threshold - 1], [threshold, -9.0, -9.0, -9.0], [-9.0, 9.0])
    kinds = tuple(map(np.array, rows))
    paid = 0.9405 * 0.5 + 0.095 * 0.25 + 0.5 * 0.5
    assert act_a_dcf(kinds, TANDEM) == pytest.approx(paid / 0.595)


def test_fusions_by_hand(scores):
    fusion = fit_fusion("nonlinear", scores)
    assert fusion.spoof_share == pytest.approx(0.5 / 0.595)
    asv, cm = np.array([1.0, -2.0]), np.array([0.5, 3.0])
    asv_llr = fusion.asv_scale * asv + fusion.asv_offset
    cm_llr = fusion.cm_scale * cm + fusion.cm_offset
    r = fusion.spoof_share
    expected = -np.log((1 - r) * np.exp(-asv_llr) + r * np.exp(-cm_llr))
    assert fusion.fuse(asv, cm) == pytest.approx(expected)
    assert fit_fusion("linear", scores).fuse(asv, cm) == pytest.approx(asv_llr + cm_llr)
    assert fit_fusion("sum", None).fuse(asv, cm).tolist() == [1.5, 1.0]
    # Without spoofs the fused score is the ASV's alone, without nontargets the CM's.
    for share, llr in ((0.0, asv_llr), (1.0, cm_llr)):
        assert replace(fusion, spoof_share=share).fuse(asv, cm) == pytest.approx(llr)
    # Huge scores do not overflow.
    assert np.isfinite(fusion.fuse(np.array([-1e6, 1e6]), np.array([-1e6, 1e6]))).all()


def test_a_fusion_is_better_than_either_system(scores):
    rng = np.random.default_rng(5)
    asv = rng.normal(np.repeat([2.0, -1.5, 1.0], SIZES), 1)
    cm = rng.normal(np.repeat([1.5, 1.5, -1.5], SIZES), 1.2)
    other = SasvScores(_trials(), cm=cm, asv=asv)
    for kind in FUSIONS:
        fused = sasv_result(fit_fusion(kind, scores).apply(other)).a_dcf
        alone = [sasv_result(SasvScores(_trials(), sasv=values)).a_dcf for values in (asv, cm)]
        assert fused < min(alone)


def test_fusions_that_cannot_be(scores):
    with pytest.raises(UsageError, match="fitted on a development set"):
        fit_fusion("linear", None)
    half = SasvScores(scores.trials, cm=scores.cm)
    with pytest.raises(AsdfError, match="no scores of both systems"):
        fit_fusion("nonlinear", half)
    with pytest.raises(AsdfError, match="needs the scores of both systems"):
        fit_fusion("sum", None).apply(half)
    turned = SasvScores(scores.trials, cm=-scores.cm, asv=scores.asv)
    with pytest.raises(AsdfError, match="CM scores of the development set"):
        fit_fusion("linear", turned)
    with pytest.raises(ValueError, match="'Linear' is not one of"):
        fit_fusion("Linear", scores)
    unlabelled = replace(scores, trials=replace(scores.trials, kinds=None))
    with pytest.raises(AsdfError, match="the kinds of trials are not known"):
        fit_fusion("linear", unlabelled)
    with pytest.raises(ValueError, match="the kinds of the trials are not known"):
        sasv_result(unlabelled)

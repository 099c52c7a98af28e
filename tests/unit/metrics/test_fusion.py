"""Fused scores by hand, ranks of new scores, and what a file of a fusion holds."""

import json

import numpy as np
import pytest
from scipy.stats import rankdata

from asdf.errors import AsdfError, UsageError
from asdf.metrics.fusion import METHODS, Fusion, Ranks, fit_fusion, read_fusion
from asdf.metrics.llr_maps import fit_llr, fit_weights

RNG = np.random.default_rng(2)
LABELS = np.repeat([1, 0], [40, 90]).astype(np.int8)
SCORES = RNG.normal(size=(130, 3)) + LABELS[:, None] * (2, 1, 1.5)
IS_BONA_FIDE = LABELS == 1


def test_logistic_is_the_weighted_sum():
    fusion = fit_fusion("logistic", SCORES, LABELS)
    weights, offset = fit_weights(SCORES[IS_BONA_FIDE], SCORES[~IS_BONA_FIDE])
    assert fusion == Fusion("logistic", tuple(weights), offset)
    np.testing.assert_allclose(fusion.fuse(SCORES), SCORES @ weights + offset, rtol=1e-12)


def test_a_fused_score_does_not_depend_on_the_others():
    for method in METHODS:
        fusion = fit_fusion(method, SCORES, LABELS)
        together = fusion.fuse(SCORES)
        alone = [fusion.fuse(SCORES[index : index + 1])[0] for index in range(130)]
        assert together.tolist() == alone


def test_mean_is_of_calibrated_scores():
    fusion = fit_fusion("mean", SCORES, LABELS)
    llrs = []
    for column in SCORES.T:
        scale, offset = fit_llr(column[IS_BONA_FIDE], column[~IS_BONA_FIDE])
        llrs.append(scale * column + offset)
    np.testing.assert_allclose(fusion.fuse(SCORES), np.mean(llrs, axis=0), rtol=1e-12)


def test_rank_is_the_mean_of_ranks():
    """Of the trials it is fitted to, the ranks are those of scipy, between 0 and 1."""
    rounded = SCORES.round(1)
    expected = [(rankdata(column) - 0.5) / 130 for column in rounded.T]
    fusion = fit_fusion("rank", rounded, LABELS)
    np.testing.assert_allclose(fusion.fuse(rounded), np.mean(expected, axis=0), rtol=1e-12)


def test_ranks_of_new_scores():
    """Of 0, 1, 1, 3 the ranks are 1/8, 1/2, 7/8; between them and beyond them they go on."""
    ranks = Ranks.of(np.array([1.0, 3.0, 0.0, 1.0]))
    assert (ranks.scores, ranks.ranks) == ((0, 1, 3), (0.125, 0.5, 0.875))
    spread = np.std([0, 1, 1, 3])
    np.testing.assert_allclose(ranks.rank(np.array([0.5, 2.0])), [0.3125, 0.6875])
    np.testing.assert_allclose(ranks.rank(np.array([-spread, 3 + spread])), [0.0625, 0.9375])
    values = ranks.rank(np.linspace(-100, 100, 5001))
    assert (np.diff(values) > 0).all() and values[0] > 0 and values[-1] < 1


def test_ranks_of_many_scores_are_interpolated():
    scores = RNG.normal(size=5000)
    ranks = Ranks.of(scores)
    assert len(ranks.scores) == 1024
    np.testing.assert_allclose(ranks.rank(scores), (rankdata(scores) - 0.5) / 5000, atol=2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_a_fusion_comes_back_from_its_file(method):
    fusion = fit_fusion(method, SCORES, LABELS)
    text = json.dumps(fusion.content())
    assert read_fusion(json.loads(text), "fused.json") == fusion


@pytest.mark.parametrize(
    "change",
    [
        {"method": "vote"},
        {"method": ["rank"]},
        {"weights": [10**400, 1, 1]},
        {"offset": 10**400},
        {"weights": []},
        {"weights": [1, float("nan"), 1]},
        {"weights": "abc"},
        {"offset": None},
        {"ranks": []},
        {"ranks": [{"scores": [1, 0], "ranks": [0.1, 0.2], "spread": 1}] * 3},
        {"ranks": [{"scores": [0, 1], "ranks": [0.1, 0.2], "spread": 0}] * 3},
    ],
)
def test_a_damaged_entry_is_refused(change):
    content = {**fit_fusion("rank", SCORES, LABELS).content(), **change}
    for damaged in (content, None, [], "rank"):
        with pytest.raises(AsdfError, match="cannot be used"):
            read_fusion(damaged, "fused.json")


def test_systems_that_cannot_be_fused_are_named():
    constant = SCORES.copy()
    constant[:, 1] = 3
    for method in METHODS:
        with pytest.raises(AsdfError, match="b: all scores are equal"):
            fit_fusion(method, constant, LABELS, ["a", "b", "c"])
    turned = SCORES * (1, 1, -1)
    with pytest.raises(AsdfError, match="c: higher scores do not mean bona fide"):
        fit_fusion("mean", turned, LABELS, ["a", "b", "c"])
    assert fit_fusion("logistic", turned, LABELS).weights[2] < 0
    with pytest.raises(UsageError, match="no fusion 'vote'"):
        fit_fusion("vote", SCORES, LABELS)

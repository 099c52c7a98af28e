"""The values that came out of the official packages, to the last digit that is known of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from asdf.evaluation import (
    AsvScores,
    Scores,
    act_dcf,
    asv_rates,
    by_condition,
    cllr,
    eer,
    evaluate,
    min_cllr,
    min_dcf,
    min_tdcf,
    min_tdcf_legacy,
    read_any_scores,
    read_asv_scores,
)

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "reference" / "scores"


def _normal() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    return rng.normal(1.5, 1, 1000), rng.normal(-1.5, 1, 9000)


TABLE = [
    ([2, 1, 0.5, -0.2], [-1, -2, 0.1, 0.6, -3], 0.225, 0.1, 0.4, 0.4, 0.6363971065),
    ([0, 0, 0], [0, 0, 0], 1, 0, 1, 1, 1),
    ([1, 1, 0, 2], [0, 0, 1, -1], 0.25, 0, 0.725, 0.75, 0.8041972232),
    ([3, 4, 5], [-3, -4, -5], 0, -3, 0, 0, 0.0353232474),
    ([-3, -4, -5], [3, 4, 5], 1, -3, 1, 2.9, 5.8061034109),
    (*_normal(), 0.068, -0.0331548295, 0.1720333333, 0.2214222222, 0.4006625907),
]


@pytest.mark.parametrize(
    ("bona_fide", "spoof", "rate", "threshold", "minimum", "actual", "llr_cost"), TABLE
)
def test_table(bona_fide, spoof, rate, threshold, minimum, actual, llr_cost):
    assert tuple(round(v, 10) for v in eer(bona_fide, spoof)) == (rate, threshold)
    assert round(min_dcf(bona_fide, spoof), 10) == minimum
    assert round(act_dcf(bona_fide, spoof), 10) == actual
    assert round(cllr(bona_fide, spoof), 10) == llr_cost


def test_the_table_through_scores():
    """`evaluate` picks the classes by label, whatever the order of the trials."""
    bona_fide, spoof = _normal()
    mixed = np.random.RandomState(1).permutation(10000)
    labels = np.repeat([1, 0], [1000, 9000])[mixed]
    result = evaluate(
        Scores([f"u{i}" for i in mixed], labels, np.concatenate([bona_fide, spoof])[mixed])
    )
    assert (round(result.eer, 10), round(result.eer_threshold, 10)) == (0.068, -0.0331548295)
    assert (round(result.min_dcf, 10), round(result.act_dcf, 10)) == (0.1720333333, 0.2214222222)
    assert round(result.cllr, 10) == 0.4006625907
    assert (result.bona_fide, result.spoof) == (1000, 9000)


@pytest.fixture(scope="module")
def rawgat() -> Scores:
    if not SHARED.is_dir():
        pytest.skip(
            "the published score files are not next to this checkout (shared/reference/scores)"
        )
    return read_any_scores(SHARED / "asvspoof2019_la_rawgat_mul.txt.gz")


@pytest.fixture(scope="module")
def asv(rawgat: Scores) -> AsvScores:
    return read_asv_scores(SHARED / "asvspoof2019_la_asv_eval.txt.gz")


def test_published_system(rawgat: Scores):
    result = evaluate(rawgat)
    assert f"{100 * result.eer:.9f}" == "1.060134752"
    assert f"{result.min_dcf:.9f}" == "0.029893113"
    assert f"{result.act_dcf:.6f}" == "0.044395"
    assert f"{result.cllr:.6f}" == "0.066252"
    assert (result.bona_fide, result.spoof) == (7355, 63882)
    assert 0 < min_cllr(rawgat.bona_fide, rawgat.spoof) < result.cllr


def test_published_system_by_attack(rawgat: Scores):
    assert rawgat.attacks is not None
    rates = {
        attack: f"{100 * result.eer:.4f}"
        for attack, result in by_condition(rawgat, rawgat.attacks).items()
    }
    assert rates == {
        "A07": "0.3429",
        "A08": "0.5297",
        "A09": "0.0815",
        "A10": "0.3905",
        "A11": "0.2852",
        "A12": "0.3429",
        "A13": "0.3022",
        "A14": "0.2852",
        "A15": "0.2682",
        "A16": "0.8149",
        "A17": "1.7452",
        "A18": "3.0898",
        "A19": "0.7096",
    }


def test_published_tandem(rawgat: Scores, asv: AsvScores):
    rate, threshold = eer(asv.target, asv.nontarget)
    assert (f"{100 * rate:.5f}", f"{threshold:.6f}") == ("2.45778", "-5.680051")
    rates = asv_rates(asv)
    assert f"{min_tdcf_legacy(rawgat.bona_fide, rawgat.spoof, rates):.9f}" == "0.033538947"
    assert f"{min_tdcf(rawgat.bona_fide, rawgat.spoof, rates):.9f}" == "0.094167831"

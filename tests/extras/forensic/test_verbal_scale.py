"""The words of likelihood ratios are those of the guideline's table, row by row."""

import math

import pytest

from asdf.extras.forensic.support import NEITHER, describe_llr
from asdf.metrics.llr_maps import LN10, log10_llr

# The table of the guideline: lowest ratio, ratio below which the next row begins, words.
_TABLE = [
    (2, 10, "weak"),
    (10, 100, "moderate"),
    (100, 1_000, "moderately strong"),
    (1_000, 10_000, "strong"),
    (10_000, 1_000_000, "very strong"),
    (1_000_000, math.inf, "extremely strong"),
]


@pytest.mark.parametrize(("lowest", "end", "words"), _TABLE)
def test_each_row_begins_at_its_limit_in_both_directions(
    lowest: float, end: float, words: str
) -> None:
    last = min(end * 0.999, 1e12)
    for ratio in (lowest, lowest * 1.001, last):
        llr = math.log(ratio)
        assert describe_llr(llr) == f"{words} support for bona fide rather than spoof"
        assert describe_llr(-llr) == f"{words} support for spoof rather than bona fide"
        assert describe_llr(-math.log(1 / ratio)).startswith(f"{words} support")


@pytest.mark.parametrize("ratio", [1.0, 1.5, 1.999, 1 / 1.999])
def test_below_two_neither_is_supported(ratio: float) -> None:
    assert describe_llr(math.log(ratio)) == NEITHER


def test_infinite_ratios_have_words_and_nan_has_none() -> None:
    assert describe_llr(math.inf) == "extremely strong support for bona fide rather than spoof"
    assert describe_llr(-math.inf) == "extremely strong support for spoof rather than bona fide"
    with pytest.raises(ValueError, match="not a number"):
        describe_llr(math.nan)


def test_logarithms_to_the_base_of_ten() -> None:
    assert log10_llr(math.log(370_000)) == pytest.approx(math.log10(370_000))
    assert pytest.approx(2.302585092994046) == LN10

"""Sets that are recognised by their size."""

from __future__ import annotations

import pytest

from asdf.metrics.score_checks import another_subset


@pytest.mark.parametrize(
    ("trials", "what", "published"),
    [
        (181_566, "as many as ASVspoof 2021 LA has in all subsets", "148,176"),
        (16_926, "as many as ASVspoof 2021 LA has in hidden", "148,176"),
        (611_829, "as many as ASVspoof 2021 DF has in all subsets", "533,928"),
        (59_325, "as many as ASVspoof 2021 DF has in progress", "533,928"),
    ],
)
def test_other_subsets_than_published_numbers_are_of(trials, what, published):
    (finding,) = another_subset(trials)
    assert finding.level == "warning"
    assert what in finding.message
    assert f"({published} trials)" in finding.message


@pytest.mark.parametrize("trials", [148_176, 533_928, 71_237, 680_774, 1000])
def test_other_sizes_are_left_in_peace(trials):
    assert another_subset(trials) == []

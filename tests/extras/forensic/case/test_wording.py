"""The sentences of a case say no more than their numbers."""

import math

import pytest

from asdf.extras.forensic.case.wording import propositions, ratio_text
from asdf.metrics.calibration import Calibration


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(1, "1"), (1.26, "1.3"), (9.96, "10"), (67.4, "67"), (1234, "1,200"), (1e20, "10^20")],
)
def test_ratios_have_two_digits(ratio, text):
    assert ratio_text(math.log(ratio)) == text


def test_the_population_is_the_calibration_set():
    calibration = Calibration(1.0, 0.0, 0.0, set="calls", bona_fide=80, spoof=90)
    assert "calls: 80 bona fide and 90 spoofed" in propositions(calibration)["population"]
    assert "does not name" in propositions(Calibration(1.0, 0.0, 0.0))["population"]
    assert "not likelihood ratios" in propositions(None)["population"]

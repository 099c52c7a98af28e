"""Error rates of a validation set at the threshold of a case."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from asdf.extras.forensic.case.examining import validate
from asdf.metrics.calibration import calibrate
from asdf.trials.score_file import Scores


def test_errors_are_counted_before_ratios_are_bounded() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([1, 0], 50)
    scores = Scores([f"r{index}" for index in range(100)], labels, rng.normal(2.0 * labels))
    calibration = replace(
        calibrate(scores.bona_fide, scores.spoof), lowest_llr=-1.0, highest_llr=1.0
    )
    llrs = calibration.unbounded_llr(scores.scores)
    # Above the highest ratio that is claimed, but not above all that decisions are made from.
    threshold = 1.5
    assert np.max(calibration.llr(scores.scores)) < threshold < np.max(llrs[labels == 1])
    known = validate("set", scores, calibration, threshold, None, None, replicates=20)
    assert known.misses is not None and known.false_alarms is not None
    assert known.misses.value == np.mean(llrs[labels == 1] < threshold) < 1
    assert known.false_alarms.value == np.mean(llrs[labels == 0] >= threshold)

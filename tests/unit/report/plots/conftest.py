"""Scores of one system, and its DET curve."""

import numpy as np

from asdf.metrics.detection import DetCurve
from asdf.report.curves import ThinnedCurve, thinned_det

RNG = np.random.default_rng(3)
BONA_FIDE = RNG.normal(1, 1, 400)
SPOOF = RNG.normal(-1, 1, 900)


def curve_of(bona_fide: np.ndarray, spoof: np.ndarray) -> ThinnedCurve:
    return thinned_det(DetCurve.of(bona_fide, spoof))


ONE = {"one": curve_of(BONA_FIDE, SPOOF)}

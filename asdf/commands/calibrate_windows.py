"""`calibrate --windows`: a threshold for windows, learnt from genuine recordings.

Invariant: recordings are searched as by `score`, with the calibrated network itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from asdf.commands.outputs import show
from asdf.errors import AsdfError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from asdf.metrics.calibration import Calibration


def check_windows(named: str | None, rate: float | None) -> None:
    """Refuse an invalid rate, or a rate without recordings to learn from.

    Raises:
        UsageError: it is not between 0 and 1, or --windows is missing.
    """
    if rate is None:
        return
    if named is None:
        raise UsageError("--windows-rate needs --windows with genuine recordings. Give both.")
    if not 0 < rate < 1:
        raise UsageError(f"--windows-rate {rate:g}: give a proportion above 0 and below 1.")


def learn_windows(network: Path, calibration: Calibration, named: str, rate: float) -> Calibration:
    """Return a calibration with a threshold for windows.

    Args:
        network: File of the network, which is already calibrated.
        named: Folder or list of genuine recordings; recordings with label 0 are left out.
        rate: Maximum proportion of recordings with a window below the threshold.

    Raises:
        UsageError: there are no such recordings.
        AsdfError: there are too few recordings, or one cannot be scored.
    """
    from asdf.commands.score_recordings import find_recordings
    from asdf.runs.log import track
    from asdf.scoring.detector import Detector
    from asdf.scoring.window_threshold import learn_window_threshold

    recordings = find_recordings([named])
    labelled = zip(recordings.paths, recordings.labels, strict=True)
    paths = [path for path, label in labelled if label != 0]
    detector = Detector(network)
    search = detector.hearing.summary.search
    # A calibrated network has a threshold, with which it searches for parts.
    assert search is not None
    scores = []
    results = detector.score_many(paths, whole=True)
    for result in track(results, len(paths), "searching", unit="recordings"):
        if result.error:
            raise AsdfError(f"{result.error} It is one of the recordings of --windows {named}.")
        # A window without speech gets no verdict, so it cannot be a false alarm.
        scores.append([window.compared for window in result.windows_scores if window.judged])
    learnt = learn_window_threshold(
        scores, rate, search.window, search.hop, calibration.threshold, detector.sample_rate
    )
    short = len(paths) - len(learnt.counts)
    if short:
        show(f"{short} of {len(paths)} recordings of {named} are too short or have no speech")
    show(learnt.describe())
    return replace(calibration, windows=learnt.content())

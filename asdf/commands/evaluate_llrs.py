"""Plots of likelihood ratios for `evaluate`, with a description of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from asdf.commands.evaluate_options import EvaluateOptions
from asdf.commands.judged_files import Judged
from asdf.errors import AsdfError, UsageError
from asdf.metrics.calibration import Calibration
from asdf.metrics.detection import DetCurve
from asdf.metrics.llr_quality import llr_quality
from asdf.metrics.summary import Summary
from asdf.runs.streams import show_error
from asdf.trials.score_file import Scores


def _calibration_of(path: Path, network: str) -> Calibration:
    """Return the calibration of a network, after checking that a file has its scores.

    Args:
        path: File of the scores.
        network: Path of the network, or its name.

    Raises:
        UsageError: the network is not calibrated.
        AsdfError: the network cannot be read, or the scores are of another one.
    """
    # Imported here because torch takes seconds to import.
    from asdf.interchange import network_digest
    from asdf.scoring.detector import Detector
    from asdf.trials.scored_files import read_how_scored

    # On the CPU: nothing is scored, only the calibration is read.
    detector = Detector(network, "cpu")
    calibration = detector.calibration
    if calibration is None:
        raise UsageError(
            f"--calibration {network}: this network is not calibrated. Calibrate it first: "
            f"python -m asdf calibrate {network} SCORES --output CALIBRATED"
        )
    stated = read_how_scored(path)
    scored_by = None if stated is None else stated.network
    if scored_by is not None and scored_by != network_digest(detector.source):
        raise AsdfError(
            f"the scores in {path} are from another network than {network}, so its calibration "
            f"does not apply to them. Score the list with {network}, or give the network that made "
            "the scores."
        )
    return calibration


def calibrate_file(args: EvaluateOptions, judged: Judged, path: Path) -> Judged:
    """Return scores, and a threshold learnt from such scores, as likelihood ratios.

    Maps are increasing, and bounds clip scores and threshold alike, so decisions stay the same if
    the bounds support the threshold (`Calibration.supports_threshold`).

    Raises:
        UsageError: the network of --calibration is not calibrated.
        AsdfError: the network cannot be read, or the scores are of another one.
    """
    scores, threshold = judged
    calibration = _calibration_of(path, args.calibration or "")
    # A threshold on the command line is a likelihood ratio already.
    if threshold and args.threshold is None:
        value = float(calibration.llr(threshold.value))
        threshold = replace(threshold, value=value)
    llrs = calibration.llr(scores.scores)
    bounded = int(np.count_nonzero(llrs != calibration.unbounded_llr(scores.scores)))
    if bounded:
        show_error(
            f"{bounded:,} of {len(scores):,} likelihood ratios are limited to the range that the "
            "calibration set supports"
        )
    return Judged(Scores.of(scores, llrs), threshold)


def draw_llrs(args: EvaluateOptions, summaries: Sequence[Summary]) -> list[str]:
    """Write the requested plots; return a description of each.

    Warn about scores that are not calibrated ratios: ratios of 1 would be more informative.

    Raises:
        UsageError: matplotlib is not installed, or a suffix is not a plot format.
        AsdfError: a file cannot be written.
    """
    from asdf.report.plots import ece_plot, reliability_plot, save_figure, tippett_plot

    curves = {summary.name: DetCurve.of_scores(summary.scores) for summary in summaries}
    lines = []
    for name, curve in curves.items():
        quality = llr_quality(curve)
        lines.append(f"{name}: {quality.describe()}")
        if quality.cllr > 1:
            show_error(
                f"warning: {name}: Cllr is {quality.cllr:.3f} bits, worse than the 1 bit of "
                "uninformative ratios, so these scores are not calibrated log-likelihood ratios. "
                "Calibrate the network first (python -m asdf calibrate)."
            )
    if args.tippett:
        save_figure(tippett_plot(curves, args.title), args.tippett)
        lines.append(f"written to {args.tippett}: Tippett plot")
    if args.ece:
        save_figure(ece_plot(curves, args.title), args.ece)
        lines.append(f"written to {args.ece}: empirical cross-entropy")
    if args.reliability:
        save_figure(reliability_plot(curves, args.title), args.reliability)
        lines.append(f"written to {args.reliability}: reliability diagram")
    return lines

"""Learning of calibrations for `calibrate`, and their description.

Invariant: methods are compared by the Cllr on held-out trials, with all trials of a speaker held
out together if speakers are known. Windows are searched as by `score`, with the calibrated network
itself.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from asdf.commands.outputs import AMBER, in_colour, show
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.calibration import Calibration, CalibrationSet, calibrate
from asdf.metrics.detection import DetectionCost, cllr, eer, min_cllr
from asdf.metrics.llr_maps import AUTO, LN10, METHODS, log10_llr
from asdf.runs.log import track
from asdf.runs.streams import input_name
from asdf.scoring.parts import WindowThreshold
from asdf.tasks.fusion.gain import calibrated_cllr, make_folds
from asdf.text import as_typed
from asdf.trials.how_scored import in_precision
from asdf.trials.scored_files import how_scored

# Difference of Cllr in bits below which the simplest method is preferred.
_WORTH_IT = 0.005
# Below this number, a single trial moves the rates of a class by several points.
_FEW_TRIALS = 30


@dataclass(frozen=True)
class Learnt:
    """A calibration with the Cllr by which its method was chosen.

    Attributes:
        cllrs: Cross-validated Cllr in bits by method; None for a method that cannot be fitted
            without some fold; empty if there are too few trials or speakers of a class.
    """

    calibration: Calibration
    cllrs: Mapping[str, float | None]


def learn_calibration(
    learnt_from: CalibrationSet, cost: DetectionCost | None = None, method: str = AUTO
) -> Learnt:
    """Learn a calibration with its bounds, its intervals, and a description of its set.

    Args:
        cost: Costs that determine the Bayes threshold; None: the threshold at the EER.
        method: Method of `llr_maps.METHODS`, or 'auto'.

    Raises:
        AsdfError: as `calibrate`.
    """
    scores = learnt_from.scores
    units = learnt_from.speaker_count
    # Cross-validated, for each method.
    cllrs: dict[str, float | None] = {}
    folds = None
    # Too few trials or speakers for folds: without any Cllr, the simplest method is used.
    with suppress(AsdfError):
        folds = make_folds(scores.ids, scores.labels, learnt_from.speakers)
    if folds is not None:
        cllrs = {name: calibrated_cllr(scores, folds, name, units) for name in METHODS}
    if method == AUTO:
        # The simplest method, or one that is sufficiently better than all simpler ones.
        method, lowest = METHODS[0], cllrs.get(METHODS[0])
        for name in METHODS[1:]:
            value = cllrs.get(name)
            if value is not None and (lowest is None or value < lowest - _WORTH_IT):
                method, lowest = name, value
    calibration = calibrate(scores.bona_fide, scores.spoof, cost, method, units)
    return Learnt(learnt_from.describe(calibration, cllrs.get(method)), cllrs)


def describe_learnt(path: Path, learnt_from: CalibrationSet, learnt: Learnt) -> str:
    """Return the lines about a calibration learnt from the score file `path`."""
    calibration = learnt.calibration
    bona_fide, spoof = learnt_from.scores.bona_fide, learnt_from.scores.spoof
    precision = in_precision(how_scored(path).precision)
    where = f" with {learnt_from.where}" if learnt_from.where else ""
    # By unbounded LLRs, as verdicts are decided: bounds must not change a decision.
    missed = (calibration.unbounded_llr(bona_fide) < calibration.threshold).mean()
    accepted = (calibration.unbounded_llr(spoof) >= calibration.threshold).mean()
    lines = [
        f"{input_name(path)}: {bona_fide.size} bona fide, {spoof.size} spoof{where}, "
        f"EER {100 * eer(bona_fide, spoof)[0]:.2f} %{precision}",
        *_describe_map(learnt),
        _describe_costs(learnt_from, calibration),
        _describe_support(calibration),
        calibration.describe(),
        f"on these scores {100 * missed:.2f} % of bona fide trials are rejected and "
        f"{100 * accepted:.2f} % of spoof trials accepted",
        *_describe_doubts(learnt_from, calibration),
    ]
    return "\n".join(lines)


def _describe_map(learnt: Learnt) -> list[str]:
    """Return the map, and the Cllr of each method if they were cross-validated."""
    calibration = learnt.calibration
    scores = calibration.map_scores
    llrs = calibration.map_llrs
    if scores is None or llrs is None:
        lines = [f"LLR = {calibration.scale:.6g} * score {calibration.offset:+.6g}"]
    else:
        lines = [
            f"LLR by {len(scores)} knots, from {llrs[0]:.4g} at a score of {scores[0]:.4g} to "
            f"{llrs[-1]:.4g} at {scores[-1]:.4g}"
        ]
    parts = []
    for method, value in learnt.cllrs.items():
        shown = "cannot be fitted" if value is None else f"{value:.4f}"
        parts.append(f"{method} {shown}")
    if parts:
        lines.append(
            f"method: {calibration.describe_method()}; Cllr in bits, cross-validated by "
            f"{calibration.folds_of}: {', '.join(parts)}"
        )
    return lines


def _describe_costs(learnt_from: CalibrationSet, calibration: Calibration) -> str:
    """Return the Cllr before calibration, on held-out trials, and on the fitted trials."""
    bona_fide, spoof = learnt_from.scores.bona_fide, learnt_from.scores.spoof
    before = cllr(bona_fide, spoof)
    fitted = cllr(calibration.unbounded_llr(bona_fide), calibration.unbounded_llr(spoof))
    folds_of = calibration.folds_of
    if calibration.cross_validated_cllr is None:
        held_out = f"not cross-validated, because a class has too few {folds_of}"
    else:
        note = "" if folds_of == "speakers" else ", because speakers are unknown"
        after = f"{calibration.cross_validated_cllr:.4f} after"
        held_out = f"{after}, cross-validated by {folds_of}{note}"
    return (
        f"Cllr {before:.4f} bits before, {held_out}; "
        f"{fitted:.4f} on the trials that the map was fitted to, where the minimum over increasing "
        f"maps is {min_cllr(bona_fide, spoof):.4f}"
    )


def _describe_support(calibration: Calibration) -> str:
    """Return the bounds and the source of the intervals, in words."""
    lowest = calibration.lowest_llr or 0.0
    highest = calibration.highest_llr or 0.0
    bounds = (
        "LLRs are limited to the range that these recordings support, "
        f"{lowest:.2f} to {highest:.2f} (log10 {log10_llr(lowest):.2f} to {log10_llr(highest):.2f})"
    )
    replicates = calibration.others.get("replicates")
    if replicates is None:
        return f"{bounds}; they have no interval, because most bootstrap draws lack a class"
    count = len(replicates)
    return f"{bounds}; their intervals are from {count} draws of {calibration.folds_of}"


def _describe_doubts(learnt_from: CalibrationSet, calibration: Calibration) -> list[str]:
    """Return a sentence for each reason to doubt the calibration."""
    scores = learnt_from.scores
    doubts = []
    # Perfectly separated classes have no finite best map; the calibration is then bounded.
    if scores.bona_fide.min() >= scores.spoof.max():
        doubts.append(
            "The scores separate the two classes without error, so they do not show how rare "
            "errors are: the LLRs assume an error rate of one trial in all. More trials would give "
            "a better estimate."
        )
    if not calibration.supports_threshold:
        doubts.append(
            f"warning: the threshold, an LLR of {calibration.threshold:.4g}, is outside the range "
            "that these recordings support, so decisions there are an extrapolation. Use more "
            "trials."
        )
    fewest = min(scores.bona_fide.size, scores.spoof.size)
    if learnt_from.where and fewest < _FEW_TRIALS:
        doubts.append(
            f"warning: only {fewest} trials of a class match {learnt_from.where}, so bounds are "
            "narrow and intervals wide. Give more values, or use a larger set."
        )
    if calibration.chose_network:
        doubts.append(
            "warning: this set also chose the network among those of its training, so its error "
            "rates and LLRs are optimistic. Calibrate on a set that chose nothing."
        )
    return doubts


def show_doubt(calibration: Calibration) -> None:
    """Say, in amber on a terminal, that the set supports too little to decide a case."""
    for_bona_fide, for_spoof = calibration.highest_llr or 0.0, -(calibration.lowest_llr or 0.0)
    if max(for_bona_fide, for_spoof) >= LN10:
        return
    text = (
        "warning: with this detector these recordings support no ratio above "
        f"{math.exp(for_bona_fide):.2g} : 1 for bona fide and {math.exp(for_spoof):.2g} : 1 for "
        "spoof, so it cannot decide a case. Use more recordings, or another detector (`python -m "
        "asdf detectors` lists some)."
    )
    print(in_colour(as_typed(text), AMBER, sys.stdout))


def find_searched(network: str, named: str, rate: float) -> list[str]:
    """Return the genuine recordings that a threshold for windows is learnt from.

    Args:
        named: Folder or list of genuine recordings; recordings with label 0 are left out.
        rate: Maximum proportion of recordings with a window below the threshold.

    Raises:
        UsageError: there are no such recordings.
        AsdfError: too few of them are long enough, or one cannot be read.
    """
    from asdf.audio import audio_length
    from asdf.commands.score_recordings import find_recordings
    from asdf.scoring.detector import Detector

    recordings = find_recordings([named])
    labelled = zip(recordings.paths, recordings.labels, strict=True)
    paths = [path for path, label in labelled if label != 0]
    detector = Detector(network, threshold=0.0)
    search, audio = detector.pipeline.summary.search, detector.pipeline.audio
    assert search is not None
    long = []
    for path in paths:
        try:
            if search.applies(audio_length(path, audio)):
                long.append(path)
        except AsdfError as error:
            raise AsdfError(f"{error} It is one of the recordings of --windows {named}.") from None
    _rank(len(long), rate, search.window / detector.sample_rate)
    if len(long) < len(paths):
        show(f"{len(paths) - len(long)} of {len(paths)} recordings of --windows are too short")
    return long


def learn_windows(
    network: str, calibration: Calibration, paths: Sequence[str], rate: float
) -> Calibration:
    """Return a calibration with a threshold for windows.

    Args:
        network: Path or name of the network.
        calibration: Calibration for its windows, which its file does not hold yet.
        paths: Recordings of `find_searched`.
        rate: Maximum proportion of recordings with a window below the threshold.

    Raises:
        AsdfError: there are too few recordings, or one cannot be scored.
    """
    from asdf.audio.recording_sources import Limits
    from asdf.scoring.detector import Detector
    from asdf.scoring.many import ManyRecordings

    detector = Detector(network, threshold=calibration.threshold)
    pipeline = detector.pipeline
    search = pipeline.summary.search
    # With a threshold it searches for parts.
    assert search is not None
    summary = replace(pipeline.summary, calibration=calibration)
    pipeline = replace(pipeline, summary=summary)
    many = ManyRecordings(pipeline, True, False, Limits(), set[int]().__contains__)
    scores = []
    results = many.score(paths)
    for result in track(results, len(paths), "searching", unit="recordings"):
        if result.error:
            raise AsdfError(f"{result.error} It is one of the recordings of --windows.")
        # A window without speech gets no verdict, so it cannot be a false alarm.
        scores.append([window.compared for window in result.windows_scores if window.judged])
    learnt = learn_window_threshold(
        scores, rate, search.window, search.hop, calibration.threshold, detector.sample_rate
    )
    silent = len(paths) - len(learnt.counts)
    if silent:
        show(f"{silent} of {len(paths)} recordings of --windows have no speech")
    show(learnt.describe())
    return replace(calibration, windows=learnt.content())


def _rank(recordings: int, rate: float, window_s: float) -> int:
    """Return the rank of the lowest window that holds a rate.

    Raises:
        AsdfError: there are too few recordings for the rate.
    """
    rank = math.floor(rate * (recordings + 1))
    if rank < 1:
        needed = math.ceil(1 / rate) - 1
        raise AsdfError(
            f"only {recordings} genuine recordings have windows of {window_s:.3g} s with speech: "
            f"a threshold that {100 * rate:g} % of them fall below needs at least {needed}. Name "
            "more recordings that are longer than two windows, or a higher rate."
        )
    return rank


def learn_window_threshold(
    scores: Sequence[Sequence[float]],
    rate: float,
    window: int,
    hop: int,
    highest: float,
    sample_rate: int = SAMPLE_RATE,
) -> WindowThreshold:
    """Learn a threshold from the windows of genuine recordings.

    It is the r-th smallest of the lowest windows, r = floor(rate (n + 1)): the lowest window of
    another recording of the same kind is below it with a probability of at most r / (n + 1).

    Args:
        scores: Reported scores of the windows of each recording.
        window, hop: Length of a window and of the hop, in samples.
        highest: Threshold of recordings, which the learnt threshold does not exceed.
        sample_rate: Sampling rate of the samples, in Hz.

    Raises:
        AsdfError: there are too few recordings for the rate.
    """
    searched = [row for row in scores if len(row)]
    rank = _rank(len(searched), rate, window / sample_rate)
    lowest = sorted(min(row) for row in searched)
    threshold = min(lowest[rank - 1], highest)
    first_below = []
    for row in searched:
        below = [index for index, score in enumerate(row) if score < threshold]
        first_below.append(below[0] if below else -1)
    counts = tuple(len(row) for row in searched)
    return WindowThreshold(threshold, rate, window, hop, counts, tuple(first_below))

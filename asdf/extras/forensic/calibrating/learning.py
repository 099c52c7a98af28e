"""Learning of calibrations for `calibrate`: the set, its trials, and the description of both.

Invariant: methods are compared by the Cllr on held-out trials, with all trials of a speaker held
out together if speakers are known. Windows are searched as by `score`, with the calibrated network
itself.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from asdf.commands.outputs import AMBER, in_colour, show
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.hub import parse_name
from asdf.metrics.calibration import Calibration, CalibrationSet, calibrate
from asdf.metrics.detection import DetectionCost, cllr, eer, min_cllr
from asdf.metrics.llr_maps import AUTO, LN10, METHODS, describe_affine, log10_llr
from asdf.metrics.summary import known_columns, speakers_of
from asdf.runs.evaluations import evaluations_in
from asdf.runs.layout import Layout, NetworkName, corpus_of_file, layout_of_score_file
from asdf.runs.log import track
from asdf.runs.streams import descriptor_of, input_name
from asdf.scoring.parts import WindowThreshold
from asdf.tasks.fusion.gain import calibrated_cllr, make_folds
from asdf.text import and_more, as_typed
from asdf.trials.how_scored import in_precision
from asdf.trials.run_folder import RunFolder, open_run_folder
from asdf.trials.score_file import Scores
from asdf.trials.scored_files import how_scored
from asdf.trials.trial_list import TrialList

# Difference of Cllr in bits below which the simplest method is preferred.
_WORTH_IT = 0.005
# Below this number, a single trial moves the rates of a class by several points.
_FEW_TRIALS = 30
_VALUES_SHOWN = 12


def learn_calibration(
    learnt_from: CalibrationSet, cost: DetectionCost | None = None, method: str = AUTO
) -> tuple[Calibration, dict[str, float | None]]:
    """Learn a calibration with its bounds, its intervals, and a description of its set.

    Args:
        cost: Costs that determine the Bayes threshold; None: the threshold at the EER.
        method: Method of `llr_maps.METHODS`, or 'auto'.

    Returns:
        The calibration, and the cross-validated Cllr in bits by which its method was chosen, by
        method: None if it cannot be fitted without some fold; empty if there are too few trials or
        speakers of a class.

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
    return learnt_from.describe(calibration, cllrs.get(method)), cllrs


def describe_learnt(
    path: Path,
    learnt_from: CalibrationSet,
    calibration: Calibration,
    cllrs: Mapping[str, float | None],
) -> str:
    """Return the lines about a calibration learnt from the score file `path`."""
    bona_fide, spoof = learnt_from.scores.bona_fide, learnt_from.scores.spoof
    precision = in_precision(how_scored(path).precision)
    where = f" with {learnt_from.where}" if learnt_from.where else ""
    lines = [
        f"{input_name(path)}: {bona_fide.size} bona fide, {spoof.size} spoof{where}, "
        f"EER {100 * eer(bona_fide, spoof)[0]:.2f} %{precision}"
    ]
    scores, llrs = calibration.map_scores, calibration.map_llrs
    if scores is None or llrs is None:
        lines.append(f"LLR = {describe_affine(calibration.scale, calibration.offset)}")
    else:
        ends = f"from {llrs[0]:.4g} at a score of {scores[0]:.4g} to {llrs[-1]:.4g} at"
        lines.append(f"LLR by {len(scores)} knots, {ends} {scores[-1]:.4g}")
    folds_of = calibration.folds_of
    parts = [
        f"{method} {'cannot be fitted' if value is None else f'{value:.4f}'}"
        for method, value in cllrs.items()
    ]
    if parts:
        lines.append(
            f"method: {calibration.describe_method()}; Cllr in bits, cross-validated by "
            f"{folds_of}: {', '.join(parts)}"
        )
    held_out = f"not cross-validated, because a class has too few {folds_of}"
    if calibration.cross_validated_cllr is not None:
        note = "" if folds_of == "speakers" else ", because speakers are unknown"
        after = f"{calibration.cross_validated_cllr:.4f} after"
        held_out = f"{after}, cross-validated by {folds_of}{note}"
    # By unbounded LLRs, as verdicts are decided: bounds must not change a decision.
    unbounded = calibration.unbounded_llr(bona_fide), calibration.unbounded_llr(spoof)
    lowest, highest = calibration.lowest_llr or 0.0, calibration.highest_llr or 0.0
    replicates = calibration.others.get("replicates")
    intervals = "they have no interval, because most bootstrap draws lack a class"
    if replicates is not None:
        intervals = f"their intervals are from {len(replicates)} draws of {folds_of}"
    missed = (unbounded[0] < calibration.threshold).mean()
    accepted = (unbounded[1] >= calibration.threshold).mean()
    lines += [
        f"Cllr {cllr(bona_fide, spoof):.4f} bits before, {held_out}; {cllr(*unbounded):.4f} on the "
        "trials that the map was fitted to, where the minimum over increasing maps is "
        f"{min_cllr(bona_fide, spoof):.4f}",
        "LLRs are limited to the range that these recordings support, "
        f"{lowest:.2f} to {highest:.2f} (log10 {log10_llr(lowest):.2f} to "
        f"{log10_llr(highest):.2f}); {intervals}",
        calibration.describe(),
        f"on these scores {100 * missed:.2f} % of bona fide trials are rejected and "
        f"{100 * accepted:.2f} % of spoof trials accepted",
        *doubts(learnt_from, calibration),
    ]
    return "\n".join(lines)


def doubts(learnt_from: CalibrationSet, calibration: Calibration) -> list[str]:
    """Return a sentence for each reason to doubt the calibration."""
    bona_fide, spoof = learnt_from.scores.bona_fide, learnt_from.scores.spoof
    fewest = min(bona_fide.size, spoof.size)
    reasons = {
        # Perfectly separated classes have no finite best map; the calibration is then bounded.
        "The scores separate the two classes without error, so they do not show how rare errors "
        "are: the LLRs assume an error rate of one trial in all. More trials would give a better "
        "estimate.": bona_fide.min() >= spoof.max(),
        f"warning: the threshold, an LLR of {calibration.threshold:.4g}, is outside the range that "
        "these recordings support, so decisions there are an extrapolation. Use more "
        "trials.": not calibration.supports_threshold,
        f"warning: only {fewest} trials of a class match {learnt_from.where}, so bounds are narrow "
        "and intervals wide. Give more values, or use a larger "
        "set.": learnt_from.where and fewest < _FEW_TRIALS,
        "warning: this set also chose the network among those of its training, so its error rates "
        "and LLRs are optimistic. Calibrate on a set that chose "
        "nothing.": calibration.chose_network,
    }
    return [words for words, holds in reasons.items() if holds]


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


def describe_set(
    path: Path,
    scores: Scores,
    trials: TrialList | None,
    wanted: Mapping[str, tuple[str, ...]],
    evaluations: Sequence[Mapping[str, Any]],
) -> CalibrationSet:
    """Return the scores for calibration, with what is known about their set."""
    is_file = descriptor_of(path) is None
    layout = layout_of_score_file(path.absolute()) if is_file else None
    if trials is None and layout is not None:
        trials = RunFolder(layout.system).trials(corpus_of_file(path))
    if wanted:
        scores = select_where(scores, known_columns(input_name(path), scores, trials), wanted)
    return CalibrationSet(
        scores,
        corpus_of_file(path) if is_file else None,
        speakers_of(scores, trials),
        describe_where(wanted) or None,
        # The set may still have chosen the network, even if it is not known to have.
        (is_file and chose_network(path, evaluations)) or None,
    )


def choose_of_run(network: str, scores: Path | None) -> tuple[str, Path]:
    """Return the paths of a network and of its score file, given a network or a run.

    Args:
        network: Network as given; the folder of a run means its best network.
        scores: Score file; None: that of the first validation set of the run.

    Raises:
        UsageError: no score file is given, and the network is not a run with one.
        AsdfError: the run has no network yet.
    """
    folder = Path(network)
    # Only the folder of a run has recorded settings.
    if parse_name(network) is not None or not Layout(folder).settings.is_file():
        if scores is None:
            raise UsageError(
                f"the score file of {network} is missing: python -m asdf calibrate {network} "
                "SCORES. Only for the folder of a run is it optional."
            )
        return network, scores
    # Imported here because it imports torch, which takes seconds.
    from asdf.interchange import find_network

    path = find_network(network)
    name = NetworkName.parse(path.name)
    if scores is not None:
        return str(path), scores
    run, layout = open_run_folder(folder), Layout(folder)
    # The first validation set on which the network was evaluated.
    for evaluation in run.evaluations():
        if evaluation.network == name:
            file = layout.score_file(name, next(iter(evaluation.eers)))
            if file.is_file():
                return str(path), file
    files = run.score_files().get(str(name), {})
    there = ", ".join(str(layout.score_file(name, corpus)) for corpus in files)
    raise UsageError(
        f"{name}, the best network of {folder}, has no scores on a validation set. Give one of its "
        f"score files: {there or 'there is none; run stage 2 of the recipe'}."
    )


def chose_network(scores: Path, records: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the set of a score file was used to choose the network in training.

    This is so if several networks of the run were evaluated on a validation set of that name.

    Args:
        scores: Score file; if it is in a run, the run's records are read too.
        records: Records of evaluations in the network's file.
    """
    layout = layout_of_score_file(scores.absolute())
    evaluations = evaluations_in(list(records))
    if layout is not None:
        evaluations += RunFolder(layout.system).evaluations()
    networks = {each.network for each in evaluations if corpus_of_file(scores) in each.eers}
    return len(networks) > 1


def parse_where(text: str) -> dict[str, tuple[str, ...]]:
    """Return the values of each column in 'codec=amr|gsm,language=fr'.

    Raises:
        UsageError: the text has another form, or contains a column twice.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for part in text.split(","):
        column, sign, values = part.partition("=")
        column = column.strip()
        named = tuple(value.strip() for value in values.split("|"))
        if not sign or not column or not all(named):
            raise UsageError(
                f"--where {text}: expected COLUMN=VALUE, with commas between columns and | between "
                "values of a column, as in codec=amr|gsm,language=fr."
            )
        if column in wanted:
            raise UsageError(f"--where {text}: {column} is given twice. Join its values by |.")
        wanted[column] = named
    return wanted


def describe_where(wanted: Mapping[str, Sequence[str]]) -> str:
    """Return a selection in words, 'codec=amr|gsm, language=fr'."""
    return ", ".join(f"{column}={'|'.join(values)}" for column, values in wanted.items())


def select_where(
    scores: Scores, columns: Mapping[str, Sequence[str]], wanted: Mapping[str, Sequence[str]]
) -> Scores:
    """Return the scored trials whose columns have the wanted values.

    Args:
        columns: Known columns of the trials, in the order of the scores.

    Raises:
        AsdfError: there is no such column or value, or no such trial of a class.
    """
    matches = np.ones(len(scores), bool)
    for column, values in wanted.items():
        if column not in columns:
            there = (
                f"Known columns: {', '.join(sorted(columns))}."
                if columns
                else "They have no columns."
            )
            raise AsdfError(
                f"--where {column}=...: the trials have no such column. {there} Columns come from "
                "the label file of --protocol, or from the run that contains the scores."
            )
        for value in values:
            if value not in columns[column]:
                raise AsdfError(
                    f"--where {column}={value}: no trial matches. {_count_values(columns[column])}"
                )
        matches &= np.isin(columns[column], values)
    selected = scores.select(np.flatnonzero(matches))
    for name, label in (("bona fide", 1), ("spoofed", 0)):
        if (selected.labels == label).any():
            continue
        # What would remain under each condition alone.
        known = []
        for column in wanted:
            of_class = np.array(columns[column])[scores.labels == label].tolist()
            known.append(f"{column} of the {name} trials: {_count_values(of_class)}")
        raise AsdfError(
            f"--where {describe_where(wanted)}: {len(selected):,} trials match, but none is "
            f"{name}, and a calibration needs both classes. {' '.join(known)}"
        )
    return selected


def _count_values(cells: Sequence[str]) -> str:
    counts = Counter(cells).most_common()
    named = [f"{value or '(empty)'} ({count:,})" for value, count in counts]
    return f"Values: {and_more(named, _VALUES_SHOWN)}."

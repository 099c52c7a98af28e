"""Metrics of how well scores per frame locate the spoofed parts of recordings, and their records.

Invariant: recordings are pooled, and nothing is counted twice. Point metrics count frames, labelled
by the single rule of `asdf.segments`. Range metrics count seconds: frames are split where a spoofed
part begins or ends, and the last frame is cut or stretched to the recording's end, so each moment
has one score and one label (Zhang et al., Range-based equal error rate for spoof localization,
Interspeech 2023, computed exactly instead of by bisection or in bins). A replicate of the bootstrap
has exactly the metrics of its drawn recordings, without cutting or sorting again. Stretches of one
recording are dependent, as are recordings of one speaker: if speakers are known, whole speakers are
drawn. Records of runs have all digits, and the tables show these.

As everywhere, higher scores mean bona fide, and a score equal to a threshold is bona fide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from asdf.arrays import AnyIntegers, Flags, Floats, Indices, Labels
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.detection import DetCurve, as_scores
from asdf.metrics.intervals import Interval, rate_interval, read_intervals
from asdf.segments import Segment, clipped, frame_count, frame_labels
from asdf.tables.renderers import as_lines
from asdf.tables.table import Column, Columns, Table, Value, each, rate, texts

_MAX_TIMES = 100_000
"""Maximum number of score frames in one frame of a coarser resolution."""

_TINY = np.finfo(np.float64).tiny
_MAX_GAP_S = 1e-6
"""Tolerance of the length of a frame, in seconds."""


@dataclass(frozen=True, eq=False)
class LocatedRecording:
    """The frame scores of a recording, with its spoofed parts.

    Attributes:
        scores: Scores of consecutive frames, (frames,).
        hop_s: Length of a frame, in seconds.
        spoofed: Spoofed parts; empty for a bona fide recording.
        duration_s: Length of the recording, in seconds.
    """

    scores: Floats
    hop_s: float
    spoofed: tuple[Segment, ...]
    duration_s: float


@dataclass(frozen=True)
class RangeEer:
    """The range-based equal error rate, as a fraction, and its threshold.

    Attributes:
        threshold: Highest score that is rejected at the EER.
    """

    rate: float
    threshold: float


@dataclass(frozen=True)
class Agreement:
    """Agreement of marked and spoofed parts, in frames or in seconds; or of replicates, as arrays.

    Attributes:
        hits: Amount that is spoofed and marked.
        false_alarms: Amount that is bona fide, but marked.
        misses: Amount that is spoofed, but not marked.
    """

    hits: Any
    false_alarms: Any
    misses: Any

    @property
    def precision(self) -> Any:
        """Proportion of the marked parts that is spoofed; 0 if nothing is marked."""
        return _share(self.hits, self.hits + self.false_alarms)

    @property
    def recall(self) -> Any:
        """Proportion of the spoofed parts that is marked."""
        return _share(self.hits, self.hits + self.misses)

    @property
    def f1(self) -> Any:
        """The harmonic mean of precision and recall."""
        return _share(2 * self.hits, 2 * self.hits + self.false_alarms + self.misses)

    @property
    def iou(self) -> Any:
        """Intersection over union of marked and spoofed parts."""
        return _share(self.hits, self.hits + self.false_alarms + self.misses)

    def rates(self) -> dict[str, Any]:
        """Return the rates by name."""
        return {name: getattr(self, name) for name in ("precision", "recall", "f1", "iou")}


@dataclass(frozen=True)
class PointResult:
    """Point metrics at one resolution.

    Attributes:
        hop_s: Length of a frame, in seconds.
        eer, eer_threshold: EER over frames, and the highest score that is rejected at it.
        bona_fide, spoof: Numbers of frames.
        threshold: Lowest score of a frame that counts as bona fide.
        agreement: Agreement at that threshold.
    """

    hop_s: float
    eer: float
    eer_threshold: float
    bona_fide: int
    spoof: int
    threshold: float
    agreement: Agreement


@dataclass(frozen=True)
class Localisation:
    """The result of a detector on a set of recordings.

    Attributes:
        threshold: Lowest score of a frame that counts as bona fide.
        agreement: Agreement in seconds, at the threshold.
        points: Point metrics at each resolution.
    """

    recordings: int
    bona_fide_s: float
    spoof_s: float
    range_eer: RangeEer
    threshold: float
    agreement: Agreement
    points: tuple[PointResult, ...]


@dataclass(frozen=True, eq=False)
class Stretches:
    """Stretches of time with one score and one label each, all (stretches,).

    Attributes:
        recording: Index of the recording of each stretch.
    """

    scores: Floats
    is_bona_fide: Flags
    seconds: Floats
    recording: Indices


def localisation(
    recordings: Sequence[LocatedRecording],
    resolutions: Sequence[float] = (),
    threshold: float | Sequence[float] | None = None,
) -> Localisation:
    """Return the metrics of frame scores over pooled recordings.

    Args:
        resolutions: Frame lengths for the point metrics, in seconds, each a multiple of the frame
            length of the scores. A longer frame takes the lowest score and label of its frames. ():
            the frame length of the scores.
        threshold: Lowest score of a bona fide frame, one for all or one per resolution, of which
            the first applies to the range metrics too; None: the thresholds of the EERs on these
            recordings. The score of a longer frame is the lowest of several, so longer frames have
            their own threshold, that of the EER over such frames; frames of the scores have the
            threshold of the range EER.

    Raises:
        AsdfError: there is no bona fide or no spoofed time, a score is not finite, or a resolution
            is not a multiple of the frame length of the scores.
        ValueError: there is not one threshold per resolution.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import LocatedRecording, localisation
        >>> from asdf.segments import Segment
        >>> values = np.array([2.0, 1.5, -1.0, -2.0, 1.0])
        >>> recording = LocatedRecording(values, 0.02, (Segment(0.04, 0.08),), duration_s=0.1)
        >>> result = localisation([recording])
        >>> result.range_eer.rate, round(result.spoof_s, 2)
        (0.0, 0.04)
    """
    stretches = pooled_stretches(recordings)
    eer_here = range_eer(stretches)
    hops = {recording.hop_s for recording in recordings}
    resolutions = resolutions or sorted(hops)
    stated: Sequence[float | None]
    if threshold is None:
        first = _just_above(eer_here.threshold)
        stated = [None if hop_s > max(hops) + _MAX_GAP_S else first for hop_s in resolutions]
    elif isinstance(threshold, Sequence):
        stated, first = threshold, threshold[0]
    else:
        stated, first = [threshold] * len(resolutions), threshold
    pairs = zip(resolutions, stated, strict=True)
    points = [point_result(recordings, hop_s, own) for hop_s, own in pairs]
    is_bona_fide = stretches.is_bona_fide
    return Localisation(
        recordings=len(recordings),
        bona_fide_s=float(stretches.seconds[is_bona_fide].sum()),
        spoof_s=float(stretches.seconds[~is_bona_fide].sum()),
        range_eer=eer_here,
        threshold=first,
        agreement=agreement_of(stretches, first),
        points=tuple(points),
    )


def pooled_stretches(recordings: Sequence[LocatedRecording]) -> Stretches:
    """Split the frames of all recordings where spoofed parts begin and end.

    Raises:
        AsdfError: no recording has a frame.
    """
    parts = []
    for index, recording in enumerate(recordings):
        if not len(recording.scores):
            continue
        starts = np.arange(len(recording.scores)) * recording.hop_s
        # The first frame is kept in any recording; the last one extends to the recording's end.
        starts = starts[: max(1, int(np.searchsorted(starts, recording.duration_s)))]
        spoofed = clipped(recording.spoofed, recording.duration_s)
        bounds = np.array(spoofed, np.float64).reshape(-1)  # start, end, start, end ...
        edges = np.unique(np.concatenate([starts, bounds, [recording.duration_s]]))
        # A middle lies inside one frame and one part, whatever the rounding of the edges.
        middles = (edges[:-1] + edges[1:]) / 2
        scores = recording.scores[np.searchsorted(starts, middles, side="right") - 1]
        # A time after an odd number of bounds is in a spoofed part.
        is_spoofed = np.searchsorted(bounds, middles) % 2 == 1
        numbers = np.full(len(scores), index, np.intp)
        parts.append((scores, ~is_spoofed, np.diff(edges), numbers))
    if not parts:
        raise AsdfError("there are no frames with scores. Is the file of frame scores complete?")
    return Stretches(*map(np.concatenate, zip(*parts, strict=True)))


def range_eer(stretches: Stretches) -> RangeEer:
    """Return the equal error rate in which every stretch is weighted by its duration.

    It is taken at the threshold where the miss rate and the false alarm rate are closest; stretches
    with equal scores are on the same side of any threshold.

    Raises:
        AsdfError: there is no bona fide or no spoofed time, or a score is not finite.
    """
    is_bona_fide = stretches.is_bona_fide
    for name, chosen in (("bona fide", is_bona_fide), ("spoofed", ~is_bona_fide)):
        # Only for its errors: a class without time, or a score that is not finite.
        as_scores(name, stretches.scores[chosen])
    one_group = np.zeros(len(is_bona_fide), np.intp)
    found = _SortedStretches(stretches, one_group).eer(np.ones(1, int), is_whole=True)
    assert found is not None
    return found


def point_result(
    recordings: Sequence[LocatedRecording], hop_s: float, threshold: float | None
) -> PointResult:
    """Return the metrics of frames of `hop_s` seconds.

    Args:
        threshold: Lowest score of a bona fide frame; None: that of the EER of these frames.
    """
    frames = [_frames_of(recording, hop_s) for recording in recordings]
    pooled = np.concatenate([scores for scores, _ in frames])
    is_bona_fide = np.concatenate([labels for _, labels in frames]) == 1
    eer, eer_threshold = DetCurve.of(pooled[is_bona_fide], pooled[~is_bona_fide]).eer()
    if threshold is None:
        threshold = _just_above(eer_threshold)
    # Each frame counts once, so its "seconds" are 1.
    frames_alone = Stretches(pooled, is_bona_fide, np.ones(len(pooled)), np.arange(len(pooled)))
    agreement = agreement_of(frames_alone, threshold)
    sizes = (int(is_bona_fide.sum()), int((~is_bona_fide).sum()))
    return PointResult(hop_s, eer, eer_threshold, *sizes, threshold, agreement)


def _just_above(rejected: float) -> float:
    """Return the lowest threshold that marks a score which is rejected at an EER."""
    return float(np.nextafter(rejected, np.inf))


def _frames_of(recording: LocatedRecording, hop_s: float) -> tuple[Floats, Labels]:
    """Return scores and labels of a recording's frames of `hop_s` seconds, both (frames,)."""
    times = round(hop_s / recording.hop_s)
    if not 1 <= times <= _MAX_TIMES or abs(times * recording.hop_s - hop_s) > _MAX_GAP_S:
        raise AsdfError(
            f"a resolution of {hop_s:g} s is not a multiple of {recording.hop_s:g} s, the length "
            f"of the scores' frames. Name one, such as {recording.hop_s:g}, "
            f"{2 * recording.hop_s:g} or {8 * recording.hop_s:g}."
        )
    hop_samples = round(hop_s * SAMPLE_RATE)
    if abs(hop_samples / SAMPLE_RATE - hop_s) > _MAX_GAP_S or hop_samples < 1:
        raise AsdfError(f"frames of {hop_s:g} s are not a whole number of samples at 16 kHz.")
    samples = round(recording.duration_s * SAMPLE_RATE)
    labels = frame_labels(recording.spoofed, samples, hop_samples)
    # Networks may score one frame less than the recording has, or one that begins after its end.
    fine = recording.scores[: frame_count(samples, round(recording.hop_s * SAMPLE_RATE))]
    scores = np.minimum.reduceat(fine, np.arange(0, len(fine), times)) if len(fine) else fine
    count = min(len(scores), len(labels))
    return scores[:count], labels[:count]


def agreement_of(stretches: Stretches, threshold: float) -> Agreement:
    """Return the agreement of marked and spoofed stretches, in seconds."""
    kinds = _kinds(stretches, threshold)
    return Agreement(*(float(stretches.seconds[chosen].sum()) for chosen in kinds))


def _kinds(stretches: Stretches, threshold: float) -> tuple[Flags, Flags, Flags]:
    """Return which stretches are hits, false alarms and misses."""
    is_bona_fide = stretches.is_bona_fide
    is_marked = stretches.scores < threshold
    return is_marked & ~is_bona_fide, is_marked & is_bona_fide, ~is_marked & ~is_bona_fide


def _share(part: Any, whole: Any) -> Any:
    """Return a proportion; 0 of nothing."""
    return part / np.maximum(whole, _TINY)


def localisation_intervals(
    recordings: Sequence[LocatedRecording],
    result: Localisation,
    *,
    speakers: Sequence[str] | None = None,
    replicates: int = 1000,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Interval]:
    """Return intervals of 'range_eer', 'f1' and 'iou' over recordings or speakers, as fractions.

    They depend only on the data and the seed.

    Args:
        result: Result of the recordings, with the threshold of F1 and intersection over union.
        speakers: Speaker of each recording; None: recordings are drawn.
        progress: Function called with the numbers of finished and of all replicates.

    Raises:
        AsdfError: there are too few spoofed, or too few bona fide, recordings or speakers.
    """
    stretches = pooled_stretches(recordings)
    values = stretches.recording
    if speakers is not None:
        values = np.unique(np.asarray(speakers), return_inverse=True)[1][values]
    # Numbered again, because a recording without frames has no stretch and cannot be drawn.
    group_of = np.unique(values, return_inverse=True)[1]
    count = int(group_of.max()) + 1
    curve = _SortedStretches(stretches, group_of)
    # Seconds of hits, false alarms and misses of each group, (groups, 3).
    kinds = _kinds(stretches, result.threshold)
    sums = [np.bincount(group_of, weights=stretches.seconds * chosen) for chosen in kinds]
    hits = np.stack(sums, axis=1)
    rng = np.random.default_rng(seed)
    rates = []
    agreements = []
    for done in range(1, replicates + 1):
        times = rng.multinomial(count, np.full(count, 1 / count))
        found = curve.eer(times)
        if found is not None:
            rates.append(found.rate)
            agreements.append(times @ hits)  # (3,)
        if progress is not None:
            progress(done, replicates)
    # Draws without one of the classes have no EER; if most lack one, the rest are a biased sample.
    if len(rates) < replicates / 2 or count < 2:
        raise AsdfError(
            f"of the {count} recordings or speakers to draw from, too few are spoofed or bona "
            "fide for intervals: leave them out with --replicates 0."
        )
    # Recordings are groups too, since stretches of one recording are dependent.
    interval = partial(rate_interval, trials=count, groups=count)
    drawn = Agreement(*np.array(agreements).T)
    return {
        "range_eer": interval(result.range_eer.rate, np.array(rates)),
        "f1": interval(result.agreement.f1, drawn.f1),
        "iou": interval(result.agreement.iou, drawn.iou),
    }


class _SortedStretches:
    """Stretches sorted by score, for the EERs of any number of replicates."""

    def __init__(self, stretches: Stretches, group_of: Indices) -> None:
        order = np.argsort(stretches.scores, kind="stable")
        scores = stretches.scores[order]
        is_bona_fide = stretches.is_bona_fide[order]
        seconds = stretches.seconds[order]
        # Equal scores are rejected together, so only the last of them is an operating point.
        self._last = np.append(scores[1:] != scores[:-1], True)
        # 0.001 below the lowest score, as in `DetCurve`.
        self._thresholds = np.append(scores[0] - 0.001, scores[self._last])
        self._group = group_of[order]
        self._bona_fide_s = np.where(is_bona_fide, seconds, 0.0)
        self._spoof_s = np.where(is_bona_fide, 0.0, seconds)

    def eer(self, times: AnyIntegers, *, is_whole: bool = False) -> RangeEer | None:
        """Return the EER with the given count of each group; None if a class is missing.

        Args:
            is_whole: Whether each group counts once.
        """
        weights = times[self._group]  # (stretches,)
        missed = np.cumsum(weights * self._bona_fide_s)
        rejected = np.cumsum(weights * self._spoof_s)
        if not missed[-1] or not rejected[-1]:
            return None
        totals = (missed[-1], rejected[-1])
        if is_whole:
            # Among points that are equally close, rounding decides: published rates of whole sets
            # are by pairwise sums, those of replicates by the last of the running ones.
            totals = (self._bona_fide_s.sum(), self._spoof_s.sum())
        # The first point rejects nothing.
        frr = np.append(0.0, missed[self._last] / totals[0])
        far = np.append(1.0, 1 - rejected[self._last] / totals[1])
        best = int(np.argmin(np.abs(frr - far)))
        return RangeEer(float((frr[best] + far[best]) / 2), float(self._thresholds[best]))


_COLUMNS = (
    rate("range_eer", "Range EER", states_unit=True),
    rate("point_eer", "Point EER", states_unit=True),
    Column("f1", "F1", lower_is_better=False),
    Column("iou", "IoU", lower_is_better=False),
    Column("precision", "Precision", lower_is_better=False, in_papers=False),
    Column("recall", "Recall", lower_is_better=False, in_papers=False),
    Column("threshold", "Threshold", lower_is_better=None, in_papers=False),
)
# In a terminal.
_SHORT = (
    rate("range_eer", "range EER", 3, states_unit=True),
    rate("point_eer", "point EER", 3, states_unit=True),
    Column("f1", "F1"),
    Column("iou", "IoU"),
)


@dataclass(frozen=True)
class LocatedResult:
    """The localisation results of a network on a set.

    Attributes:
        numbers: Rates over seconds and frames as fractions, and their threshold, by name; 'hop_s'
            is the length of the frames of the point EER, in seconds.
        threshold_of: Set on which the threshold was chosen.
        intervals: Intervals of 'range_eer', 'f1' and 'iou'; empty if none were drawn.
        drawn: Bootstrap units of the intervals, such as '6 speakers'.
    """

    numbers: Mapping[str, float]
    threshold_of: str
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    drawn: str = ""


def located_columns(results: Sequence[LocatedResult], set_name: str) -> Columns:
    """Return the columns of some results on a set, for pages and papers."""
    numbers = each(results, "numbers")
    columns: Columns = []
    for column in _COLUMNS:
        drawn = [result.intervals.get(column.key) for result in results]
        values = Value.with_intervals([known[column.key] for known in numbers], drawn)
        columns.append((column, values))
    hops = [Value(known["hop_s"], text=f"{1000 * known['hop_s']:g} ms") for known in numbers]
    # Behind the point EER, to which the frame length applies.
    columns.insert(2, (Column("hop_s", "Frames of", in_papers=False), hops))
    chosen = each(results, "threshold_of")
    words = ["this set itself" if name == set_name else name for name in chosen]
    return [*columns, texts("Chosen on", words, in_papers=False)]


def located_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the records of a run as a table of aligned text."""
    columns: Columns = [texts("set", [entry["set"] for entry in records], is_left=True)]
    for column in _SHORT:
        columns.append(column.with_values([entry[column.key] for entry in records]))
    origins = [entry["threshold_of"] for entry in records]
    columns.append(texts("threshold of", origins, is_left=True))
    return "\n".join(as_lines(Table([entry["network"] for entry in records], columns, "network")))


def located_record(
    network: str,
    set_name: str,
    threshold_of: str,
    result: Localisation,
    intervals: Mapping[str, Interval] | None = None,
    drawn: str = "",
) -> dict[str, Any]:
    """Return all results as plain values, for JSON.

    Args:
        drawn: Bootstrap unit of the intervals: 'speakers' or 'recordings'.
    """
    # A run measures a single resolution, that of its frames.
    point = result.points[0]
    rates = result.agreement.rates()
    record: dict[str, Any] = {
        "network": network,
        "set": set_name,
        "range_eer": result.range_eer.rate,
        "point_eer": point.eer,
        "hop_s": point.hop_s,
        "threshold": result.threshold,
        "threshold_of": threshold_of,
        **{name: rates[name] for name in ("f1", "iou", "precision", "recall")},
        "seconds": asdict(result.agreement),
    }
    if intervals is not None:
        record["intervals"] = {name: [one.low, one.high] for name, one in intervals.items()}
        record["intervals_over"] = f"{intervals['range_eer'].groups} {drawn}"
    return record


def located_result(record: Mapping[str, Any]) -> LocatedResult:
    """Return the result of a record; records of earlier versions have no intervals.

    Raises:
        ValueError, TypeError, KeyError: the record was not written by `located_record`.
    """
    return LocatedResult(
        {name: float(record[name]) for name in ("hop_s", *each(_COLUMNS, "key"))},
        str(record["threshold_of"]),
        read_intervals(record),
        str(record.get("intervals_over", "")),
    )

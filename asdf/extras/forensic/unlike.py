"""Detection of recordings unlike those that a calibration was learned from, by embedding.

Invariant: the limit comes from recordings that the model was not fitted to, of other speakers if
speakers are known; its stated rate was counted on recordings that determined neither the model nor
the limit.

Distances are to the nearer of two classes, the bona fide and the spoofed recordings of the set: an
ordinary spoof is far from all genuine speech, since detectors are trained for that, and its
likelihood ratio is valid. Each class is a normal distribution around its mean, with the variances
of its first few principal directions and one variance for all others.

Sources: Lee et al., "A simple unified framework for detecting out-of-distribution samples and
adversarial attacks", NeurIPS, 2018, for the Mahalanobis distance to the nearest class; Tipping and
Bishop, "Probabilistic principal component analysis", Journal of the Royal Statistical Society B 61,
1999, for the covariance. The limit is a rank, so its rate holds for any distribution (Vovk,
Gammerman and Shafer, Algorithmic Learning in a Random World, Springer, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from asdf.arrays import Floats, Integers
from asdf.commands.options import option
from asdf.errors import AsdfError, UsageError
from asdf.metrics.calibration import Calibration, damaged
from asdf.metrics.intervals import exact_bounds
from asdf.runs.seeds import generator
from asdf.runs.streams import input_name
from asdf.scoring.columns import Heard, Learning, Request, ScoreColumn, four_digits

MAX_NUMBERS = 4096
"""Maximum number of values of an embedding, since the model grows with it."""

_DIRECTIONS = 8
# A direction defined by fewer recordings than this is due to chance.
_RECORDINGS_PER_DIRECTION = 6
# Far more digits than distances have, at half the size in JSON.
_DIGITS = 7
# Minimum variance, for a class whose recordings are all equal.
_LEAST = 1e-12
# Maximum number of recordings of a class: more take longer, and hardly improve a rate of 5 %.
_MOST = 300
# Maximum number of folds of speakers, or trials.
_FOLDS = 20


@dataclass(frozen=True, eq=False)
class Cluster:
    """The embeddings of a class, as a normal distribution.

    Attributes:
        mean: Mean of the embeddings, (numbers,).
        directions: Principal directions, (directions, numbers), orthonormal.
        variances: Variances along them, (directions,).
        rest: Variance along each other direction.
    """

    mean: Floats
    directions: Floats
    variances: Floats
    rest: float

    def distances(self, embeddings: Floats) -> Floats:
        """Return the Mahalanobis distances of embeddings (N, numbers), (N,)."""
        centred = embeddings - self.mean
        along = (centred @ self.directions.T) ** 2
        total = (centred**2).sum(axis=1)
        # Rounding may give a negative number.
        across = np.maximum(total - along.sum(axis=1), 0)
        squares = (along / self.variances).sum(axis=1)
        squares += across / self.rest
        distances: Floats = np.sqrt(squares)
        return distances

    def content(self) -> dict[str, Any]:
        """Return plain values for a network file."""
        return {
            "mean": _plain(self.mean),
            "directions": list(map(_plain, self.directions)),
            "variances": _plain(self.variances),
            "rest": self.rest,
        }


@dataclass(frozen=True, eq=False)
class Region:
    """The region of the embeddings of a calibration's set, and the limit of similarity.

    Attributes:
        limit: Mahalanobis distance beyond which a recording is unlike the set's.
        rate: Proportion of genuine recordings that it was chosen for.
        bona_fide, spoof: Numbers of the set's recordings that it was learned from.
        bona_fide_beyond, spoof_beyond: Numbers of these that are unlike the others of the set.
        folds_of: Unit held out together: 'speakers' or 'trials'.
        clusters: Clusters of bona fide and of spoofed recordings.
    """

    limit: float
    rate: float
    bona_fide: int
    bona_fide_beyond: int
    spoof: int
    spoof_beyond: int
    folds_of: str
    clusters: tuple[Cluster, Cluster]

    def distance(self, embedding: np.ndarray) -> float:
        """Return the distance of an embedding as a multiple of the limit; above 1 it is unlike.

        Raises:
            AsdfError: its number of values differs from that of the embeddings used for learning.
        """
        row = np.asarray(embedding, np.float64).reshape(1, -1)
        expected = self.clusters[0].mean.size
        if row.size != expected:
            raise AsdfError(
                f"the network gives embeddings of {row.size:,} values, but its calibration was "
                f"learnt from embeddings of {expected:,}: calibrate it again."
            )
        return float(_nearest(self.clusters, row)[0]) / self.limit

    def describe_unlike(self, distance: float) -> str:
        """Return a remark on a recording at this distance from the set."""
        return (
            "unlike the recordings that the calibration was learnt from (distance "
            f"{distance:.2f}, where 1 is the limit; {self.describe_rate()}): its likelihood ratio "
            "is not valid for it"
        )

    def describe_rate(self) -> str:
        """Describe how often genuine recordings of the set are called unlike it."""
        low, high = exact_bounds(self.bona_fide_beyond, self.bona_fide)
        share = 100 * self.bona_fide_beyond / self.bona_fide
        return (
            f"{share:.1f} % of their genuine ones are called so, 95 % interval {100 * low:.1f} to "
            f"{100 * high:.1f} %"
        )

    def describe(self) -> str:
        """Describe what it was learned from, and how often the set's own recordings exceed it."""
        bona_fide = _count(self.bona_fide_beyond, self.bona_fide)
        spoof = _count(self.spoof_beyond, self.spoof)
        return (
            "recordings unlike these are recognised by their embedding: of the set's own "
            f"recordings, held out by {self.folds_of}, {bona_fide} genuine and {spoof} spoofed "
            "ones are called unlike the others"
        )

    def content(self) -> dict[str, Any]:
        """Return plain values for a network file."""
        return {**self.summary(), "clusters": [cluster.content() for cluster in self.clusters]}

    def summary(self) -> dict[str, Any]:
        """Return plain values for readers, without the model."""
        entry = asdict(self)
        del entry["clusters"]
        rate = self.bona_fide_beyond / self.bona_fide
        interval = exact_bounds(self.bona_fide_beyond, self.bona_fide)
        entry["measured_rate"] = [rate, *interval]
        return entry


def _plain(values: Floats) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in values.tolist()]


def _count(beyond: int, total: int) -> str:
    low, high = exact_bounds(beyond, total)
    return (
        f"{beyond} of {total} ({100 * beyond / total:.1f} %, 95 % interval {100 * low:.1f} to "
        f"{100 * high:.1f})"
    )


def check_enough(genuine: int, rate: float) -> None:
    """Check that there are enough genuine recordings to learn a rate.

    Raises:
        AsdfError: there are too few; the message states the required number.
    """
    # Tolerate rounding in the quotient, which would require 20 for 0.05.
    needed = math.ceil(1 / rate - 1e-9) - 1
    if genuine < needed:
        raise AsdfError(
            f"{genuine} genuine recordings are too few: a limit that {100 * rate:g} % of them "
            f"exceed needs {needed}."
        )


def learn_region(
    embeddings: Floats, labels: Integers, folds: Integers, rate: float, folds_of: str
) -> Region:
    """Learn the region of a set's embeddings, and the limit for genuine recordings like its own.

    The limit is the smallest distance of a held-out genuine recording that at most `rate` of such
    recordings exceed: the ceil((1 - rate) (n + 1))-th smallest of n.

    Args:
        embeddings: Embeddings, (N, numbers).
        labels: Labels, (N,), 1 for bona fide and 0 for spoof.
        folds: Fold of each embedding, (N,), held out together.
        rate: Proportion of genuine recordings that may be called unlike.

    Raises:
        AsdfError: the genuine recordings are too few for the rate or all equal, or a class is
            missing without one of the folds.
    """
    values = np.asarray(embeddings, np.float64)
    genuine = np.asarray(labels) == 1
    spoofed = ~genuine
    check_enough(int(genuine.sum()), rate)
    held_out = np.empty(len(values))
    for fold in np.unique(folds):
        rest = folds != fold
        clusters = _fit(values[rest], genuine[rest])
        held_out[~rest] = _nearest(clusters, values[~rest])
    beyond = np.zeros(len(values), bool)
    for fold in np.unique(folds):
        others = held_out[genuine & (folds != fold)]
        mine = folds == fold
        limit = _limit(others, rate)
        beyond[mine] = held_out[mine] > limit
    limit = _limit(held_out[genuine], rate)
    if not 0 < limit < math.inf:
        raise AsdfError("the network gives all genuine recordings the same embedding, or none.")
    genuine_beyond = beyond[genuine]
    spoof_beyond = beyond[spoofed]
    return Region(
        limit=limit,
        rate=rate,
        bona_fide=len(genuine_beyond),
        bona_fide_beyond=int(genuine_beyond.sum()),
        spoof=len(spoof_beyond),
        spoof_beyond=int(spoof_beyond.sum()),
        folds_of=folds_of,
        clusters=_fit(values, genuine),
    )


def _limit(distances: Floats, rate: float) -> float:
    """Return the limit from the distances of held-out genuine recordings."""
    count = len(distances)
    # Rounding in the product must not raise the rank.
    rank = math.ceil((1 - rate) * (count + 1) - 1e-9)
    # Without a fold, there may be one recording too few for the rate.
    rank = min(rank, count)
    return float(np.sort(distances)[rank - 1])


def _nearest(clusters: Sequence[Cluster], embeddings: Floats) -> Floats:
    """Return the distance of each embedding to the nearer class, (N,)."""
    distances: Floats = np.min([each.distances(embeddings) for each in clusters], axis=0)
    return distances


def _fit(embeddings: Floats, genuine: np.ndarray) -> tuple[Cluster, Cluster]:
    classes = (embeddings[genuine], embeddings[~genuine])
    if min(map(len, classes)) < 2:
        raise AsdfError(
            "without one of its folds the set has fewer than two recordings of a class."
        )
    return fit_cluster(classes[0]), fit_cluster(classes[1])


def fit_cluster(embeddings: Floats) -> Cluster:
    """Fit a normal distribution to embeddings (N, numbers), with N of at least 2.

    Variances are maximum-likelihood estimates: the one for the other directions is the mean of the
    remaining variance over them.
    """
    count, numbers = embeddings.shape
    mean = embeddings.mean(axis=0)
    _, singular, directions = np.linalg.svd(embeddings - mean, full_matrices=False)
    supported = count // _RECORDINGS_PER_DIRECTION
    # At least one direction is left for the remaining variance.
    kept = min(_DIRECTIONS, supported, numbers - 1)
    variances = singular**2 / count
    total = float(variances.sum())
    least = _LEAST * max(1.0, total)
    left = float(variances[kept:].sum())
    rest = left / max(1, numbers - kept)
    own = np.maximum(variances[:kept], least)
    return Cluster(mean, directions[:kept], own, max(rest, least))


def _check_rate(rate: float) -> None:
    if not 0 <= rate < 1:
        raise UsageError(
            f"--unlike-rate {rate:g}: give a proportion above 0 and below 1, or 0 to turn the "
            "comparison off."
        )


@dataclass(frozen=True, kw_only=True)
class UnlikeOptions:
    """Comparison of recordings with the set."""

    unlike_rate: float | None = option(
        "proportion of genuine recordings similar to the set that may be reported as unlike it "
        "(0.05); 0: do not compare recordings with the set",
        metavar="P",
        check=_check_rate,
    )


def learn_from_recordings(
    learning: Learning, options: UnlikeOptions
) -> tuple[Region, dict[str, list[float]]]:
    """Learn the region of a network's embeddings from the recordings of a score file.

    Returns:
        The region, and the lowest and highest level and offset of the recordings, by name.

    Raises:
        AsdfError: recordings are missing or too few, or the network gives no embeddings for them.
    """
    # Not imported to score a recording.
    from asdf.commands.outputs import show
    from asdf.runs.log import track
    from asdf.scoring.network_check import locate_recordings, open_as_scored
    from asdf.tasks.fusion.gain import make_folds

    rate = 0.05 if options.unlike_rate is None else options.unlike_rate
    path, scores = learning.scores, learning.learnt_from.scores
    drawn: list[int] = []
    for label in (1, 0):
        trials = np.flatnonzero(scores.labels == label)
        # A fixed stream per class: the same set gives the same file, and classes share no draws.
        order = generator(0, f"home {label}").permutation(len(trials))
        drawn += trials[order[:_MOST]].tolist()
    drawn.sort()
    # Checked before any recording is scored.
    check_enough(int((scores.labels[drawn] == 1).sum()), rate)
    names = [scores.ids[index] for index in drawn]
    recordings = locate_recordings(names, path, learning.folder)
    if recordings is None:
        raise AsdfError(
            f"recordings of {input_name(path)} were not found. Give their folder with --folder."
        )
    detector = open_as_scored(learning.network, path)
    if isinstance(detector, str):
        raise AsdfError(detector)
    # The trial embedding of each recording that can be scored, by its trial.
    embeddings, levels = {}, []
    results = detector.score_many(recordings, embedding=True)
    for result in track(results, len(recordings), "learning the set", unit="recordings"):
        if result.embedding is not None:
            embeddings[drawn[result.index]] = result.embedding
            levels.append((result.level_dbfs, result.offset))
    known = sorted(embeddings)
    if len(known) < len(recordings):
        show(f"{len(recordings) - len(known)} recordings of the set could not be scored")
    sizes = {row.size for row in embeddings.values()}
    if len(sizes) != 1 or max(sizes) > MAX_NUMBERS:
        raise AsdfError(
            "this network's embeddings have different lengths or more than "
            f"{MAX_NUMBERS:,} values, so they cannot be compared. --unlike-rate 0 turns the "
            "comparison off."
        )
    rows = np.stack([embeddings[index].reshape(-1) for index in known])
    ids = [scores.ids[index] for index in known]
    labels: np.ndarray = scores.labels[known]
    speakers = learning.learnt_from.speakers
    named = None if speakers is None else [speakers[index] for index in known]
    folds_of = learning.learnt_from.folds_of
    try:
        folds = make_folds(ids, labels, named, _FOLDS)
    except AsdfError:
        # For example because a class has only one speaker.
        folds_of = "trials"
        folds = make_folds(ids, labels, None, _FOLDS)
    columns = zip(("level_dbfs", "offset"), np.array(levels, np.float64).T, strict=True)
    ranges = {name: [float(row.min()), float(row.max())] for name, row in columns}
    return learn_region(rows, labels, folds, rate, folds_of), ranges


def read_region(entry: Any) -> Region | None:
    """Return the region in an entry of `Region.content`; None if the entry is invalid."""
    if not isinstance(entry, Mapping):
        return None
    clusters = []
    try:
        for each in entry["clusters"]:
            mean = np.array(each["mean"], np.float64)
            variances = np.array(each["variances"], np.float64)
            directions = np.array(each["directions"], np.float64)
            directions = directions.reshape(variances.size, mean.size)
            if mean.ndim != 1 or variances.ndim != 1:
                return None
            clusters.append(Cluster(mean, directions, variances, float(each["rest"])))
        first, second = clusters
        region = Region(
            limit=float(entry["limit"]),
            rate=float(entry["rate"]),
            folds_of=str(entry["folds_of"]),
            clusters=(first, second),
            **{name: int(entry[name]) for name in _COUNTS},
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    are_sound = [
        0 < each.mean.size == first.mean.size <= MAX_NUMBERS
        and np.isfinite([*each.mean, *each.variances, *each.directions.flat, each.rest]).all()
        and (np.array([each.rest, *each.variances]) > 0).all()
        for each in clusters
    ]
    is_sound = all(are_sound) and 0 < region.limit < math.inf and 0 < region.rate < 1
    is_sound &= region.folds_of in ("speakers", "trials")
    is_sound &= 0 <= region.bona_fide_beyond <= region.bona_fide != 0
    return region if is_sound and 0 <= region.spoof_beyond <= region.spoof != 0 else None


_COUNTS = ("bona_fide", "bona_fide_beyond", "spoof", "spoof_beyond")


@dataclass(frozen=True)
class Likeness:
    """Whether a recording is like those of the calibration's set.

    Attributes:
        unlike: Whether it differs from them, so that its LLR is not valid for it.
        distance: Distance of its embedding from the set; unlike above 1.
    """

    unlike: bool
    distance: float


class UnlikeColumn(ScoreColumn):
    """Whether a recording is unlike those that the calibration was learnt from."""

    key = "unlike"
    kind = Likeness
    attributes: ClassVar[dict[str, Any]] = {"unlike": None, "distance": None}
    answer: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "unlike": (
            bool,
            "Whether the recording is unlike the calibration set, so that `llr` does not apply to "
            "it; absent where the calibration cannot test it.",
        ),
        "distance": (
            float,
            "Distance of the recording's embedding from the calibration set; unlike above 1.",
        ),
    }
    cells = ("unlike", "distance")
    place = (40, 30)
    needs = ("embedding",)
    learns_with = UnlikeOptions
    doubt = (
        "but unlike the calibration set",
        "But it is unlike the recordings that the detector was calibrated on",
    )

    def __init__(self, region: Region, is_described: bool) -> None:
        self._region = region
        self._is_described = is_described

    @classmethod
    def learn(cls, calibration: Calibration, learning: Learning) -> Calibration:
        # Not imported to score a recording.
        from asdf.commands.outputs import show

        asked = learning.options.unlike_rate
        if learning.is_fused:
            show("recordings unlike this set cannot be detected: a fused system has no embedding")
            return calibration
        if asked == 0:
            return calibration
        try:
            region, levels = learn_from_recordings(learning, learning.options)
        except AsdfError as error:
            if asked is not None:
                raise
            show(f"recordings unlike this set cannot be detected: {error}")
            return calibration
        show(region.describe())
        others = {**calibration.others, "home": region.content(), "levels": levels}
        return replace(calibration, others=others)

    @classmethod
    def wanted(cls, request: Request) -> UnlikeColumn | None:
        calibration = request.calibration
        entry = None if calibration is None else calibration.others.get("home")
        if calibration is None or entry is None:
            return None
        region = read_region(entry)
        if region is None:
            raise damaged(request.source)
        return cls(region, bool(calibration.describe_origin()))

    def add(self, heard: Heard) -> Likeness | None:
        if not heard.judged:
            return None
        distance = self._region.distance(heard.rows["embedding"])
        # Not `distance > 1`, so that NaN counts as unlike.
        return Likeness(not distance <= 1, distance)

    def remark(self, value: Likeness, heard: Heard) -> str:
        return self._region.describe_unlike(value.distance) if value.unlike else ""

    def heading(self) -> dict[str, Any]:
        return {"calibration": {"home": self._region.summary()}} if self._is_described else {}

    @classmethod
    def row(cls, value: Likeness) -> tuple[Any, ...]:
        return str(value.unlike).lower(), value.distance

    @classmethod
    def facts(cls, value: Likeness, threshold: float | None) -> dict[str, str]:
        distance = f"{four_digits(value.distance)} (unlike it above 1)"
        return {"Distance from the calibration set": distance}

    @classmethod
    def doubts(cls, value: Likeness) -> bool:
        return value.unlike

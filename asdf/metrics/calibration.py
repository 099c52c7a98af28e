"""Scores as log-likelihood ratios: a map, its bounds, and a threshold.

Invariant: the map is increasing, so it preserves order and EER; an affine map fitted with prior 0.5
has the lowest Cllr of all affine maps on the scores that it was fitted to. Bounds limit the stated
LLR but change no decision: decisions use the unbounded LLR. An entry of a network file, which may
be damaged or from anyone, gives a `Calibration` with an increasing map, finite numbers and limited
size, or is refused.

Sources: Brümmer, "Measuring, refining and calibrating speaker and language information extracted
from speech", PhD thesis, Stellenbosch University, 2010, and his toolkit FoCal, for prior-weighted
logistic regression; for the other maps, the bounds and the intervals, see `llr_maps` and
`llr_intervals`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.metrics.costs import DetectionCost
from asdf.metrics.detection import as_scores, eer
from asdf.metrics.home import read_home
from asdf.metrics.llr_intervals import INTERVAL_LEVEL, bootstrap_maps, empirical_bounds
from asdf.metrics.llr_maps import METHODS, LlrMap, fit_affine, fit_map

_COSTS = ("spoof_prior", "miss", "false_alarm")
_ALWAYS = ("scale", "offset", "threshold", *_COSTS)
_TEXTS = ("set", "trials", "date", "folds_of", "method", "where")
_ORIGIN_NUMBERS = ("bona_fide", "spoof", "speakers", "eer", "cross_validated_cllr")
_BOUNDS = ("lowest_llr", "highest_llr")
_KNOTS = ("map_scores", "map_llrs")
_OTHERS = ("replicates", "chose_network", "windows", "home")
_NAMES = {*_ALWAYS, *_TEXTS, *_ORIGIN_NUMBERS, *_BOUNDS, *_KNOTS, *_OTHERS}
# Far above the output of `calibrate`: a file that claims more is not ours.
_MAX_ROWS = 100_000
_METHOD_NAMES = {
    "logistic": "logistic regression",
    "regularised": "regularised logistic regression",
    "bi-gaussian": "bi-Gaussianised",
}


def is_sound(entry: Mapping[str, Any]) -> bool:
    """Whether an entry has the form that `Calibration.content` writes."""
    return (
        set(_ALWAYS) <= set(entry) <= _NAMES
        and _has_sound_texts(entry)
        and _has_sound_numbers(entry)
        and _has_sound_knots(entry)
        and ("home" not in entry or read_home(entry["home"]) is not None)
    )


def _has_sound_texts(entry: Mapping[str, Any]) -> bool:
    for name in _TEXTS:
        if not isinstance(entry.get(name, ""), str):
            return False
    if not isinstance(entry.get("chose_network", False), bool):
        return False
    # Its content is checked by its reader, `asdf.scoring.windows`.
    if not isinstance(entry.get("windows", {}), Mapping):
        return False
    return entry.get("method", METHODS[0]) in METHODS


def _has_sound_numbers(entry: Mapping[str, Any]) -> bool:
    numbers = {*_ALWAYS, *_ORIGIN_NUMBERS, *_BOUNDS}.intersection(entry)
    # The threshold at the EER has no costs, that of costs has all of them.
    if all(entry[name] is None for name in _COSTS):
        numbers -= set(_COSTS)
    if not _are_finite([entry[name] for name in numbers]) or entry["scale"] <= 0:
        return False
    if set(_BOUNDS).isdisjoint(entry):
        return True
    return set(_BOUNDS) <= set(entry) and entry["lowest_llr"] <= 0 <= entry["highest_llr"]


def _has_sound_knots(entry: Mapping[str, Any]) -> bool:
    """Whether knots, if any, are increasing, and replicates fit them."""
    if not set(_KNOTS).isdisjoint(entry):
        scores: Any = entry.get("map_scores")
        llrs: Any = entry.get("map_llrs")
        if not _are_finite(scores) or not _are_finite(llrs) or not len(scores) == len(llrs) >= 2:
            return False
        if not _rises(scores) or not _rises(llrs):
            return False
    if "replicates" not in entry:
        return True
    rows = entry["replicates"]
    if not isinstance(rows, list | tuple) or not 0 < len(rows) <= _MAX_ROWS:
        return False
    # Scale and offset of each, or an LLR for each knot.
    width = len(entry.get("map_scores", (0, 0)))
    return all(_are_finite(row) and len(row) == width for row in rows)


def _are_finite(values: Any) -> bool:
    """Whether the value is a row of finite numbers."""
    if not isinstance(values, list | tuple) or len(values) > _MAX_ROWS:
        return False
    for value in values:
        if not isinstance(value, float | int) or not math.isfinite(value):
            return False
    return True


def _rises(values: Any) -> bool:
    return all(low < high for low, high in itertools.pairwise(values))


# Keys of the map and the decision, which readers of scores do not need.
_MAP_ENTRIES = (*_ALWAYS, "map_scores", "map_llrs", "replicates")


@dataclass(frozen=True)
class Calibration:
    """A map from scores to natural-log LLRs; LLRs of at least `threshold` are bona fide.

    The map is affine, LLR = scale * score + offset, or has the knots `map_scores` and `map_llrs`.

    Attributes:
        spoof_prior, miss, false_alarm: Costs with this Bayes threshold; None if the threshold is
            that of the EER.
        set: Name of the set that it was learned from; this and all of the following are None if
            unknown, as in the first versions.
        trials: Digest of the list of its trials.
        bona_fide, spoof: Numbers of its trials.
        speakers: Number of its speakers; None if unknown.
        date: Day on which it was learned, such as 2026-11-23.
        eer: Equal error rate, as a fraction, of the scores that it was learned from.
        cross_validated_cllr: Cllr of trials in bits, by maps learned from other trials.
        folds_of: Unit of cross-validation, 'speakers' or 'trials'.
        method: Method that fitted the map, one of `llr_maps.METHODS`; None for 'logistic'.
        lowest_llr, highest_llr: Bounds of the LLRs that the set supports (`llr_intervals`); None
            without.
        map_scores, map_llrs: Knots of a map that is not affine (`LlrMap`); None for an affine map.
        replicates: Maps of the bootstrap, (scale, offset) each, or the LLRs at the knots; None
            without intervals.
        chose_network: Whether the set also chose the network, for example its epoch.
        where: Selection of the set's trials, such as 'codec=amr, language=fr'; None for all.
        windows: Threshold for windows of long recordings, as plain values
            (`asdf.scoring.windows`); None if not learned.
        home: Model of the embeddings of its recordings, as plain values (`asdf.metrics.home`); None
            if not learned.
    """

    scale: float
    offset: float
    threshold: float
    spoof_prior: float | None = None
    miss: float | None = None
    false_alarm: float | None = None
    set: str | None = None
    trials: str | None = None
    bona_fide: int | None = None
    spoof: int | None = None
    speakers: int | None = None
    date: str | None = None
    eer: float | None = None
    cross_validated_cllr: float | None = None
    folds_of: str | None = None
    method: str | None = None
    lowest_llr: float | None = None
    highest_llr: float | None = None
    map_scores: tuple[float, ...] | None = None
    map_llrs: tuple[float, ...] | None = None
    replicates: tuple[tuple[float, ...], ...] | None = field(default=None, repr=False)
    chose_network: bool | None = None
    where: str | None = None
    windows: dict[str, Any] | None = field(default=None, compare=False)
    home: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def map(self) -> LlrMap:
        """The map from scores to LLRs, without bounds."""
        return LlrMap(self.scale, self.offset, self.map_scores or (), self.map_llrs or ())

    def llr(self, scores: npt.ArrayLike) -> Floats:
        """Return the log-likelihood ratios of a network's scores, of any shape, within bounds."""
        return self._bounded(self.map(scores))

    def unbounded_llr(self, scores: npt.ArrayLike) -> Floats:
        """Return the values of the map, even beyond what the set supports."""
        return self.map(scores)

    def _bounded(self, llrs: Floats) -> Floats:
        if self.lowest_llr is None or self.highest_llr is None:
            return llrs
        return np.clip(llrs, self.lowest_llr, self.highest_llr)

    @property
    def supports_threshold(self) -> bool:
        """Whether bounded LLRs lie on both sides of the threshold, as unbounded ones do."""
        if self.lowest_llr is None or self.highest_llr is None:
            return True
        return self.lowest_llr < self.threshold <= self.highest_llr

    def interval(self, raw: float) -> tuple[float, float] | None:
        """Return the interval of the LLR of a score, within bounds; None without replicates.

        It consists of percentiles of the bootstrap's maps, at the level `INTERVAL_LEVEL`, and
        contains the LLR.
        """
        if self.replicates is None:
            return None
        llr = float(self.llr(raw))
        tail = (1 - INTERVAL_LEVEL) / 2
        quantiles = np.quantile(self._replicated_llrs(raw), [tail, 1 - tail])
        low, high = self._bounded(quantiles).tolist()
        return min(low, llr), max(high, llr)

    def _replicated_llrs(self, raw: float) -> Floats:
        """Return the LLR of a score by each map of the bootstrap, (replicates,)."""
        rows = self._replicate_rows
        if self.map_scores is None:
            affine: Floats = rows[:, 0] * raw + rows[:, 1]
            return affine
        # As in `LlrMap` for one map: linear between knots, and with slope `scale` beyond them.
        knots = np.array(self.map_scores)
        position = np.interp(raw, knots, np.arange(knots.size))
        # The last knot has no right neighbour.
        left = min(int(position), knots.size - 2)
        share = position - left
        between = rows[:, left] * (1 - share) + rows[:, left + 1] * share
        beyond = raw - np.clip(raw, knots[0], knots[-1])
        llrs: Floats = between + self.scale * beyond
        return llrs

    @cached_property
    def _replicate_rows(self) -> Floats:
        return np.array(self.replicates, np.float64)

    def describe_limit(self, raw: float) -> str:
        """Describe that the LLR of a score is at a bound; '' if it is not."""
        unbounded = float(self.unbounded_llr(raw))
        if float(self.llr(raw)) == unbounded:
            return ""
        set_size = (
            f"{self.bona_fide:,} + {self.spoof:,}" if self.bona_fide and self.spoof else "the"
        )
        return f"LLR at the limit of what {set_size} recordings support"

    def describe_bounds(self) -> str:
        """Describe the LLRs that the set supports; '' without bounds."""
        if self.lowest_llr is None or self.highest_llr is None:
            return ""
        return (
            f"LLRs from {self.lowest_llr:.2f} to {self.highest_llr:.2f} are supported by its "
            "recordings"
        )

    def describe(self) -> str:
        """Describe the decision in words."""
        decision = f"bona fide from an LLR of {self.threshold:.4g} on"
        if self.spoof_prior is None:
            return f"{decision}, where both error rates were equal"
        return (
            f"{decision}, the Bayes threshold where {self.spoof_prior:.4g} of the recordings are "
            f"spoofs, a missed bona fide costs {self.miss:g} and an accepted spoof "
            f"{self.false_alarm:g}"
        )

    def describe_method(self) -> str:
        """Describe the method that fitted the map."""
        return _METHOD_NAMES[self.method or "logistic"]

    def describe_origin(self) -> str:
        """Describe the set that it was learned from; '' if unknown."""
        if self.bona_fide is None or self.spoof is None:
            return ""
        parts = [f"{self.bona_fide:,} bona fide and {self.spoof:,} spoofed recordings"]
        if self.where:
            parts[0] += f" with {self.where}"
        if self.set:
            parts[0] = f"{self.set}: {parts[0]}"
        if self.speakers is not None:
            parts.append(f"{self.speakers:,} speakers")
        parts += self._quality()
        if self.date:
            parts.append(self.date)
        sentence = f"calibrated on {', '.join(parts)}"
        bounds = self.describe_bounds()
        if bounds:
            sentence += f"; {bounds}"
        if self.chose_network:
            sentence += "; this set also chose the network, so its error rates are optimistic"
        return sentence

    def _quality(self) -> list[str]:
        """Describe the measurements on its set, and the method."""
        parts = []
        if self.eer is not None:
            parts.append(f"EER {100 * self.eer:.2f} %")
        if self.cross_validated_cllr is not None:
            cost = f"Cllr {self.cross_validated_cllr:.3f} bits"
            parts.append(f"{cost}, cross-validated by {self.folds_of}")
        if self.method:
            parts.append(self.describe_method())
        return parts

    def summary(self) -> dict[str, Any] | None:
        """Return its origin and bounds for JSON; None if unknown."""
        origin = self.describe_origin()
        if not origin:
            return None
        entries = {"origin": origin}
        for name, value in self.public().items():
            if name not in _MAP_ENTRIES:
                entries[name] = value
        return entries

    def public(self) -> dict[str, Any]:
        """Return plain values for readers, without the bootstrap's maps and the home's model."""
        entries = self.content()
        entries.pop("replicates", None)
        home = read_home(entries.pop("home", None))
        if home is not None:
            entries["home"] = home.summary()
        return entries

    def content(self) -> dict[str, Any]:
        """Return plain values for a network file."""
        entries: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or each.name in _ALWAYS:
                entries[each.name] = _as_plain(value)
        return entries


def _as_plain(value: Any) -> Any:
    """Return tuples as lists, as in JSON, since a network file refuses long tuples."""
    return list(map(_as_plain, value)) if isinstance(value, tuple) else value


def read_calibration(entry: Any, path: object) -> Calibration | None:
    """Read the calibration of a network file from its `entry`; None if it has none.

    Raises:
        AsdfError: the entry is not what `Calibration.content` returns.
    """
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or not is_sound(entry):
        raise AsdfError(
            f"the calibration in {path} cannot be used: it was changed, damaged, or written by a "
            "newer ASDF. Calibrate again."
        )
    entries = dict(entry)
    # JSON only has lists.
    for name in ("map_scores", "map_llrs"):
        if entries.get(name) is not None:
            entries[name] = tuple(entries[name])
    if entries.get("replicates") is not None:
        entries["replicates"] = tuple(tuple(row) for row in entries["replicates"])
    return Calibration(**entries)


def calibrate(
    bona_fide: npt.ArrayLike,
    spoof: npt.ArrayLike,
    cost: DetectionCost | None = None,
    method: str = "logistic",
    units: int | None = None,
) -> Calibration:
    """Calibrate scores, with the threshold of `cost`, or of the EER for None.

    The result has neither bounds nor intervals (`with_support`).

    Args:
        method: Method of `llr_maps.METHODS`.
        units: Number of independent units, such as speakers (`fit_map`).

    Raises:
        AsdfError: a class is empty, a score is not finite, or higher scores do not mean bona fide.
    """
    fitted = fit_map(method, bona_fide, spoof, units)
    if cost is None:
        threshold = float(fitted(eer_threshold(bona_fide, spoof)))
        calibration = Calibration(fitted.scale, fitted.offset, threshold)
    else:
        costs = (cost.spoof_prior, cost.miss, cost.false_alarm)
        calibration = Calibration(fitted.scale, fitted.offset, cost.threshold, *costs)
    if not fitted.scores:
        return replace(calibration, method=method)
    return replace(calibration, method=method, map_scores=fitted.scores, map_llrs=fitted.llrs)


def with_support(
    calibration: Calibration,
    bona_fide: npt.ArrayLike,
    spoof: npt.ArrayLike,
    speakers: tuple[list[str], list[str]] | None = None,
    replicates: int = 500,
) -> Calibration:
    """Return a calibration with bounds and replicates from its set.

    Args:
        speakers: Speaker of each trial of either class; None if unknown.
        replicates: Number of maps of the bootstrap, for intervals.
    """
    bona_fide = as_scores("bona fide", bona_fide)
    spoof = as_scores("spoof", spoof)
    to_llr = calibration.map
    lowest, highest = empirical_bounds(to_llr(bona_fide), to_llr(spoof))
    method = calibration.method or "logistic"
    maps = bootstrap_maps(method, bona_fide, spoof, speakers, replicates)
    if to_llr.scores:
        rows = [tuple(each(to_llr.scores).tolist()) for each in maps]
    else:
        rows = [(each.scale, each.offset) for each in maps]
    return replace(
        calibration, lowest_llr=lowest, highest_llr=highest, replicates=tuple(rows) or None
    )


def fit_llr(
    bona_fide: npt.ArrayLike, spoof: npt.ArrayLike, prior: float = 0.5
) -> tuple[float, float]:
    """Return scale and offset of the LLR with the lowest prior-weighted logistic loss.

    See `fit_weights` for the loss, and for scores without errors.

    Args:
        prior: Prior of bona fide.

    Raises:
        AsdfError: a class is empty, a score is not finite, or higher scores do not mean bona fide.
    """
    bona_fide = as_scores("bona fide", bona_fide)
    spoof = as_scores("spoof", spoof)
    return fit_affine(bona_fide, spoof, prior)


def eer_threshold(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """Return a threshold at the EER, from which on decisions are bona fide.

    It lies halfway between the last rejected score and the next one.
    """
    _, rejected = eer(bona_fide, spoof)
    classes = [as_scores("bona fide", bona_fide), as_scores("spoof", spoof)]
    scores = np.concatenate(classes)
    accepted = scores[scores > rejected]
    if not accepted.size:
        return float(np.nextafter(rejected, np.inf))
    return float((rejected + accepted.min()) / 2)

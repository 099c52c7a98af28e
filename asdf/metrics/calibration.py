"""Scores as log-likelihood ratios: a map, what its set supports, and a threshold.

Invariant: the map rises, so it changes no order and no EER; an affine map that is fitted with prior
0.5 has the lowest Cllr of all affine maps on the scores that it was fitted on. Bounds limit what an
LLR claims, and change no decision: decisions are those of the unbounded LLR.

Sources: Brümmer, "Measuring, refining and calibrating speaker and language information extracted
from speech", PhD thesis, Stellenbosch University, 2010, and his toolkit FoCal: prior-weighted
logistic regression; of the other maps, of the bounds and of the intervals see `llr_maps`,
`llr_bounds` and `llr_intervals`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.metrics.calibration_checks import is_sound
from asdf.metrics.costs import DetectionCost
from asdf.metrics.detection import as_scores, eer
from asdf.metrics.home import read_home
from asdf.metrics.llr_bounds import empirical_bounds
from asdf.metrics.llr_intervals import INTERVAL_LEVEL, bootstrap_maps
from asdf.metrics.llr_maps import LlrMap, fit_affine, fit_map

_METHOD_NAMES = {
    "logistic": "logistic regression",
    "regularised": "regularised logistic regression",
    "bi-gaussian": "bi-Gaussianised",
}
# What every entry has.
_ALWAYS = ("scale", "offset", "threshold", "spoof_prior", "miss", "false_alarm")
# The map and the decision, which no reader of a score needs.
_MAP_ENTRIES = (*_ALWAYS, "map_scores", "map_llrs", "replicates")


@dataclass(frozen=True)
class Calibration:
    """A map from scores to natural-log LLRs; bona fide from `threshold` (an LLR) on.

    Affine, LLR = scale * score + offset, or by the knots `map_scores` and `map_llrs`.

    Attributes:
        spoof_prior, miss, false_alarm: the costs whose Bayes threshold it is; None where it is that
            of the EER.
        set: name of the set that it was learnt from; this and what follows is None where it is not
            known, as of the first versions.
        trials: digest of the list of its trials.
        bona_fide, spoof: numbers of its trials.
        speakers: number of its speakers; None also where they are not known.
        date: day on which it was learnt, 2026-11-23.
        eer: equal error rate of the scores that it was learnt from, a fraction.
        cross_validated_cllr: Cllr in bits of trials by maps that were learnt from others.
        folds_of: 'speakers' or 'trials', which are held out together for it.
        method: Method that fitted the map, of `llr_maps.METHODS`; None: 'logistic'.
        lowest_llr, highest_llr: Bounds of what the set supports (`llr_bounds`); None: none.
        map_scores, map_llrs: Knots of a map that is not affine (`LlrMap`); None: it is affine.
        replicates: Maps of the bootstrap, (scale, offset) each, or the LLRs at the knots; None:
            there are no intervals.
        chose_network: Whether the set also chose the network, as the epoch of a training.
        where: Trials of the set that were selected, 'codec=amr, language=fr'; None: all.
        windows: Threshold for windows of long recordings, as plain values
            (`asdf.scoring.window_threshold`); None: not learnt.
        home: Model of the embeddings of its recordings, as plain values (`asdf.metrics.home`);
            None: not learnt.
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
        """Map from scores to LLRs, without bounds."""
        return LlrMap(self.scale, self.offset, self.map_scores or (), self.map_llrs or ())

    def llr(self, scores: npt.ArrayLike) -> Floats:
        """Return the log-likelihood ratios of a network's scores, of any shape, within bounds."""
        return self._bounded(self.map(scores))

    def unbounded_llr(self, scores: npt.ArrayLike) -> Floats:
        """Return the values of the map, also where they claim more than the set supports."""
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

        It is that of the percentiles of the bootstrap's maps, at a level of `INTERVAL_LEVEL`, and
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
        # As `LlrMap` does for one map: linear between knots, and with `scale` beyond them.
        knots = np.array(self.map_scores)
        position = np.interp(raw, knots, np.arange(knots.size))
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
        """Return in words that the LLR of a score is at a bound; '' where it is not."""
        unbounded = float(self.unbounded_llr(raw))
        if float(self.llr(raw)) == unbounded:
            return ""
        set_size = (
            f"{self.bona_fide:,} + {self.spoof:,}" if self.bona_fide and self.spoof else "the"
        )
        return f"LLR at the limit of what {set_size} recordings support"

    def describe_bounds(self) -> str:
        """Return in words which LLRs the set supports; '' without bounds."""
        if self.lowest_llr is None or self.highest_llr is None:
            return ""
        return (
            f"LLRs from {self.lowest_llr:.2f} to {self.highest_llr:.2f} are supported by its "
            "recordings"
        )

    def describe(self) -> str:
        """Return the decision in words."""
        decision = f"bona fide from an LLR of {self.threshold:.4g} on"
        if self.spoof_prior is None:
            return f"{decision}, where both error rates were equal"
        return (
            f"{decision}, the Bayes threshold where {self.spoof_prior:.4g} of the recordings are "
            f"spoofs, a missed bona fide costs {self.miss:g} and an accepted spoof "
            f"{self.false_alarm:g}"
        )

    def describe_method(self) -> str:
        """Return the method that fitted the map, in words."""
        return _METHOD_NAMES[self.method or "logistic"]

    def describe_origin(self) -> str:
        """Return in words what it was learnt from, '' where that is not known."""
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
        """Return in words what was measured on its set, and the method."""
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
        """Return where it is from and what it supports, for JSON; None where that is not known."""
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
    """Return tuples as lists: so has JSON them, and a network file refuses long tuples."""
    if isinstance(value, tuple):
        return list(map(_as_plain, value))
    return value


def read_calibration(entry: Any, path: object) -> Calibration | None:
    """Read the calibration of a network file from its `entry`; None where it has none.

    Raises:
        AsdfError: the entry is not what `Calibration.content` returns.
    """
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or not is_sound(entry):
        raise AsdfError(
            f"the calibration in {path} cannot be used: it was changed or damaged, or written by a "
            "newer ASDF. Calibrate again."
        )
    entries = dict(entry)
    # JSON has lists alone.
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
    """Calibrate scores, with the threshold of `cost`, or without it that of their EER.

    The result has neither bounds nor intervals (`with_support`).

    Args:
        method: Method of `llr_maps.METHODS`.
        units: Number of independent units, as of speakers (`fit_map`).

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
    """Return a calibration with the bounds and the replicates that its set gives.

    Args:
        speakers: Speaker of each trial of either class; None: not known.
        replicates: Number of the bootstrap's maps, from which intervals are read.
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

    See `fit_weights` for the loss, and for scores without an error.

    Args:
        prior: Prior of bona fide.

    Raises:
        AsdfError: a class is empty, a score is not finite, or higher scores do not mean bona fide.
    """
    bona_fide = as_scores("bona fide", bona_fide)
    spoof = as_scores("spoof", spoof)
    return fit_affine(bona_fide, spoof, prior)


def eer_threshold(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """Return a threshold at the EER for decisions 'bona fide from it on'.

    It lies halfway between the last score that is rejected and the next one.
    """
    _, rejected = eer(bona_fide, spoof)
    classes = [as_scores("bona fide", bona_fide), as_scores("spoof", spoof)]
    scores = np.concatenate(classes)
    accepted = scores[scores > rejected]
    if not accepted.size:
        return float(np.nextafter(rejected, np.inf))
    return float((rejected + accepted.min()) / 2)

"""Scores as log-likelihood ratios: a map with its range, and a threshold.

Invariant: the map is increasing, so it preserves order and EER; a fitted affine map has the lowest
Cllr of all affine maps on the scores that it was fitted to. Its range limits the
stated LLR but changes no decision: decisions use the value of the map. An entry of a network file,
which may be damaged or from anyone, gives a `Calibration` with an increasing map, finite numbers
and limited size, or is refused. What else extras know of a set is handed on as it is.

Sources: Brümmer, "Measuring, refining and calibrating speaker and language information extracted
from speech", PhD thesis, Stellenbosch University, 2010, and his toolkit FoCal, for prior-weighted
logistic regression; for the other maps, see `llr_maps`.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.metrics.detection import DetectionCost, as_scores, eer
from asdf.metrics.llr_maps import METHODS, LlrMap, fit_map
from asdf.ports import load, provided
from asdf.trials.score_file import Scores

_COSTS = ("spoof_prior", "miss", "false_alarm")
_ALWAYS = ("scale", "offset", "threshold", *_COSTS)
_TEXTS = ("set", "trials", "date", "folds_of", "method", "where")
_ORIGIN_NUMBERS = ("bona_fide", "spoof", "speakers", "eer", "cross_validated_cllr")
_RANGE = ("lowest_llr", "highest_llr")
_KNOTS = ("map_scores", "map_llrs")
# Far above the output of `calibrate`: a file that claims more is not ours.
_MAX_ROWS = 100_000
# LLRs of a ratio of 2, from which on there are words for it, up to rounding; and of a ratio of 3.
_LEAST_LLR = math.log(2) - 1e-12
_LEAST_SUPPORT = math.log(3)
_METHOD_NAMES = {
    "logistic": "logistic regression",
    "regularised": "regularised logistic regression",
    "bi-gaussian": "bi-Gaussianised",
}


def is_sound(entry: Mapping[str, Any]) -> bool:
    """Whether an entry has the form that `Calibration.content` writes."""
    numbers = {*_ALWAYS, *_ORIGIN_NUMBERS, *_RANGE}.intersection(entry)
    # The threshold at the EER has no costs, that of costs has all of them.
    if all(entry.get(name) is None for name in _COSTS):
        numbers -= set(_COSTS)
    return (
        set(_ALWAYS) <= set(entry)
        and all(isinstance(name, str) for name in entry)
        and all(isinstance(entry.get(name, ""), str) for name in _TEXTS)
        and entry.get("method", METHODS[0]) in METHODS
        and isinstance(entry.get("chose_network", False), bool)
        # Its content is checked by its reader, `asdf.scoring.parts`.
        and isinstance(entry.get("windows", {}), Mapping)
        and are_finite([entry[name] for name in numbers])
        and entry["scale"] > 0
        and len(numbers.intersection(_RANGE)) != 1
        and entry.get("lowest_llr", 0) <= 0 <= entry.get("highest_llr", 0)
        and (set(_KNOTS).isdisjoint(entry) or are_knots(*map(entry.get, _KNOTS)))
    )


def are_knots(scores: Any, values: Any) -> bool:
    """Return whether scores and values of a file are those of an increasing map."""
    if not are_finite(scores) or not are_finite(values) or not len(scores) == len(values) >= 2:
        return False
    return all(low < high for row in (scores, values) for low, high in itertools.pairwise(row))


def are_finite(values: Any) -> bool:
    """Return whether a value of a network file is a row of finite numbers."""
    if not isinstance(values, list | tuple) or len(values) > _MAX_ROWS:
        return False
    # Compared, since an integer beyond all floats has no `isfinite`.
    largest = sys.float_info.max
    return all(isinstance(value, float | int) and abs(value) <= largest for value in values)


# Keys of the map and the decision, which readers of scores do not need.
_MAP_ENTRIES = (*_ALWAYS, *_KNOTS)


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
        lowest_llr, highest_llr: Range of the LLRs that the set supports; None: any.
        map_scores, map_llrs: Knots of a map that is not affine (`LlrMap`); None for an affine map.
        chose_network: Whether the set also chose the network, for example its epoch.
        where: Selection of the set's trials, such as 'codec=amr, language=fr'; None for all.
        windows: Threshold for windows of long recordings, as plain values
            (`asdf.scoring.parts`); None if not learned.
        others: Plain values by key that the columns of extras learnt from its set.
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
    chose_network: bool | None = None
    where: str | None = None
    windows: dict[str, Any] | None = field(default=None, compare=False)
    others: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def map(self) -> LlrMap:
        """The map from scores to LLRs, beyond its range too."""
        return LlrMap(self.scale, self.offset, self.map_scores or (), self.map_llrs or ())

    def llr(self, scores: npt.ArrayLike) -> Floats:
        """Return the log-likelihood ratios of a network's scores, of any shape, in the range."""
        return self.in_range(self.map(scores))

    def unbounded_llr(self, scores: npt.ArrayLike) -> Floats:
        """Return the values of the map, even beyond what the set supports."""
        return self.map(scores)

    def beyond(self, raw: float) -> float | None:
        """Return the value of the map for a score, if it is beyond the range; else None."""
        value = float(self.map(raw))
        return None if float(self.llr(raw)) == value else value

    def in_range(self, llrs: Floats) -> Floats:
        """Return LLRs, with the ends of the range for those beyond them."""
        return np.clip(llrs, *self.range)

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest LLR that the set supports; infinite if it limits none."""
        if self.lowest_llr is None or self.highest_llr is None:
            return -math.inf, math.inf
        return self.lowest_llr, self.highest_llr

    @property
    def supports_threshold(self) -> bool:
        """Whether stated LLRs lie on both sides of the threshold, as values of the map do."""
        low, high = self.range
        return low < self.threshold <= high

    def is_clear(self, llr: float) -> bool:
        """Return whether an LLR in the range tells bona fide speech from spoofs.

        It does not if its ratio is between 1/2 and 2, or if the set does not support ratios above 3
        for both classes: a detector that finds no clear case of one class knows little of either.
        """
        low, high = self.range
        return abs(llr) >= _LEAST_LLR and min(-low, high) > _LEAST_SUPPORT

    def describe_limit(self, raw: float) -> str:
        """Describe that the LLR of a score is at an end of the range; '' if it is not."""
        if self.beyond(raw) is None:
            return ""
        size = f"{self.bona_fide:,} + {self.spoof:,}" if self.bona_fide and self.spoof else "the"
        return f"LLR at the limit of what {size} recordings support"

    def describe_range(self) -> str:
        """Describe the LLRs that the set supports; '' if it does not limit them."""
        low, high = self.range
        if math.isinf(low):
            return ""
        return f"LLRs from {low:.2f} to {high:.2f} are supported by its recordings"

    def describe(self) -> str:
        """Describe the decision in words."""
        # Rounded, since a threshold of 0 may come out as -4e-15.
        decision = f"bona fide from an LLR of {round(self.threshold, 9) + 0.0:.4g} on"
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
        if self.eer is not None:
            parts.append(f"EER {100 * self.eer:.2f} %")
        if self.cross_validated_cllr is not None:
            cost = f"Cllr {self.cross_validated_cllr:.3f} bits"
            parts.append(f"{cost}, cross-validated by {self.folds_of}")
        if self.method:
            parts.append(self.describe_method())
        if self.date:
            parts.append(self.date)
        sentence = f"calibrated on {', '.join(parts)}"
        if supported := self.describe_range():
            sentence += f"; {supported}"
        if self.chose_network:
            sentence += "; this set also chose the network, so its error rates are optimistic"
        return sentence

    def summary(self) -> dict[str, Any] | None:
        """Return its origin and range for JSON; None if unknown."""
        origin = self.describe_origin()
        if not origin:
            return None
        known = self.public().items()
        return {"origin": origin} | {name: x for name, x in known if name not in _MAP_ENTRIES}

    def public(self) -> dict[str, Any]:
        """Return plain values for readers, without those for the columns of extras."""
        return replace(self, others={}).content()

    def content(self) -> dict[str, Any]:
        """Return plain values for a network file."""
        entries: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "others" and (value is not None or each.name in _ALWAYS):
                # As in JSON, since a network file refuses long tuples.
                entries[each.name] = list(value) if isinstance(value, tuple) else value
        return entries | self.others


def damaged(path: object) -> AsdfError:
    """Return the error for a calibration in the network file `path` that cannot be used."""
    return AsdfError(
        f"the calibration in {path} cannot be used: it was changed, damaged, or written by a "
        "newer ASDF. Calibrate again."
    )


def read_calibration(entry: Any, path: object) -> Calibration | None:
    """Read the calibration of a network file from its `entry`; None if it has none.

    Raises:
        AsdfError: the entry is not what `Calibration.content` returns.
    """
    if entry is None:
        return None
    if not isinstance(entry, Mapping) or not is_sound(entry):
        raise damaged(path)
    names = {each.name for each in fields(Calibration)} - {"others"}
    entries = {name: value for name, value in entry.items() if name in names}
    # JSON only has lists.
    entries |= {name: tuple(entries[name]) for name in _KNOTS if name in entries}
    others = {name: value for name, value in entry.items() if name not in names}
    return Calibration(**entries, others=others)


def calibrate(
    bona_fide: npt.ArrayLike,
    spoof: npt.ArrayLike,
    cost: DetectionCost | None = None,
    method: str = "logistic",
    units: int | None = None,
) -> Calibration:
    """Calibrate scores, with the threshold of `cost`, or of the EER for None.

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


@dataclass(frozen=True)
class CalibrationSet:
    """The scores that a calibration is learnt from.

    Attributes:
        name: Name of the set; None if unknown.
        speakers: Speaker of each trial; None if unknown.
        where: Description of the selected trials; None: all.
        chose_network: Whether the set also chose the network; None if unknown.
    """

    scores: Scores
    name: str | None = None
    speakers: Sequence[str] | None = None
    where: str | None = None
    chose_network: bool | None = None

    @property
    def folds_of(self) -> str:
        """Groups that are held out together: 'speakers' or 'trials'."""
        return "trials" if self.speakers is None else "speakers"

    @property
    def speaker_count(self) -> int | None:
        """Number of speakers; None if unknown."""
        return None if self.speakers is None else len(set(self.speakers))

    def speakers_by_class(self) -> tuple[list[str], list[str]] | None:
        """Return the speaker of each bona fide and each spoof trial; None if unknown."""
        if self.speakers is None:
            return None
        of_trials = list(zip(self.speakers, self.scores.labels.tolist(), strict=True))
        bona_fide = [speaker for speaker, label in of_trials if label == 1]
        return bona_fide, [speaker for speaker, label in of_trials if label != 1]

    def describe(self, calibration: Calibration, cross_validated: float | None) -> Calibration:
        """Return a calibration with the facts about its set, and what extras learn from it.

        Args:
            cross_validated: Cross-validated Cllr in bits; None if unknown.
        """
        for path in provided("CALIBRATIONS").values():
            calibration = load(path)(calibration, self)
        scores = self.scores
        return replace(
            calibration,
            set=self.name,
            trials=scores.digest(),
            bona_fide=int(scores.bona_fide.size),
            spoof=int(scores.spoof.size),
            speakers=self.speaker_count,
            # In UTC, so that the day does not depend on the time zone of the machine.
            date=datetime.now(timezone.utc).date().isoformat(),
            eer=eer(scores.bona_fide, scores.spoof)[0],
            cross_validated_cllr=cross_validated,
            folds_of=self.folds_of,
            where=self.where,
            chose_network=self.chose_network,
        )


def eer_threshold(bona_fide: npt.ArrayLike, spoof: npt.ArrayLike) -> float:
    """Return a threshold at the EER, from which on decisions are bona fide.

    It lies halfway between the last rejected score and the next one.
    """
    _, rejected = eer(bona_fide, spoof)
    scores = np.concatenate([as_scores("bona fide", bona_fide), as_scores("spoof", spoof)])
    accepted = scores[scores > rejected]
    if not accepted.size:
        return float(np.nextafter(rejected, np.inf))
    return float((rejected + accepted.min()) / 2)

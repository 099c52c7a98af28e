"""What likelihood ratios a set of trials supports: bounds, intervals, and the column of a score.

Invariant: bounds lie on either side of 0, within the observed LLRs, and never beyond the logarithm
of one plus the number of trials of the contradicting class. The maps of the bootstrap depend only
on the scores, the speakers and the seed; each is fitted by the same method as the map itself.

Sources: Vergeer, van Es, de Jongh, Alberink and Stoel, "Numerical likelihood ratios outputted by LR
systems are often based on extrapolation: When to stop extrapolating?", Science & Justice 56, 2016,
482-491: the empirical lower and upper bound (ELUB). The grid of thresholds and the treatment of
ties, and hence the values, are those of the package lir of the Netherlands Forensic Institute.
Efron and Tibshirani, "An introduction to the bootstrap", 1993, for the percentile interval; whole
speakers are drawn, since trials of one speaker are dependent.

Likelihood ratios in the words of the ENFSI guideline.

Invariant: the words for a ratio and its inverse differ only in the propositions, and a larger ratio
never has weaker words.

Source: ENFSI guideline for evaluative reporting in forensic science, version 3.0, 2015, section 4:
its verbal equivalents and their limits. It has no words between 1 and 2; here the findings then
support neither proposition.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.metrics.calibration import Calibration, CalibrationSet, are_finite, damaged
from asdf.metrics.llr_maps import LN10, LlrMap, fit_map, log10_llr
from asdf.scoring.columns import (
    CANNOT_TELL,
    UNDECIDED,
    Heard,
    LlrColumn,
    Ratio,
    Request,
    four_digits,
)

NEITHER = "no support for one proposition over the other"
"""Words for a likelihood ratio between 1/2 and 2."""

# The lowest ratio of each, from the strongest on.
_STRENGTHS = (
    (1_000_000, "extremely strong"),
    (10_000, "very strong"),
    (1_000, "strong"),
    (100, "moderately strong"),
    (10, "moderate"),
    (2, "weak"),
)
# Tolerance for rounding, since exp(log(10)) is slightly below ten.
_TOLERANCE = 1e-12


def describe_llr(llr: float) -> str:
    """Return a log-likelihood ratio in the words of the ENFSI guideline.

    Args:
        llr: Natural logarithm of the ratio of the probabilities of the findings if the recording is
            bona fide and if it is a spoof.

    >>> describe_llr(math.log(150))
    'moderately strong support for bona fide rather than spoof'
    >>> describe_llr(-math.log(150))
    'moderately strong support for spoof rather than bona fide'
    >>> describe_llr(0.1)
    'no support for one proposition over the other'
    """
    if math.isnan(llr):
        raise ValueError("a likelihood ratio that is not a number has no verbal equivalent")
    propositions = "bona fide rather than spoof" if llr > 0 else "spoof rather than bona fide"
    for lowest_ratio, strength in _STRENGTHS:
        if abs(llr) >= math.log(lowest_ratio) - _TOLERANCE:
            return f"{strength} support for {propositions}"
    return NEITHER


# Distance between tested thresholds, in log10.
_STEP = 0.01
# Integers of trials may meet the prior's rate exactly, which does not count as a failure.
_ROUNDING = 1e-12
INTERVAL_LEVEL = 0.95
"""Level of the intervals of LLRs."""
_REPLICATES = 500
# Far above what `calibrate` writes: a file that claims more is not ours.
_MAX_ROWS = 100_000
# Maximum attempts for draws that lack a class or have reversed classes.
_TRIES = 3


def empirical_bounds(bona_fide: Floats, spoof: Floats) -> tuple[float, float]:
    """Return the lowest and highest LLR that the LLRs of a set support, in natural logarithms.

    Decisions by these LLRs at a threshold, with the prior odds for which it is the Bayes threshold,
    must be better than by the prior alone, even if one additional trial of each class were
    completely misleading. The bounds are the thresholds nearest to 0 beyond which this fails.

    Args:
        bona_fide, spoof: Finite LLRs of the trials of each class.
    """
    # In log10, as in the paper and in lir.
    bona_fide = np.sort(bona_fide) / LN10
    spoof = np.sort(spoof) / LN10
    # One trial in n + 1 is the smallest rate that n trials can show.
    lowest = max(min(bona_fide[0], spoof[0]), -math.log10(bona_fide.size + 1))
    highest = min(max(bona_fide[-1], spoof[-1]), math.log10(spoof.size + 1))
    first = min(0, math.floor(lowest / _STEP))
    last = max(0, math.floor(highest / _STEP) + 1)
    # The grid of possible bounds contains 0.
    thresholds = np.linspace(first * _STEP, last * _STEP, last - first + 1)
    missed = np.searchsorted(bona_fide, thresholds, side="right")
    accepted = spoof.size - np.searchsorted(spoof, thresholds, side="right")
    # The misleading trial of each class: bona fide below all thresholds, spoof above them.
    miss_rate = (missed + 1) / (bona_fide.size + 1)
    false_alarm_rate = (accepted + 1) / (spoof.size + 1)
    odds = 10**thresholds
    # The Bayes error rate of decisions at each threshold over that of the prior alone.
    rates = (miss_rate + odds * false_alarm_rate) / np.minimum(1, odds)
    fails = rates > 1 + _ROUNDING
    below = thresholds[fails & (thresholds <= 0)]
    above = thresholds[fails & (thresholds >= 0)]
    lower = below.max() + _STEP if below.size else thresholds[0]
    upper = above.min() - _STEP if above.size else thresholds[-1]
    # A system that is never better than the prior supports no LLR but 0.
    lower = min(float(lower), 0.0)
    upper = max(float(upper), 0.0)
    return lower * LN10, upper * LN10


def bootstrap_maps(
    method: str,
    bona_fide: Floats,
    spoof: Floats,
    speakers: tuple[list[str], list[str]] | None,
    count: int,
    seed: int = 0,
) -> list[LlrMap]:
    """Fit a map to each of `count` draws with replacement, of speakers or else of trials by class.

    Args:
        method: Method of `llr_maps.METHODS`.
        speakers: Speaker of each trial of either class; None to draw trials.

    Returns:
        Maps, fewer than `count` if many draws cannot be calibrated; none if most of them cannot.
    """
    rng = np.random.default_rng(seed)
    # Sorted, since the order of a set differs between processes, and the draws must not.
    names = None if speakers is None else sorted({*speakers[0], *speakers[1]})
    by_speaker = []
    for column in speakers or ():
        trials: dict[str, list[int]] = {name: [] for name in names or ()}
        for index, name in enumerate(column):
            trials[name].append(index)
        by_speaker.append([np.array(known, np.int64) for known in trials.values()])
    maps: list[LlrMap] = []
    for _ in range(_TRIES * count):
        if names is None:
            # As many of each class as there are.
            drawn = [rng.integers(scores.size, size=scores.size) for scores in (bona_fide, spoof)]
        else:
            chosen = rng.integers(len(names), size=len(names))
            drawn = []
            for known in by_speaker:
                drawn.append(np.concatenate([known[name] for name in chosen]))
        # It fails where a class is missing, or the scores are all equal or reversed.
        with suppress(AsdfError):
            units = None if names is None else len(names)
            maps.append(fit_map(method, bona_fide[drawn[0]], spoof[drawn[1]], units))
        if len(maps) == count:
            break
    return maps if 2 * len(maps) >= count else []


def with_support(
    calibration: Calibration, learnt_from: CalibrationSet, replicates: int = _REPLICATES
) -> Calibration:
    """Return a calibration with bounds, and maps of the bootstrap, from its set."""
    bona_fide, spoof = learnt_from.scores.bona_fide, learnt_from.scores.spoof
    to_llr = calibration.map
    lowest, highest = empirical_bounds(to_llr(bona_fide), to_llr(spoof))
    method = calibration.method or "logistic"
    maps = bootstrap_maps(method, bona_fide, spoof, learnt_from.speakers_by_class(), replicates)
    if to_llr.scores:
        rows = [each(to_llr.scores).tolist() for each in maps]
    else:
        rows = [[each.scale, each.offset] for each in maps]
    others = {**calibration.others, **({"replicates": rows} if rows else {})}
    return replace(calibration, lowest_llr=lowest, highest_llr=highest, others=others)


class Intervals:
    """Intervals of likelihood ratios over calibration sets like the one of a calibration."""

    def __init__(self, calibration: Calibration, source: object) -> None:
        """Read the maps of the bootstrap: (scale, offset) each, or the LLRs at the knots.

        Args:
            source: Path or name of the network, for messages.

        Raises:
            AsdfError: they are damaged.
        """
        width = len(calibration.map_scores or (0, 0))
        replicates = calibration.others["replicates"]
        is_sound = isinstance(replicates, list | tuple) and 0 < len(replicates) <= _MAX_ROWS
        if not is_sound or not all(are_finite(row) and len(row) == width for row in replicates):
            raise damaged(source)
        self._calibration = calibration
        self._rows = np.array(replicates, np.float64)

    def interval(self, raw: float) -> tuple[float, float]:
        """Return the interval of the LLR of a score, within bounds.

        It consists of percentiles of the bootstrap's maps, at the level `INTERVAL_LEVEL`, and
        contains the LLR.
        """
        llr = float(self._calibration.llr(raw))
        tail = (1 - INTERVAL_LEVEL) / 2
        rows = self._rows
        if self._calibration.map_scores is None:
            llrs = rows[:, 0] * raw + rows[:, 1]
        else:
            # As in `LlrMap` for one map: linear between knots, and with slope `scale` beyond them.
            knots = np.array(self._calibration.map_scores)
            position = np.interp(raw, knots, np.arange(knots.size))
            # The last knot has no right neighbour.
            left = min(int(position), knots.size - 2)
            share = position - left
            between = rows[:, left] * (1 - share) + rows[:, left + 1] * share
            beyond = raw - np.clip(raw, knots[0], knots[-1])
            llrs = between + self._calibration.scale * beyond
        quantiles = np.quantile(llrs, [tail, 1 - tail])
        low, high = self._calibration.in_range(quantiles).tolist()
        return min(low, llr), max(high, llr)


@dataclass(frozen=True)
class Supported(Ratio):
    """A likelihood ratio with what its set supports.

    Attributes:
        llr_interval: Interval of the LLR, (low, high), from the bootstrap of the calibration set;
            None if the calibration has none.
        llr_words: LLR in the words of the ENFSI guideline; '' if it is not valid for the recording.
    """

    llr_interval: tuple[float, float] | None = None
    llr_words: str = ""


def interval_words(
    texts: Sequence[str], llr: float, at_limit: bool, between: tuple[str, str] = ("", "to")
) -> str:
    """Return an interval in words, whose end at the limit of a set is no end."""
    low, high = texts
    if at_limit:
        return f"of at least {low}" if llr >= 0 else f"of at most {high}"
    return f"{between[0]} {low} {between[1]} {high}".strip()


class SupportColumn(LlrColumn):
    """The score of a calibrated network as a likelihood ratio: its interval, and its words."""

    kind = Supported
    attributes: ClassVar[dict[str, Any]] = {
        **LlrColumn.attributes,
        "llr_interval": None,
        "llr_words": "",
    }
    answer: ClassVar[Mapping[str, tuple[Any, str]]] = {
        **LlrColumn.answer,
        "llr_words": (
            str,
            "The same in the words of the ENFSI guideline of 2015; absent where the recording is "
            "not judged or `unlike`.",
        ),
        "llr_interval": (
            list[float],
            "Its interval at 95 %, from the bootstrap of the calibration set.",
        ),
    }
    cells = ("log10_llr", "llr_low", "llr_high", "unbounded_llr", "llr_words")

    def __init__(self, calibration: Calibration, source: object = "the network") -> None:
        super().__init__(calibration)
        has_intervals = "replicates" in calibration.others
        self._intervals = Intervals(calibration, source) if has_intervals else None

    @classmethod
    def wanted(cls, request: Request) -> SupportColumn | None:
        calibration = request.calibration
        return None if calibration is None else cls(calibration, request.source)

    def add(self, heard: Heard) -> Supported:
        interval = None if self._intervals is None else self._intervals.interval(heard.raw)
        is_valid = heard.judged and not heard.doubted
        words = describe_llr(heard.score) if is_valid else ""
        ratio = asdict(super().add(heard))
        # Other sets of this kind would support the other class.
        ratio["is_clear"] &= interval is None or not interval[0] <= 0 <= interval[1]
        return Supported(**ratio, llr_interval=interval, llr_words=words)

    @classmethod
    def row(cls, value: Ratio) -> tuple[Any, ...]:
        assert isinstance(value, Supported)
        low, high = value.llr_interval or (None, None)
        return log10_llr(value.llr), low, high, value.unbounded_llr, value.llr_words

    @classmethod
    def entry(cls, value: Ratio) -> dict[str, Any]:
        assert isinstance(value, Supported)
        known = super().entry(value)
        unbounded = known.pop("unbounded_llr", None)
        if value.llr_words:
            known["llr_words"] = value.llr_words
        if value.llr_interval is not None:
            known["llr_interval"] = list(value.llr_interval)
        return known if unbounded is None else {**known, "unbounded_llr": unbounded}

    @classmethod
    def facts(cls, value: Ratio, threshold: float | None) -> dict[str, str]:
        assert isinstance(value, Supported)
        facts = super().facts(value, threshold)
        if value.llr_interval is not None:
            ends = [four_digits(log10_llr(bound)) for bound in value.llr_interval]
            words = interval_words(ends, value.llr, value.unbounded_llr is not None)
            facts["log10, 95 % interval"] = words.removeprefix("of ")
        return facts

    @classmethod
    def sentences(cls, value: Ratio, verdict: str | None) -> list[str]:
        assert isinstance(value, Supported)
        sentences = []
        # Words for a ratio stand for a verdict that an undecided one does not support.
        if value.llr_words and verdict != UNDECIDED:
            sentences.append(f"In the words of the ENFSI guideline of 2015: {value.llr_words}.")
        if value.llr_interval is not None:
            ends = [f"{log10_llr(bound):+.2f}".replace("-", "−") for bound in value.llr_interval]
            at_limit = value.unbounded_llr is not None
            sentences.append(
                "Other calibration sets of this kind would give a log10 ratio "
                f"{interval_words(ends, value.llr, at_limit, ('between', 'and'))} (95 % interval)."
            )
        return sentences

    @classmethod
    def words(cls, value: Ratio) -> str:
        assert isinstance(value, Supported)
        if not value.llr_words:
            return ""
        interval = ""
        if value.llr_interval is not None:
            low, high = value.llr_interval
            interval = f", LLR {low:.2f} to {high:.2f} at {100 * INTERVAL_LEVEL:.0f} %"
        words = value.llr_words if value.is_clear else CANNOT_TELL.removesuffix(".")
        return f"{words} (log10 {log10_llr(value.llr):.2f}{interval})"

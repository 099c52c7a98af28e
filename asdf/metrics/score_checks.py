"""Checks of scores: reversed, of one class, not finite, tied, or of another subset.

Invariant: nothing is raised or changed; each finding states the problem, with numbers, and the fix.
An error leaves the metrics undefined; a warning leaves them defined but probably not as intended.
For sets whose published results cover only a part, a warning without subset labels requires the
exact number of trials of a known subset, since a set of any other size is the user's own.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from asdf.arrays import AnyIntegers, Floats
from asdf.facts import PUBLISHED
from asdf.metrics.detection import DetCurve, eer
from asdf.text import quoted_and_more
from asdf.trials.score_file import missing_class
from asdf.trials.trial_list import all_differ

# This proportion of trials with one score is not chance: float32 logits tie in pairs, not in
# masses.
_PILE = 0.01
# Ties whose order changes the EER by more than this (0.1 % absolute) decide comparisons.
_MOVED = 0.001
# Negated scores must be better by this (2 % absolute) to be more than the luck of an untrained
# network.
_TURNED = 0.02
# ... and the probability by chance must be below this.
_CHANCE = 0.05
SUBSET = "eval"
_SHOWN = 4
TITLES = {"asvspoof21-la": "ASVspoof 2021 LA", "asvspoof21-df": "ASVspoof 2021 DF"}
"""Corpora whose keys also hold trials of other subsets."""


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, with mean ranks for ties; None without a spread."""
    ranks = [_ranks(first), _ranks(second)]
    if any(np.ptp(values) == 0 for values in ranks):
        return None
    return float(np.corrcoef(ranks)[0, 1])


def _ranks(values: Sequence[float]) -> np.ndarray:
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    ranks: np.ndarray = (below + np.searchsorted(ordered, values, side="right") + 1) / 2
    return ranks


@dataclass(frozen=True)
class Finding:
    """A problem or suspicious property of scores; a report states the system, set or both."""

    level: Literal["error", "warning", "note"]
    message: str
    where: str = ""


def check_scores(
    labels: npt.ArrayLike, scores: npt.ArrayLike, ids: Sequence[str] | None = None
) -> list[Finding]:
    """Look for common mistakes in scores; labels and scores of shape (trials,).

    Returns:
        Errors if there are any, since the rest is then undefined; else warnings.
    """
    labels = np.asarray(labels, dtype=np.int64)
    scores = np.asarray(scores, dtype=np.float64)
    errors = find_errors(labels, scores, ids)
    if errors:
        return errors
    return find_warnings(DetCurve.of(scores[labels == 1], scores[labels == 0]))


def find_errors(
    labels: AnyIntegers, scores: Floats, ids: Sequence[str] | None = None
) -> list[Finding]:
    """Look for errors that leave the metrics undefined; arguments as in `check_scores`."""
    if not scores.size:
        return [Finding("error", "there are no trials. Was the scoring interrupted?")]
    errors = []
    if missing := missing_class(labels):
        errors.append(
            f"all {labels.size} trials are of one class, none is {missing}. Check the labels of "
            "the list."
        )
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        first = f"at trial {bad[0] + 1}" if ids is None else f"of {ids[bad[0]]!r}"
        errors.append(
            f"{bad.size} of {scores.size} scores are NaN or infinite, the first one {first}. "
            "Score in fp32, with a network that did not diverge."
        )
    return [Finding("error", message) for message in errors]


def find_warnings(curve: DetCurve) -> list[Finding]:
    """Look for scores that are probably not as intended."""
    messages = filter(None, (_turned_round(curve), _tied(curve)))
    return [Finding("warning", message) for message in messages]


def tied_proportion(scores: npt.ArrayLike) -> float:
    """Return the proportion of trials that share their score with another trial."""
    _, counts = np.unique(np.asarray(scores, dtype=np.float64), return_counts=True)
    return float(counts[counts > 1].sum() / counts.sum())


def _turned_round(curve: DetCurve) -> str:
    measured, _ = curve.eer()
    if measured <= 0.5:
        return ""
    # Both are pessimistic about ties, so both may lie above 50 %; an uninformative network lies
    # near it.
    negated, _ = eer(-curve.bona_fide, -curve.spoof)
    if negated >= 0.5 or measured - negated < _TURNED:
        return ""
    p_value = rank_test(curve)
    if p_value >= _CHANCE:
        return ""
    return (
        f"the scores look inverted: their EER is {100 * measured:.2f} %, that of the negated "
        f"scores {100 * negated:.2f} %, which is not chance (rank test, p = {p_value:.2g}). A "
        "higher score must mean bona fide; check which column of the network's output is bona "
        "fide, and the labels."
    )


def rank_test(curve: DetCurve) -> float:
    """Return the probability by chance of such low ranks of bona fide trials.

    It is the p-value of the one-sided Mann-Whitney test by its normal approximation with a
    correction for ties, which is accurate from eight trials of each class on and conservative
    below. For high ranks, exchange the classes of the curve.

    Source: Mann and Whitney, "On a test of whether one of two random variables is stochastically
    larger than the other", Annals of Mathematical Statistics 18, 1947.
    """
    m = curve.bona_fide.size
    n = curve.spoof.size
    trials = m + n
    _, counts = np.unique(curve.thresholds[1:], return_counts=True)
    # In float64, since the cube of some millions of ties exceeds int64.
    ties = (counts.astype(np.float64) ** 3 - counts).sum()
    tied = ties / (trials * (trials - 1))
    # With all scores tied, it is zero, and rounding must not make it negative.
    variance = m * n / 12 * max(trials + 1 - tied, 0)
    if variance == 0:
        return 1.0
    # The pairs in which bona fide is higher, minus half of all; 0.5 corrects for continuity.
    excess = curve.auc() * m * n - m * n / 2 + 0.5
    z = excess / math.sqrt(variance)
    return math.erfc(-z / math.sqrt(2)) / 2


def _tied(curve: DetCurve) -> str:
    scores = curve.thresholds[1:]
    values, counts = np.unique(scores, return_counts=True)
    if values.size == 1:
        return (
            f"all {counts[0]} scores are {values[0]:g}: the network cannot tell trials apart. Did "
            "the training diverge?"
        )
    pile = counts.max()
    if pile == 1:
        return ""
    pessimistic, _ = curve.eer()
    # With exchanged classes, spoof comes first among equals, so ties count as correct and rates as
    # their complements.
    exchanged, _ = eer(curve.spoof, curve.bona_fide)
    optimistic = 1 - exchanged
    is_pile = pile >= max(3, _PILE * counts.sum())
    if not is_pile and pessimistic - optimistic <= _MOVED:
        return ""
    return (
        f"{100 * tied_proportion(scores):.1f} % of the trials share their score with others, "
        f"{pile} of them the score {values[counts.argmax()]:g}. By the order of ties the EER lies "
        f"between {100 * optimistic:.2f} % and {100 * pessimistic:.2f} %, and the official value "
        "is the last one. Score with logits: a softmax in float32 saturates."
    )


def alike(ids: Sequence[str]) -> list[Finding]:
    """Warn of trials whose names differ only in letter case."""
    whole = "".join(ids)
    # Names of the field have capital letters alone.
    if (whole.isascii() and whole == whole.upper()) or all_differ(map(str.casefold, ids)):
        return []
    counts = Counter(map(str.casefold, ids))
    repeated = [utterance for utterance in ids if counts[utterance.casefold()] > 1]
    if not repeated:
        return []
    message = (
        f"{len(repeated)} trials have names that differ only in letter case: "
        f"{quoted_and_more(repeated, _SHOWN)}. If they are of the same recordings, score each once."
    )
    return [Finding("warning", message)]


def another_subset(trials: int, subsets: Sequence[str] = ()) -> list[Finding]:
    """Warn if the trials are not the subset that published results use.

    This is decided by subset labels or, without them, by the number of trials.
    """
    if subsets:
        counts = Counter(subsets)
        # Trials of a single subset are the published ones, or were selected by the subset's name.
        if SUBSET not in counts or len(counts) == 1:
            return []
        parts = ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))
        what = f"{trials:,} trials of all subsets ({parts})"
        return [_warning(what, "its protocol", counts[SUBSET])]
    for corpus, title in TITLES.items():
        sizes = PUBLISHED[corpus]
        for subset, size in sizes.items():
            if size.trials == trials and subset != SUBSET:
                part = "all subsets" if subset == "all" else subset
                what = f"{trials:,} trials, as many as {title} has in {part}"
                return [_warning(what, title, sizes[SUBSET].trials)]
    return []


def _warning(what: str, whose: str, published: int) -> Finding:
    return Finding(
        "warning",
        f"these are {what}; published numbers are for subset {SUBSET} of {whose} ({published:,} "
        f"trials), and may differ widely. Use --protocol P --subset {SUBSET} for those trials.",
    )

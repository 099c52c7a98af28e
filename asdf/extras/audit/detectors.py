"""Detectors that use one feature each, and all together: separation of the classes.

A detector computes the log-likelihood ratio of a feature's value from counts in bins of the
training folds, and scores the recordings of the left-out fold. Whether there is any difference is
tested without the detector, because the scores of different folds are dependent.

Invariant: no recording is scored by a detector trained on it, or on its speaker if speakers are
known; the same recordings get the same scores, in any order of the features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Flags, Floats, Indices
from asdf.metrics.bootstrap import Interval, confidence_intervals
from asdf.metrics.detection import DetCurve
from asdf.trials.score_file import Scores

FOLDS = 5
_MAX_BINS = 20
_PER_BIN = 20
_LEAST_BINS = 4
_MOST_WORDS = 255
Values = Sequence[float | str | None]
"""Values of a feature, one per recording; None if unknown."""

TIE = 1e-9
"""Range of the random numbers that break ties; a score within it says nothing."""


@dataclass(frozen=True)
class Separation:
    """Separation of the classes by scores.

    Attributes:
        eer: Equal error rate with its interval, as fractions.
        auc: Area under the ROC curve.
        scores: Scores that were tested, (recordings,).
    """

    eer: Interval
    auc: float
    scores: Floats


def are_words(values: Values) -> bool:
    """Return whether the known values are words."""
    return any(isinstance(value, str) for value in values)


def make_folds(groups: Sequence[str], seed: int = 0) -> Indices:
    """Return the fold of each recording, (recordings,): groups stay whole, sizes are equal."""
    sizes = Counter(groups)
    # Sorted before they are shuffled, so that folds do not depend on the order of the list.
    names = sorted(sizes)
    np.random.default_rng(seed).shuffle(names)
    # Large groups first, so that small ones fill the gaps.
    names.sort(key=lambda name: -sizes[name])
    totals = [0] * min(FOLDS, len(names))
    fold_of = {}
    for name in names:
        smallest = totals.index(min(totals))
        fold_of[name] = smallest
        totals[smallest] += sizes[name]
    return np.array(list(map(fold_of.__getitem__, groups)), np.intp)


def score_feature(values: Values, labels: Flags, folds: Indices) -> Floats:
    """Return the log-likelihood ratio of each recording from the detector of one feature.

    Args:
        values: Numbers, or words.
        labels: Whether each recording is bona fide.
        folds: Fold of each recording; its detector is trained on the others.
    """
    scores = np.zeros(len(labels))
    score = _score_words if are_words(values) else _score_numbers
    for fold in range(int(folds.max()) + 1):
        train = folds != fold
        # Nothing can be learnt from a single class.
        if labels[train].any() and not labels[train].all():
            scores[~train] = score(values, labels, train)
    # Ties are broken at random: the official EER counts each tie as an error.
    return scores + TIE * np.random.default_rng(0).uniform(size=len(scores))


def _score_words(values: Values, labels: Flags, train: Flags) -> Floats:
    words = np.array(values, str)
    known, codes = np.unique(words[train], return_inverse=True)
    ratios = _ratios(codes, labels[train], len(known))
    tested = words[~train]
    positions = np.searchsorted(known, tested)
    # A word behind the last known one has a position outside.
    positions = np.minimum(positions, len(known) - 1)
    # A word that is not in the training folds is not informative.
    is_known = known[positions] == tested
    scores: Floats = ratios[positions]
    scores[~is_known] = 0
    return scores


def _score_numbers(values: Values, labels: Flags, train: Flags) -> Floats:
    # None becomes NaN.
    numbers = np.array(values, np.float64)
    is_known = np.isfinite(numbers)
    learnt = train & is_known
    tested = numbers[~train]
    scores = np.zeros(len(tested))
    bona_fide = int(labels[learnt].sum())
    fewer = min(bona_fide, int(learnt.sum()) - bona_fide)
    if fewer:
        bins = min(_MAX_BINS, max(_LEAST_BINS, fewer // _PER_BIN))
        codes = _equal_bins(numbers[learnt], bins)
        # Bins of equal numbers may be empty.
        used, codes = np.unique(codes, return_inverse=True)
        ratios = _ratios(codes, labels[learnt], len(used))
        centres = [np.median(numbers[learnt][codes == code]) for code in range(len(used))]
        # Interpolated between the centres of bins, so that scores follow the numbers with few ties.
        scores = np.interp(np.nan_to_num(tested), centres, ratios)
    missing = (~is_known).astype(np.intp)
    # A missing value may distinguish the classes, too.
    absent = _ratios(missing[train], labels[train], 2)[1]
    scores[~np.isfinite(tested)] = absent
    return scores


def _equal_bins(numbers: Floats, bins: int) -> Indices:
    """Return the bin of each number; bins have equal counts, as far as numbers differ."""
    edges = np.quantile(numbers, np.linspace(0, 1, bins + 1))
    codes: Indices = np.searchsorted(np.unique(edges)[1:-1], numbers, side="right")
    return codes


def _ratios(codes: Indices, labels: Flags, count: int) -> Floats:
    """Return the log-likelihood ratio of each code; half a recording is added to each count."""
    bona_fide = np.bincount(codes[labels], minlength=count) + 0.5
    spoof = np.bincount(codes[~labels], minlength=count) + 0.5
    ratios: Floats = np.log(bona_fide / bona_fide.sum()) - np.log(spoof / spoof.sum())
    return ratios


def score_all_together(columns: Mapping[str, Values], labels: Flags, folds: Indices) -> Floats:
    """Return scores of boosted trees over all features, cross-validated."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

    inputs = []
    are_codes = []
    for values in columns.values():
        is_word = are_words(values)
        # Trees distinguish at most 255 words of a feature.
        if is_word and len(set(values)) > _MOST_WORDS:
            continue
        inputs.append(bins_of(values) if is_word else np.array(values, np.float64))
        are_codes.append(is_word)
    matrix = np.stack(inputs, axis=1)
    model = HistGradientBoostingClassifier(
        categorical_features=are_codes,
        max_iter=60,
        # It would set recordings aside at random, and not by speaker.
        early_stopping=False,
        random_state=0,
    )
    shares = cross_val_predict(
        model, matrix, labels, groups=folds, cv=LeaveOneGroupOut(), method="predict_proba"
    )
    # Trees may give a class a probability of 0, whose logarithm is not finite.
    probabilities = np.clip(shares[:, 1], 1e-6, 1 - 1e-6)
    scores: Floats = np.log(probabilities) - np.log1p(-probabilities)
    return scores


def separate(
    scores: Floats, labels: Flags, groups: Sequence[str] | None, replicates: int
) -> Separation:
    """Return the separation of the classes by scores.

    Args:
        groups: Speaker of each recording, for intervals over speakers; None: over recordings.
    """
    ids = list(map(str, range(len(scores))))
    scored = Scores(ids, labels.astype(np.int8), scores)
    curve = DetCurve.of_scores(scored)
    interval = confidence_intervals(scored, speakers=groups, replicates=replicates, curve=curve).eer
    return Separation(interval, curve.auc(), scores)


def permutation_tests(
    codes: Sequence[Indices], labels: Flags, groups: Sequence[str] | None, permutations: int
) -> list[float]:
    """Return, for each feature, the probability that chance ties it to the labels as closely.

    The measure is the mutual information of labels and bins. Labels are permuted in blocks of
    speakers, so that they stay clustered as the voices are: a feature that merely reflects the
    speakers of a class is not evidence.

    Args:
        codes: Bin of each recording, one array per feature.
        groups: Speaker of each recording; None: recordings are permuted freely.
    """
    speakers = np.arange(len(labels))
    if groups is not None:
        speakers = np.unique(np.asarray(groups), return_inverse=True)[1]
    targets = np.argsort(speakers, kind="stable")
    observed = [_information(feature, labels) for feature in codes]
    # The labels as they are count as one of the permutations, so that no p-value is 0.
    reached = np.ones(len(codes))
    rng = np.random.default_rng(0)
    permuted = np.empty_like(labels)
    for _ in range(permutations):
        ranks = rng.permutation(int(speakers.max()) + 1)
        # lexsort sorts by its last key first: speakers at random, then recordings within them.
        sources = np.lexsort((rng.uniform(size=len(labels)), ranks[speakers]))
        permuted[targets] = labels[sources]
        for index, feature in enumerate(codes):
            # Rounding errors are not a difference.
            reached[index] += _information(feature, permuted) >= observed[index] - 1e-12
    p_values: list[float] = (reached / (permutations + 1)).tolist()
    return p_values


def _information(codes: Indices, labels: Flags) -> float:
    """Return the mutual information of bins and labels, in nats."""
    totals = np.bincount(codes).astype(np.float64)
    bona_fide = np.bincount(codes, weights=labels, minlength=len(totals)).astype(np.float64)
    share = float(labels.mean())
    information = 0.0
    for counts, expected in (
        (bona_fide, totals * share),
        (totals - bona_fide, totals * (1 - share)),
    ):
        known = counts > 0
        information += float(np.sum(counts[known] * np.log(counts[known] / expected[known])))
    return information / len(labels)


def bins_of(values: Values) -> Indices:
    """Return the bin of each value: words themselves, numbers in bins with equal counts."""
    if are_words(values):
        return np.unique(np.array(values, str), return_inverse=True)[1]
    numbers = np.array(values, np.float64)
    is_known = np.isfinite(numbers)
    # Unknown values have their own bin, the first.
    codes = np.zeros(len(numbers), np.intp)
    codes[is_known] = 1 + _equal_bins(numbers[is_known], _MAX_BINS // 2)
    return codes


def chance(labels: Flags, replicates: int) -> Interval:
    """Return the EER of random scores, with the range of 95 of 100 such EERs."""
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(replicates):
        scores = rng.normal(size=len(labels))
        rates.append(DetCurve.of(scores[labels], scores[~labels]).eer()[0])
    low, high = np.quantile(rates, [0.025, 0.975])
    return Interval(0.5, float(low), float(high))

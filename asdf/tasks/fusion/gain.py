"""The gain from a fusion: cross-validated scores of the fusion and of each system alone.

Invariant: no trial is scored with weights that were fitted to it, or to another trial of its
speaker if speakers are known. The fusion and its systems are compared on the same folds. Each fold
has about the same share of both classes, and a trial's fold depends on the seed and the trials, not
on the order of a file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats, Integers, Labels
from asdf.errors import AsdfError
from asdf.metrics.bootstrap import Intervals, paired_test
from asdf.metrics.detection import cllr
from asdf.metrics.fusion import Fusion, fit_fusion
from asdf.metrics.llr_maps import fit_llr, fit_map
from asdf.metrics.results import Result, evaluate
from asdf.trials.score_file import Scores, missing_class

Folds = Integers


@dataclass
class _Group:
    """Trials that stay together; `digest` gives groups of equal size a random order."""

    trials: list[int]
    counts: Floats
    digest: bytes


def make_folds(
    ids: Sequence[str],
    labels: Labels,
    speakers: Sequence[str] | None = None,
    count: int = 5,
    seed: int = 0,
) -> Folds:
    """Return the fold of each trial, (trials,), from 0 to at most `count` - 1.

    Groups are assigned from the largest to the smallest, each to the fold in which its classes are
    rarest. Without `speakers`, each trial is a group.

    Raises:
        AsdfError: a class is missing if one of the folds is left out, for example with one speaker.
    """
    by_name: dict[str, _Group] = {}
    for trial, name in enumerate(ids if speakers is None else speakers):
        if name not in by_name:
            # File names may hold bytes that are not UTF-8.
            text = f"{seed} {name}".encode("utf-8", "surrogateescape")
            by_name[name] = _Group([], np.zeros(2), hashlib.sha256(text).digest())
        by_name[name].trials.append(trial)
        by_name[name].counts[labels[trial]] += 1
    groups = sorted(by_name.values(), key=lambda group: (-len(group.trials), group.digest))
    # With fewer groups than folds, each group is a fold.
    count = min(count, len(groups))
    totals = np.sum([group.counts for group in groups], axis=0)  # spoof, bona fide
    loads = np.zeros((count, 2))  # share of each class by fold
    folds = np.zeros(len(ids), np.int64)
    for group in groups:
        # A class without trials is refused below, and must not divide by zero here.
        shares = group.counts / np.maximum(totals, 1)
        # The sum of squared loads grows least with this fold, which balances both classes.
        fold = int(np.argmin(loads @ shares))
        loads[fold] += shares
        folds[group.trials] = fold
    for fold in range(count):
        missing = missing_class(labels[folds != fold])
        if missing:
            kind = "trials" if speakers is None else "speakers"
            raise AsdfError(
                f"cross-validation is not possible: without one of {count} folds of {kind} no "
                f"trial is {missing}. Take a larger set, or fewer folds."
            )
    return folds


Fit = Callable[[Floats, Labels], Callable[[Floats], Floats]]
"""Fits a map of scores (N, S) to LLRs (N,) on trials, and returns it."""


@dataclass(frozen=True)
class Member:
    """A single system of a fusion.

    Attributes:
        result: Result of its scores alone.
        cllr: Cllr of its LLRs, calibrated on the other folds; None if it cannot be calibrated.
        weight: Weight in the fusion that is fitted to all trials.
        fold_weights: Weights in the fusions that leave out each fold.
    """

    name: str
    result: Result
    cllr: float | None
    weight: float
    fold_weights: tuple[float, ...]


@dataclass(frozen=True)
class FusionGain:
    """A fusion, its systems and its gain.

    Attributes:
        fusion: Fusion that is fitted to all trials.
        llrs: LLRs of the trials, from the fusions that were fitted without them.
        result: Result of these LLRs.
        members: Systems in the order of the fusion.
        best: Index of the system with the lowest EER.
        gain: Difference fused minus best; the fusion is better below zero. None without replicates.
    """

    fusion: Fusion
    llrs: Scores
    result: Result
    members: tuple[Member, ...]
    best: int
    gain: Intervals | None


def measure_gain(
    systems: Sequence[Scores],
    names: Sequence[str],
    method: str,
    folds: Folds,
    *,
    speakers: Sequence[str] | None = None,
    replicates: int = 1000,
    seed: int = 0,
) -> FusionGain:
    """Fit a fusion and test its gain over the best single system by a paired bootstrap.

    Args:
        systems: Scores of the systems, for the same trials in one order.
        folds: Fold of each trial.
        speakers: Speaker of each trial; None: the bootstrap draws trials.

    Raises:
        AsdfError: as `fit_fusion`.
    """
    first = systems[0]
    scores_NS = np.stack([system.scores for system in systems], axis=1)  # (trials, systems)
    # One fusion per fold, in their order: `_out_of_fold` calls `fit` once for each.
    fusions: list[Fusion] = []

    def fit(scores_MS: Floats, labels: Labels) -> Callable[[Floats], Floats]:
        fusion = fit_fusion(method, scores_MS, labels, names)
        fusions.append(fusion)
        if fusion.is_llr:
            return fusion.fuse
        # Fused scores are mapped to LLRs, because those of different folds need one scale.
        fused = fusion.fuse(scores_MS)
        scale, offset = fit_llr(fused[labels == 1], fused[labels == 0])
        return lambda scores: scale * fusion.fuse(scores) + offset

    llrs = Scores.of(first, _out_of_fold(fit, scores_NS, first.labels, folds))
    whole = fit_fusion(method, scores_NS, first.labels, names)
    members = []
    for index, (name, system) in enumerate(zip(names, systems, strict=True)):
        weights = tuple(fusion.weights[index] for fusion in fusions)
        alone = (evaluate(system), calibrated_cllr(system, folds))
        members.append(Member(name, *alone, whole.weights[index], weights))
    # On all trials at once, since the EER of a single system needs no fit.
    best = min(range(len(members)), key=lambda index: members[index].result.eer)
    gain = None
    if replicates:
        gain = paired_test(systems[best], llrs, speakers=speakers, replicates=replicates, seed=seed)
    return FusionGain(whole, llrs, evaluate(llrs), tuple(members), best, gain)


def _out_of_fold(fit: Fit, scores_NS: Floats, labels: Labels, folds: Folds) -> Floats:
    """Return the LLR of each trial from the map that was fitted to the other folds."""
    llrs = np.empty(len(labels))
    for fold in np.unique(folds):
        held_out = folds == fold
        to_llr = fit(scores_NS[~held_out], labels[~held_out])
        llrs[held_out] = to_llr(scores_NS[held_out])
    return llrs


def calibrated_cllr(
    system: Scores, folds: Folds, method: str = "logistic", units: int | None = None
) -> float | None:
    """Return the Cllr in bits of scores that are calibrated on the other folds.

    Args:
        folds: Fold of each trial (`make_folds`).
        method: Method that fits the maps, one of `llr_maps.METHODS`.
        units: Number of independent units in all folds (`fit_map`).

    Returns:
        Cllr in bits; None if calibration fails without some fold, for example if all scores are
        equal.
    """

    def fit(scores_N1: Floats, labels: Labels) -> Callable[[Floats], Floats]:
        scores = scores_N1[:, 0]
        fitted = fit_map(method, scores[labels == 1], scores[labels == 0], units)
        return lambda others: fitted(others[:, 0])

    try:
        llrs = _out_of_fold(fit, system.scores[:, None], system.labels, folds)
    except AsdfError:
        # The scores are reversed or all equal: a fusion may still use the system, or refuse it by
        # name.
        return None
    return cllr(llrs[system.labels == 1], llrs[system.labels == 0])

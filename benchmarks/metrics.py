"""Metrics of a million trials: EER against plain loops, bootstrap against sorting again.

The scores are two normal distributions, a tenth bona fide, with an EER near 5 %. The peers are what
the packages of ASVspoof do: `sorted_eer` is their way with numpy (concatenate, stable argsort,
cumulative sums); `looped_eer` goes over the trials in Python, as many scripts do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from asdf.evaluation import Scores, confidence_intervals, eer
from benchmarks.harness import in_turns
from benchmarks.rows import Row, compared, limited

REPLICATES = 1000
TIMED = 5
APART = 3.29  # standard deviations


def rows(quick: bool) -> Iterator[Row]:
    """Yield seconds for the EER and for 1,000 replicates."""
    trials, rounds = (20_000, 3) if quick else (1_000_000, 7)
    scores = make_scores(trials)
    bona_fide, spoof = scores.bona_fide, scores.spoof
    times = in_turns(
        {
            "asdf": lambda: eer(bona_fide, spoof),
            "sorted": lambda: sorted_eer(bona_fide, spoof),
            "looped": lambda: looped_eer(bona_fide, spoof),
        },
        rounds,
    )
    what = f"EER, {trials:,} trials"
    yield limited(what, "s", times["asdf"], 0.3)
    yield compared(what, "s", times["asdf"], "the official formula, numpy", times["sorted"])
    yield compared(what, "s", times["asdf"], "the same as a Python loop", times["looped"])

    draws = np.random.default_rng(0)
    times = in_turns(
        {
            "asdf": lambda: confidence_intervals(scores, replicates=REPLICATES),
            "naive": lambda: naive_bootstrap(bona_fide, spoof, TIMED, draws),
        },
        3 if quick else 5,
    )
    yield compared(
        f"bootstrap, {REPLICATES:,} replicates",
        "s",
        times["asdf"],
        "draw and sort again",
        [REPLICATES / TIMED * seconds for seconds in times["naive"]],
        target=50.0,
        note=f"the peer's time is {TIMED} replicates times {REPLICATES // TIMED}, for the EER "
        "alone; "
        "ASDF's is for EER and minDCF",
    )


def make_scores(trials: int) -> Scores:
    """Return trials whose scores have two normal distributions."""
    rng = np.random.default_rng(1)
    labels = (rng.random(trials) < 0.1).astype(np.int8)
    return Scores(
        [str(i) for i in range(trials)], labels, rng.standard_normal(trials) + APART * labels
    )


def sorted_eer(bona_fide: np.ndarray, spoof: np.ndarray) -> float:
    """Return the EER, as a fraction, computed as in the ASVspoof packages with numpy."""
    labels = np.concatenate([np.ones(bona_fide.size), np.zeros(spoof.size)])
    labels = labels[np.argsort(np.concatenate([bona_fide, spoof]), kind="mergesort")]
    missed = np.cumsum(labels)
    passed = spoof.size - (np.arange(1, labels.size + 1) - missed)
    frr = np.concatenate([[0.0], missed / bona_fide.size])
    far = np.concatenate([[1.0], passed / spoof.size])
    nearest = np.argmin(np.abs(frr - far))
    return float((frr[nearest] + far[nearest]) / 2)


def looped_eer(bona_fide: np.ndarray, spoof: np.ndarray) -> float:
    """Return the same EER, one trial after another."""
    trials = sorted(
        [(s, 1) for s in bona_fide.tolist()] + [(s, 0) for s in spoof.tolist()],
        key=lambda trial: trial[0],
    )
    missed, passed, least, value = 0, spoof.size, 1.0, 0.5
    for _, label in trials:
        missed += label
        passed -= 1 - label
        frr, far = missed / bona_fide.size, passed / spoof.size
        if abs(frr - far) < least:
            least, value = abs(frr - far), (frr + far) / 2
    return value


def naive_bootstrap(
    bona_fide: np.ndarray, spoof: np.ndarray, replicates: int, rng: np.random.Generator
) -> list[float]:
    """Return EERs of trials drawn with replacement within each class, and sorted again."""
    return [
        sorted_eer(rng.choice(bona_fide, bona_fide.size), rng.choice(spoof, spoof.size))
        for _ in range(replicates)
    ]

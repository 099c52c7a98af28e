"""Distance of a set of recordings from a network's training set, by embeddings.

Invariant: the distance of a new set is reported next to distances within the training set: held-out
parts of it, with the same number of recordings, and whole speakers if they are known. A distance
alone is not meaningful, because it grows with the noise of small sets.

The distance is the Fréchet distance between two normal distributions, |m1 - m2|^2 + tr(C1 + C2 - 2
(C1 C2)^(1/2)) (Dowson and Landau, Journal of Multivariate Analysis, 1982), as in FID and FAD. Its
coordinates are those along the principal axes of the training set, plus the distance from these
axes, so that directions absent from the training set count too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from asdf.arrays import Floats, Integers
from asdf.errors import AsdfError
from asdf.runs.seeds import generator

MIN_RECORDINGS = 20
_MAX_AXES = 32
# Minimum number of recordings per axis: a covariance of fewer is noise.
_PER_AXIS = 4


@dataclass(frozen=True)
class HomeDistance:
    """The distance of a new set, next to distances of held-out training recordings.

    Attributes:
        value: Mean distance over the draws.
        low, high: Bounds of its 95 % interval over the recordings, or speakers, of both sets.
        home: Mean distance of held-out training recordings.
        home_high: Distance above 97.5 % of the draws of held-out training recordings.
        recordings: Number of recordings in each compared part.
        axes: Number of principal axes of the training set that were used.
        by_speakers: Whether whole speakers were held out and drawn.
    """

    value: float
    low: float
    high: float
    home: float
    home_high: float
    recordings: int
    axes: int
    by_speakers: bool

    @property
    def is_far(self) -> bool:
        """Whether the whole interval exceeds the distances of held-out training recordings."""
        return self.low > self.home_high

    def describe(self) -> str:
        """Return the distance in a sentence."""
        if self.is_far:
            return (
                "far from home: these recordings differ from the training set by more than its "
                "own held-out recordings do. Error rates on other sets say little about them."
            )
        return (
            "near home: these recordings do not differ from the training set by more than its own "
            "held-out recordings do."
        )


def frechet_distance(first_NE: Floats, second_ME: Floats) -> float:
    """Return the squared Fréchet distance of the normal distributions of two samples."""
    means = first_NE.mean(axis=0) - second_ME.mean(axis=0)
    # For a single coordinate, `cov` returns a scalar.
    first = np.atleast_2d(np.cov(first_NE, rowvar=False))
    second = np.atleast_2d(np.cov(second_ME, rowvar=False))
    # The eigenvalues of C1 C2 are those of the symmetric C1^(1/2) C2 C1^(1/2).
    values, vectors = np.linalg.eigh(first)
    # Rounding may make eigenvalues of 0 slightly negative.
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    eigenvalues = np.linalg.eigvalsh(root @ second @ root)
    overlap = np.sqrt(np.maximum(eigenvalues, 0)).sum()
    distance = means @ means + np.trace(first) + np.trace(second) - 2 * overlap
    # Rounding may make the distance of equal samples slightly negative.
    return float(max(distance, 0.0))


def measure_distance(
    training_NE: np.ndarray,
    new_ME: np.ndarray,
    *,
    training_speakers: Sequence[str] | None = None,
    new_speakers: Sequence[str] | None = None,
    draws: int = 200,
    seed: int = 0,
) -> HomeDistance:
    """Compare a new set with the training set, and the training set with itself.

    Each draw holds out half of the training set (of its speakers), and compares the other half with
    a sample of the held-out half and a sample of the new set. Both samples have the same size and
    are drawn with replacement (by speakers).

    Args:
        training_speakers, new_speakers: Speaker of each recording; None if some are unknown.

    Raises:
        AsdfError: the embeddings are of different networks, or there are too few recordings.
    """
    _check(training_NE, new_ME)
    by_speakers = training_speakers is not None and new_speakers is not None
    training_groups = _group(len(training_NE), training_speakers if by_speakers else None)
    new_groups = _group(len(new_ME), new_speakers if by_speakers else None)
    # One size for both samples, because the distance grows with the noise of small ones.
    size = min(len(new_ME), len(training_NE) // 2)
    axes = _Axes.of(np.asarray(training_NE, np.float64), size)
    training = axes.coordinates(np.asarray(training_NE, np.float64))
    new = axes.coordinates(np.asarray(new_ME, np.float64))
    rng = generator(seed, "distance")
    home = []
    away = []
    for _ in range(draws):
        order = rng.permutation(len(training_groups))
        half = len(order) // 2
        chosen = order[:half]
        reference = training[np.concatenate([training_groups[index] for index in chosen.tolist()])]
        held_out = [training_groups[index] for index in order[half:]]
        sample = training[_draw(held_out, size, rng)]
        home.append(frechet_distance(reference, sample))
        away.append(frechet_distance(reference, new[_draw(new_groups, size, rng)]))
    low, high = np.quantile(away, [0.025, 0.975])
    return HomeDistance(
        float(np.mean(away)),
        float(low),
        float(high),
        float(np.mean(home)),
        float(np.quantile(home, 0.975)),
        size,
        len(axes.axes_AE),
        by_speakers,
    )


class _Axes(NamedTuple):
    """The principal axes of a set."""

    centre_E: Floats
    axes_AE: Floats

    @classmethod
    def of(cls, values_NE: Floats, size: int) -> _Axes:
        centre_E = values_NE.mean(axis=0)
        _, sizes, axes_RE = np.linalg.svd(values_NE - centre_E, full_matrices=False)
        # Directions without any variance are not axes: the distance from the axes covers them.
        count = min(_MAX_AXES, max(1, size // _PER_AXIS), int((sizes > 0).sum()))
        return cls(centre_E, axes_RE[:count])

    def coordinates(self, values_NE: Floats) -> Floats:
        """Return coordinates along the axes, and the distance from their span: (N, A + 1)."""
        centred_NE = values_NE - self.centre_E
        along_NA = centred_NE @ self.axes_AE.T
        rest_NE = centred_NE - along_NA @ self.axes_AE  # orthogonal to all axes
        return np.concatenate([along_NA, np.linalg.norm(rest_NE, axis=1)[:, None]], axis=1)


def _group(count: int, speakers: Sequence[str] | None) -> list[Integers]:
    """Return the indices of each speaker's recordings; one group per recording without speakers."""
    if speakers is None:
        return list(np.arange(count)[:, None])
    names, index = np.unique(np.asarray(speakers), return_inverse=True)
    # Half of the speakers are held out, and a single speaker shows no variation between speakers.
    if len(names) < 4:
        raise AsdfError(f"{len(names)} speakers are too few for an interval over speakers.")
    return [np.flatnonzero(index == number) for number in range(len(names))]


def _draw(groups: Sequence[Integers], size: int, rng: np.random.Generator) -> Integers:
    """Draw groups with replacement until there are `size` indices."""
    drawn: list[Integers] = []
    count = 0
    while count < size:
        group = groups[int(rng.integers(len(groups)))]
        drawn.append(group)
        count += len(group)
    # The last group may be cut, so that all samples have one size.
    return np.concatenate(drawn)[:size]


def _check(training_NE: np.ndarray, new_ME: np.ndarray) -> None:
    if training_NE.shape[1] != new_ME.shape[1]:
        raise AsdfError(
            f"embeddings of {training_NE.shape[1]} and {new_ME.shape[1]} numbers are of different "
            "networks: embed both lists with the same network."
        )
    fewest = min(len(training_NE) // 2, len(new_ME))
    if fewest < MIN_RECORDINGS:
        raise AsdfError(
            f"{len(training_NE)} training and {len(new_ME)} new recordings are too few for a "
            f"distance, which needs {2 * MIN_RECORDINGS} and {MIN_RECORDINGS}."
        )

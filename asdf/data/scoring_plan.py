"""The division of a trial list into batches for scoring.

Invariant: batches are formed from the whole list before they are distributed over processes, and
all trials of a batch are scored from the same number of samples. Nothing is padded, and the batch
of a trial, hence its score to the last bit, does not depend on the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from asdf.settings.sections import Network
from asdf.trials.how_scored import ScoredLength

_CPU_FACTOR = 2.0
_MEMORY_STEP = 8 * 2**30
# Maximum memory per sample of a batch among the project's networks, for AASIST in float32; 300M
# XLS-R takes 1,234 in float32 and 1,439 in bf16. cuDNN's workspaces are not included.
_BYTES_PER_SAMPLE = 3300
# Larger batches keep no GPU busier, and with this limit none of our layers has 2**31 values, above
# which kernels are slower or missing.
_MAX_SAMPLES = 2**23


@dataclass(frozen=True)
class ScoringBatch:
    """Trials (indices into the list) and the number of leading samples used for each score."""

    trials: np.ndarray
    samples: int


@dataclass(frozen=True)
class ScoringPlan:
    """The rules for dividing trials into batches.

    Attributes:
        length: Part of a recording that is scored.
        grid: Function that returns how many of a number of samples the network uses (its
            `scoring_length`).
        max_batch_samples: Maximum number of samples of a batch with several trials.
        max_cut_proportion: Maximum proportion of a trial that is cut from its end to share a batch.
    """

    length: ScoredLength
    grid: Callable[[int], int]
    max_batch_samples: int
    max_cut_proportion: float = 0.0

    def scored_samples(self, samples: int) -> int:
        """Return the number of samples that a recording of `samples` is scored from.

        It is repeated up to the minimum, cut at the maximum, then cut to the grid.
        """
        samples = max(samples, self.length.min_samples)
        if self.length.max_samples is not None:
            samples = min(samples, self.length.max_samples)
        return self.grid(samples)

    def batches(self, lengths: np.ndarray) -> list[ScoringBatch]:
        """Divide trials of `lengths` (samples) into batches.

        The longest come first, so that a lack of memory shows at once, and the last batches of all
        processes end together.
        """
        if not len(lengths):
            return []
        # A list has far fewer distinct lengths than trials.
        distinct, which = np.unique(lengths, return_inverse=True)
        scored = np.array([self.scored_samples(samples) for samples in distinct.tolist()])[which]
        if self.max_cut_proportion > 0:
            scored = _cut_lengths(scored, self.max_cut_proportion)
        order = np.argsort(-scored, kind="stable")
        is_first = np.diff(scored[order], prepend=-1) != 0
        starts = np.flatnonzero(is_first)
        batches = []
        for group in np.split(order, starts[1:]):
            samples = int(scored[group[0]])
            size = max(1, self.max_batch_samples // samples)
            for start in range(0, len(group), size):
                batches.append(ScoringBatch(group[start : start + size], samples))
        return batches


def batch_samples(settings: Network, gpu_bytes: int = 0) -> int:
    """Return the maximum number of samples of a scoring batch.

    'auto' is the factor 2 on a CPU. On a GPU, it fills a quarter of the memory, which leaves room
    for validated training; the memory is counted in multiples of `_MEMORY_STEP`, since GPUs of the
    same model differ by some megabytes with their drivers.

    Args:
        gpu_bytes: Total memory of the GPU in bytes, including other programs' use; 0 on a CPU.
    """
    factor = settings.eval_minibatch_size_factor
    minibatch = settings.minibatch_size * settings.train_clip_size
    if factor != "auto":
        return int(minibatch * factor)
    usual = int(minibatch * _CPU_FACTOR)
    counted = gpu_bytes // _MEMORY_STEP * _MEMORY_STEP
    fitting = counted // 4 // _BYTES_PER_SAMPLE
    return max(usual, min(fitting, _MAX_SAMPLES))


def _cut_lengths(scored: np.ndarray, proportion: float) -> np.ndarray:
    """Lower each length to the shortest one that cuts at most `proportion` of it."""
    distinct, which = np.unique(scored, return_inverse=True)
    shortest = distinct[0]
    lowered = []
    for samples in distinct.tolist():
        if shortest < samples * (1 - proportion):
            shortest = samples
        lowered.append(shortest)
    return np.array(lowered)[which]

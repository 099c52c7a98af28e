"""How a trial list is cut into batches for scoring.

Invariant: batches are formed from the whole list before they are dealt out to processes, and a batch holds trials that
are scored from the same number of samples. So nothing is padded, and the batch that a trial is in, hence its score to
the last bit, does not depend on the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from asdf.settings.sections import Network

_CPU_FACTOR = 2.0
_MEMORY_STEP = 8 * 2**30
# The most that a network of the project takes per sample of a batch, which is AASIST in float32;
# 300M XLS-R takes 1,234 in float32 and 1,439 in bf16. cuDNN's workspaces come on top.
_BYTES_PER_SAMPLE = 3300
# More keeps no GPU busier, and no layer of ours has 2**31 values then, beyond which kernels are
# slower or missing.
_MOST_SAMPLES = 2**23


@dataclass(frozen=True)
class ScoringBatch:
    """Trials (indices into the list) and the number of leading samples that each is scored from."""

    trials: np.ndarray
    samples: int


def scored_length(length: int, settings: Network, grid: Callable[[int], int]) -> int:
    """Samples that a recording of `length` samples is scored from: repeated up to the least length, cut down to the
    greatest, then to what the network's `grid` (its `scoring_length`) says that it uses."""
    least, most = (
        settings.min_evaluation_utterance_length_in_samples,
        settings.max_evaluation_utterance_length_in_samples,
    )
    return grid(min(max(length, least), most))


def batch_samples(settings: Network, gpu_bytes: int = 0) -> int:
    """How many samples a scoring batch holds at most.

    'auto' is the factor 2 on a CPU. On a GPU it is what a quarter of the memory holds, which leaves
    room for a training that is validated; the memory counts in whole `_MEMORY_STEP`, since GPUs of
    one kind differ by some megabytes with their drivers.

    Args:
        gpu_bytes: the whole memory of the GPU, also what other programs use; 0 on a CPU.
    """
    factor = settings.eval_minibatch_size_factor
    minibatch = settings.minibatch_size * settings.train_clip_size
    if factor != "auto":
        return int(minibatch * factor)
    usual = int(minibatch * _CPU_FACTOR)
    counted = gpu_bytes // _MEMORY_STEP * _MEMORY_STEP
    fitting = counted // 4 // _BYTES_PER_SAMPLE
    return max(usual, min(fitting, _MOST_SAMPLES))


def scoring_batches(
    lengths: np.ndarray, settings: Network, grid: Callable[[int], int], gpu_bytes: int = 0
) -> list[ScoringBatch]:
    """Cut trials of `lengths` (samples) into batches of at most `batch_samples`, or of one trial; longest first, so
    that what does not fit in memory shows at once and the last batches of all processes end together.

    With `max_cut_proportion` > 0 a trial may lose that part of its end to share a batch with shorter ones.
    """
    budget = batch_samples(settings, gpu_bytes)
    kinds, kind_of = np.unique(lengths, return_inverse=True)
    scored = np.array([scored_length(length, settings, grid) for length in kinds.tolist()])[kind_of]
    if settings.max_cut_proportion > 0:
        scored = _cut(scored, settings.max_cut_proportion)
    batches = []
    order = np.argsort(-scored, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(scored[order]) != 0])
    for group in np.split(order, starts[1:]):
        samples = int(scored[group[0]])
        most = max(1, budget // samples)
        batches += [ScoringBatch(group[i : i + most], samples) for i in range(0, len(group), most)]
    return batches


def _cut(scored: np.ndarray, proportion: float) -> np.ndarray:
    """Lower each length to the shortest one that costs it at most `proportion`, whole groups at a time."""
    kinds, kind_of = np.unique(scored, return_inverse=True)
    shortest, lowered = kinds[0], []
    for kind in kinds.tolist():
        if shortest < kind * (1 - proportion):
            shortest = kind
        lowered.append(shortest)
    return np.array(lowered)[kind_of]

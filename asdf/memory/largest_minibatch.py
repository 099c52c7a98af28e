"""The largest minibatch that fits into a GPU of a given size, by the steps of a dry run.

Invariant: each size that is tried is computed as in the run, so the answer depends neither on a GPU
nor on other programs that use one.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

from asdf.memory.case import OUTSIDE_ALLOCATOR, Case, in_gibibytes
from asdf.memory.training_step import training_memory

# Larger than the step of any common training.
_MOST = 4096


@dataclass(frozen=True)
class LargestMinibatch:
    """The largest minibatch of a process.

    Attributes:
        size: Number of utterances; 0 if not even one fits.
        peak: GPU memory of a step, in bytes; of one utterance if none fits.
    """

    size: int
    peak: int


def largest_minibatch(
    case: Case,
    total: int,
) -> LargestMinibatch:
    """Find the largest minibatch that fits into `total` bytes of a GPU, by bisection.

    Raises:
        Exception: any error of a network that reads values of tensors.
    """
    peaks: dict[int, int] = {}

    def fits(size: int) -> bool:
        if size not in peaks:
            settings = copy.deepcopy(case.settings)
            settings.network.minibatch_size = size
            # It would decide the minibatch of each process instead.
            settings.network.global_minibatch_size = None
            if settings.lengths.minibatch_s is not None:
                settings.lengths.minibatch_s = size * settings.lengths.max_crop_s
            memory = training_memory(replace(case, settings=settings))
            peaks[size] = memory.peak + OUTSIDE_ALLOCATOR
        return peaks[size] <= total

    if not fits(1):
        return LargestMinibatch(0, peaks[1])
    low = 1
    while low < _MOST and fits(2 * low):
        low *= 2
    high = min(2 * low, _MOST + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return LargestMinibatch(low, peaks[low])


def describe_largest(
    case: Case,
    total: int,
) -> str:
    """Return in words the largest minibatch that fits into `total` bytes of a GPU."""
    found = largest_minibatch(case, total)
    size = in_gibibytes(total)
    if not found.size:
        return (
            f"no minibatch fits in {size}: one utterance takes {in_gibibytes(found.peak)}. See "
            "front_end.gradient_checkpointing, computing.precision and network.train_clip_size"
        )
    lengths = case.settings.lengths
    if lengths.minibatch_s is not None:
        return (
            f"largest minibatch for {size}: {found.size} clips of {lengths.max_crop_s:g} s per "
            f"process, which take {in_gibibytes(found.peak)}; "
            f"lengths.minibatch_s={found.size * lengths.max_crop_s:g}, or less if others use the "
            "GPU too"
        )
    return (
        f"largest minibatch for {size}: {found.size} utterances per process, which take "
        f"{in_gibibytes(found.peak)}; network.minibatch_size={found.size}, or less if others use "
        "the GPU too"
    )

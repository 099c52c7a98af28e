"""Where the windows of a recording lie.

Invariant: every sample is in a window, and every window has its full length; only a recording that is shorter than a
window is one short window by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from asdf.audio.resampling import SAMPLE_RATE
from asdf.errors import UsageError


def in_samples(window_s: float, hop_s: float, most: int | None = None) -> tuple[int, int]:
    """Window and hop in samples at 16 kHz.

    Args:
        most: samples beyond which the network does not hear a window; None: any number.

    Raises:
        UsageError: one of them is not a positive number, the hop leaves samples out, or windows are not heard whole.
    """
    if not (0 < hop_s <= window_s < math.inf) or round(hop_s * SAMPLE_RATE) < 1:
        raise UsageError(
            f"windows of {window_s:g} s every {hop_s:g} s: both must be positive, and the hop at most the window, "
            "or parts of the recording would be in no window."
        )
    window = round(window_s * SAMPLE_RATE)
    if most is not None and window > most:
        raise UsageError(
            f"windows of {window_s:g} s: this network hears the first {most:,} samples ({most / SAMPLE_RATE:.4g} s) of "
            "each, and the rest would count for nothing. Take windows of that length or less."
        )
    return window, round(hop_s * SAMPLE_RATE)


def windows_in(samples: int, window: int, hop: int) -> int:
    """How many windows `windows_of` cuts a recording of so many samples into."""
    return 1 + max(0, math.ceil((samples - window) / hop))


def windows_of(
    blocks: Iterable[np.ndarray], window: int, hop: int
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield first sample and waveform of the windows of a recording that comes in blocks, none of them empty.

    They start at 0, hop, 2 hop, ..., and one last window ends where the recording ends. No more than a window and a
    block are held.
    """
    held = np.zeros(0, np.float32)
    held_from = 0
    start = 0
    for block in blocks:
        held = np.concatenate([held, block])
        end = held_from + len(held)
        while start + window < end:
            yield start, held[start - held_from : start - held_from + window]
            start += hop
        keep_from = max(held_from, end - window)
        held = held[keep_from - held_from :]
        held_from = keep_from
    if len(held):
        yield held_from, held

"""Windows of a recording: how it is cut.

Invariant: every sample is in a window, and every window has its full length; only a recording
shorter than a window is one short window.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE

# Longer than any recording.
_MAX_SAMPLES = 2**62


class Cut(NamedTuple):
    """A window of a recording: its first sample, and its waveform (T,)."""

    start: int
    waveform: np.ndarray


def in_samples(
    window_s: float, hop_s: float, max_samples: int | None = None, rate: int = SAMPLE_RATE
) -> tuple[int, int]:
    """Return the window and the hop in samples.

    Args:
        max_samples: Maximum number of samples of a window that the network hears; None: any number.
        rate: Sampling rate of what the network hears, in Hz.

    Raises:
        UsageError: one of them is not a positive number, the hop leaves gaps, or the network does
            not hear windows whole.
    """
    window = hop = 0
    if 0 < hop_s <= window_s < math.inf:
        # A finite number of seconds may be an infinite number of samples.
        window = round(min(window_s * rate, _MAX_SAMPLES))
        hop = round(min(hop_s * rate, _MAX_SAMPLES))
    if hop < 1:
        raise UsageError(
            f"windows of {window_s:g} s every {hop_s:g} s: both must be positive, and the hop at "
            "most the window, or parts of the recording would be in no window."
        )

    if max_samples is not None and window > max_samples:
        raise UsageError(
            f"windows of {window_s:g} s: this network hears the first {max_samples:,} samples "
            f"({max_samples / rate:.4g} s) of each, and the rest would be ignored. Take windows "
            "of that length or less."
        )
    return window, hop


def count_windows(samples: int, window: int, hop: int) -> int:
    """Return the number of windows that `cut_windows` cuts from a recording of `samples`."""
    return 1 + max(0, math.ceil((samples - window) / hop))


class WindowCutter:
    """Windows of a recording that arrives in blocks; holds at most a window and a block.

    Windows start at 0, hop, 2 hop, ...; one last window ends where the recording ends.
    """

    def __init__(self, window: int, hop: int) -> None:
        """Cut windows of `window` samples every `hop`, which is at most `window`."""
        self._window = window
        self._hop = hop
        self._held = np.zeros(0, np.float32)
        self._held_from = 0
        self._start = 0

    def add(self, block: np.ndarray) -> Iterator[Cut]:
        """Yield the windows that end in the next block (T,) of the recording."""
        # A recording that is whole in memory is not copied.
        self._held = np.concatenate([self._held, block]) if len(self._held) else block
        end = self._held_from + len(self._held)
        while self._start + self._window <= end:
            offset = self._start - self._held_from
            yield Cut(self._start, self._held[offset : offset + self._window])
            self._start += self._hop
        # A full window is held, since the last one ends where the recording ends.
        retained_from = max(self._held_from, end - self._window)
        self._held = self._held[retained_from - self._held_from :]
        self._held_from = retained_from

    def finish(self) -> Iterator[Cut]:
        """Yield the last window, unless another window ends where the recording ends."""
        end = self._held_from + len(self._held)
        last_end = self._start - self._hop + self._window
        if len(self._held) and (self._start == 0 or last_end < end):
            yield Cut(self._held_from, self._held)


def cut_windows(blocks: Iterable[np.ndarray], window: int, hop: int) -> Iterator[Cut]:
    """Yield the windows of a recording that arrives in blocks, see `WindowCutter`."""
    cutter = WindowCutter(window, hop)
    for block in blocks:
        yield from cutter.add(block)
    yield from cutter.finish()

"""Where the windows of a recording lie.

Invariant: every sample is in a window, and every window has its full length; only a recording that is shorter than a
window is one short window by itself.
"""

from __future__ import annotations

import math

from asdf.audio.resampling import SAMPLE_RATE
from asdf.errors import UsageError


def in_samples(window_s: float, hop_s: float) -> tuple[int, int]:
    """Window and hop in samples at 16 kHz.

    Raises:
        UsageError: one of them is not a positive number, or the hop leaves samples out.
    """
    if not (0 < hop_s <= window_s < math.inf) or round(hop_s * SAMPLE_RATE) < 1:
        raise UsageError(
            f"windows of {window_s:g} s every {hop_s:g} s: both must be positive, and the hop at most the window, "
            "or parts of the recording would be in no window."
        )
    return round(window_s * SAMPLE_RATE), round(hop_s * SAMPLE_RATE)


def window_starts(length: int, window: int, hop: int) -> list[int]:
    """First samples of the windows: 0, hop, 2 hop, ..., and one last window that ends where the recording ends."""
    last = max(0, length - window)
    return [*range(0, last, hop), last]

"""Zero-delay filters for whole clips, in the frequency domain.

Invariant: a filter's coefficients are symmetric and centred, so the speech is not shifted. They are
those of an ideal low-pass under a Kaiser window: from `TRANSITION_HZ` / 2 above the cut-off, less
than 1/5,000 (-74 dB) passes; the same distance below it, everything passes.
"""

from __future__ import annotations

import numpy as np
from numpy.fft import irfft, rfft

from asdf.facts import SAMPLE_RATE

TRANSITION_HZ = 80.0

# J. F. Kaiser (1974): 81 dB of attenuation for beta = 8, with a transition of
# (81 - 8) / (2.285 * 2 * 512) radians per sample, 80 Hz.
_HALF_WIDTH = 512
_WINDOW = np.kaiser(2 * _HALF_WIDTH + 1, 8.0)


def low_pass(cutoff_hz: float, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return the coefficients (1025,) of a low-pass that halves the amplitude at `cutoff_hz`.

    Args:
        rate: Sampling rate of the filtered signal, in Hz. The transition is 80 Hz at 16 kHz, and
            proportional at other rates.
    """
    n = np.arange(-_HALF_WIDTH, _HALF_WIDTH + 1)
    proportion = cutoff_hz / (rate / 2)
    ideal = proportion * np.sinc(proportion * n)
    coefficients: np.ndarray = ideal * _WINDOW
    return coefficients


def band_stop(lowest_hz: float, highest_hz: float, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return the coefficients (1025,) of a filter that stops the frequencies of a band."""
    coefficients: np.ndarray = low_pass(lowest_hz, rate) - low_pass(highest_hz, rate)
    coefficients[_HALF_WIDTH] += 1
    return coefficients


def filter_clip(clip: np.ndarray, filters: list[np.ndarray]) -> np.ndarray:
    """Filter `clip` (T,) float32 by all `filters` (1025,) in turn: (T,) float32."""
    # Each filter extends this far beyond the clip's end, where the signal is zero.
    points = find_fast_size(len(clip) + _HALF_WIDTH * len(filters))
    spectrum = rfft(clip, points)
    for coefficients in filters:
        # Coefficients before the centre go to the end, where time is negative.
        centred = np.zeros(points, np.float32)
        centred[: _HALF_WIDTH + 1] = coefficients[_HALF_WIDTH:]
        centred[-_HALF_WIDTH:] = coefficients[:_HALF_WIDTH]
        spectrum = spectrum * rfft(centred).real
    filtered = irfft(spectrum, points)
    return filtered[: len(clip)].astype(np.float32)


def find_fast_size(min_points: int) -> int:
    """Return the smallest 2^a, 3 * 2^a or 5 * 2^a that is not below `min_points`."""
    sizes = []
    for factor in (1, 3, 5):
        multiple = -(-min_points // factor)
        sizes.append(factor << max(0, (multiple - 1).bit_length()))
    return min(sizes)

"""The matrices of spectral features: triangular filters, and the cosine transform of cepstra.

Invariant: results are float64 and depend only on sizes.

Shapes: F frequencies, N filters, C coefficients, W samples of a window.
"""

from __future__ import annotations

import numpy as np

from asdf.facts import SAMPLE_RATE
from asdf.networks.sinc import hz_to_mel, mel_to_hz


def band_bins(n_fft: int, low_hz: float, high_hz: float, rate: int = SAMPLE_RATE) -> range:
    """Return the bins of the Fourier transform from `low_hz` to `high_hz`, as in the baselines."""
    bins = n_fft // 2 + 1
    nyquist_hz = rate / 2
    return range(int(low_hz / nyquist_hz * bins), int(high_hz / nyquist_hz * bins))


def linear_filters(
    n_fft: int, filters: int, low_hz: float, high_hz: float, rate: int = SAMPLE_RATE
) -> np.ndarray:
    """Return triangular filters (bins of the band, filters) with edges equally spaced in Hz.

    As in the baselines of ASVspoof 2021, the bins of the band are treated as frequencies equally
    spaced from `low_hz` to `high_hz`, both included.
    """
    bins = len(band_bins(n_fft, low_hz, high_hz, rate))
    frequencies_F = np.linspace(low_hz, high_hz, bins)
    edges_N = np.linspace(low_hz, high_hz, filters + 2)
    return _make_triangles(frequencies_F, edges_N)


def mel_filters(
    n_fft: int, filters: int, low_hz: float, high_hz: float, rate: int = SAMPLE_RATE
) -> np.ndarray:
    """Return triangular filters (bins of the band, filters), equally spaced in HTK's mel."""
    frequencies_F = np.array(band_bins(n_fft, low_hz, high_hz, rate)) * rate / n_fft
    edges_N = mel_to_hz(np.linspace(hz_to_mel(low_hz), hz_to_mel(high_hz), filters + 2))
    return _make_triangles(frequencies_F, edges_N)


def cosine_transform(filters: int, coefficients: int) -> np.ndarray:
    """Return the orthonormal cosine transform of type II, (filters, coefficients)."""
    positions_N1 = np.arange(filters)[:, None] + 0.5
    matrix_NC: np.ndarray = np.cos(np.pi / filters * positions_N1 * np.arange(coefficients))
    matrix_NC *= np.sqrt(2 / filters)
    matrix_NC[:, 0] /= np.sqrt(2)
    return matrix_NC


def fourier_matrix(window: int, n_fft: int, bins: range) -> np.ndarray:
    """Return the Fourier transform as a matrix (window, 2 * bins): real parts, imaginary parts."""
    angles_WF = 2 * np.pi / n_fft * np.arange(window)[:, None] * np.array(bins)
    return np.concatenate([np.cos(angles_WF), -np.sin(angles_WF)], axis=1)


def _make_triangles(frequencies_F: np.ndarray, edges_N: np.ndarray) -> np.ndarray:
    """Return triangular filters (frequencies, edges - 2), each 1 at its middle edge."""
    distances_FN = frequencies_F[:, None] - edges_N
    widths_N = np.diff(edges_N)
    rising_FN = distances_FN[:, :-2] / widths_N[:-1]
    falling_FN = -distances_FN[:, 2:] / widths_N[1:]
    triangles_FN: np.ndarray = np.minimum(rising_FN, falling_FN).clip(min=0)
    return triangles_FN

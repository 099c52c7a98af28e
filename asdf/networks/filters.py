"""Filters as arrays: band-pass filters of raw waveforms, and the matrices of spectral features.

Invariant: they are computed from their sizes alone, in float64, and are neither parameters nor part
of a state dict.

Source: Ravanelli and Bengio, "SincNet", SLT 2018; with fixed mel-spaced bands in Tak et al.,
"RawNet2", ICASSP 2021.

Shapes: B utterances, T samples, F filters or frequencies, K taps, E edges between the bands, N
filters, C coefficients, W samples of a window.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.facts import SAMPLE_RATE

MAX_MASKED_FILTERS = 20


class SincFilters(nn.Module):
    """Hamming-windowed band-pass filters, their edges equally spaced in mel from 0 to 8 kHz."""

    filters: Tensor

    def __init__(self, channels: int, length: int) -> None:
        """Create `channels` filters of `length` taps, made odd so that they are symmetric."""
        super().__init__()
        self.length = length + 1 - length % 2
        filters_FK = torch.from_numpy(band_pass_filters(channels, self.length)).float()
        # Not persistent, since published state dicts contain no filters.
        self.register_buffer("filters", filters_FK.unsqueeze(1), persistent=False)

    def forward(self, waveforms_BT: Tensor, mask: bool = False) -> Tensor:
        """Return filtered waveforms (batch, channels, samples - length + 1).

        With `mask`, up to 19 neighbouring filters, drawn for the whole batch, output zeros.
        """
        filters_F1K = self.filters
        if mask:
            width = int(torch.randint(MAX_MASKED_FILTERS, ()))
            start = int(torch.randint(len(filters_F1K) - width + 1, ()))
            filters_F1K = filters_F1K.clone()
            filters_F1K[start : start + width] = 0
        return F.conv1d(waveforms_BT.unsqueeze(1), filters_F1K)


def band_pass_filters(channels: int, length: int) -> np.ndarray:
    """Return windowed impulse responses (channels, length).

    Each is the difference of two ideal low-pass filters.
    """
    edges_E = mel_edges(channels)
    centre = (length - 1) / 2
    taps_K = np.arange(length) - centre
    cutoffs_E1 = 2 * edges_E[:, None] / SAMPLE_RATE
    low_pass_EK = cutoffs_E1 * np.sinc(cutoffs_E1 * taps_K)
    band_pass_FK = np.diff(low_pass_EK, axis=0)
    return np.hamming(length) * band_pass_FK


def mel_edges(channels: int, low_hz: float = 0.0, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return the (channels + 1) edges of `channels` bands, equally spaced in mel.

    Args:
        rate: Sampling rate in Hz; the bands go up to half of it.
    """
    max_mel = hz_to_mel(rate / 2)
    return mel_to_hz(np.linspace(hz_to_mel(low_hz), max_mel, channels + 1))


def hz_to_mel(hz: float) -> float:
    """Return a frequency in mel, by the formula of HTK."""
    return 2595 * np.log10(1 + hz / 700)


def mel_to_hz(mel: np.ndarray) -> np.ndarray:
    """Return frequencies in Hz for values in mel."""
    return 700 * (10 ** (mel / 2595) - 1)


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
    return np.minimum(rising_FN, falling_FN).clip(min=0)

"""The fixed band-pass filters at the input of raw-waveform AASIST.

Invariant: the filters are neither parameters nor part of a state dict; they are computed from their
number and length alone.

Source: Ravanelli and Bengio, "SincNet", SLT 2018; with fixed mel-spaced bands in Tak et al.,
"RawNet2", ICASSP 2021.

Shapes: B utterances, T samples, F filters, K taps, E edges between the bands.
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
    mel: float = 2595 * np.log10(1 + hz / 700)
    return mel


def mel_to_hz(mel: np.ndarray) -> np.ndarray:
    """Return frequencies in Hz for values in mel."""
    return 700 * (10 ** (mel / 2595) - 1)

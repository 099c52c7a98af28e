"""The fixed band-pass filters that raw-waveform AASIST starts with.

Invariant: the filters are no parameters and no part of a state dict; they follow from their number and length alone.

Source: Ravanelli and Bengio, "SincNet", SLT 2018; with fixed mel-spaced bands in Tak et al., "RawNet2", ICASSP 2021.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.facts import SAMPLE_RATE

LARGEST_MASK = 20


class SincFilters(nn.Module):
    """Hamming-windowed band-pass filters whose edges are equally spaced on the mel scale from 0 to 8 kHz."""

    filters: Tensor

    def __init__(self, channels: int, length: int) -> None:
        """`channels` filters of `length` taps, made odd so that they are symmetric."""
        super().__init__()
        self.length = length + 1 - length % 2
        filters = torch.from_numpy(band_pass_filters(channels, self.length)).float()
        self.register_buffer("filters", filters.unsqueeze(1), persistent=False)

    def forward(self, waveforms_BT: Tensor, mask: bool = False) -> Tensor:
        """Filtered waveforms (batch, channels, samples - length + 1).

        With `mask`, up to 19 neighbouring filters, drawn for the whole batch, give silence.
        """
        filters = self.filters
        if mask:
            width = int(torch.randint(LARGEST_MASK, ()))
            start = int(torch.randint(len(filters) - width + 1, ()))
            filters = filters.clone()
            filters[start : start + width] = 0
        return F.conv1d(waveforms_BT.unsqueeze(1), filters)


def band_pass_filters(channels: int, length: int) -> np.ndarray:
    """Impulse responses (channels, length): the difference of two ideal low-pass filters, windowed."""
    highest_mel = 2595 * np.log10(1 + SAMPLE_RATE / 2 / 700)
    edges_hz = 700 * (10 ** (np.linspace(0, highest_mel, channels + 1) / 2595) - 1)
    taps = np.arange(length) - (length - 1) / 2
    cutoffs = 2 * edges_hz[:, None] / SAMPLE_RATE
    low_pass = cutoffs * np.sinc(cutoffs * taps)
    return np.hamming(length) * np.diff(low_pass, axis=0)

"""Inputs of encoders that do not take waveforms: features of their own extractors, in torch.

Invariant: features equal those of transformers' extractors for the same samples, without padding,
and do not depend on other utterances of a batch. As in these extractors, which use numpy,
everything but the result is float64, since the logarithm of a silent band would otherwise be
rounding noise.

Source: Barrault et al., "Seamless", 2023 (w2v-BERT 2.0's filter bank is Kaldi's); Radford et al.,
"Robust speech recognition via large-scale weak supervision", ICML 2023 (Whisper).

Shapes: B utterances, T samples, L frames, W samples of a window, F frequencies, N bands.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from asdf.facts import SAMPLE_RATE
from asdf.networks.front_ends.architectures import ConvLayers, first_inputs
from asdf.networks.front_ends.spectral import power_spectrum
from asdf.networks.functions import windows

WINDOW = 400
HOP = 160


class Waveforms(nn.Module):
    """The input of encoders that take waveforms, with or without a channel dimension."""

    def __init__(self, shape: int, stem: ConvLayers, has_group_norm: bool) -> None:
        """Store the properties of the encoder's first layers.

        Args:
            shape: Number of dimensions of the input, 2 or 3.
            stem: Convolutions in the encoder's configuration; () if it states none.
            has_group_norm: Whether a norm depends on all outputs of the first convolution.
        """
        super().__init__()
        self.shape = shape
        self.stem = stem
        self.seen_layers = 1 if has_group_norm else len(stem)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        """Return the waveforms, with a channel dimension if the encoder needs it."""
        return waveforms_BT if self.shape == 2 else waveforms_BT.unsqueeze(1)

    def used_samples(self, samples: int) -> int:
        """Return the number of leading samples that frames depend on."""
        return first_inputs(self.stem, samples, self.seen_layers) if self.stem else samples


class StackedFilterBank(nn.Module):
    """w2v-BERT 2.0's input: normalised filter banks of two neighbouring windows, concatenated.

    A last window without a neighbour is left out, but is included in mean and variance.
    """

    bands: Tensor
    taper: Tensor

    def __init__(self, bands: int) -> None:
        super().__init__()
        # Imported here, since transformers is optional.
        from transformers.audio_utils import mel_filter_bank, window_function

        filters_FN = mel_filter_bank(
            num_frequency_bins=257,
            num_mel_filters=bands,
            min_frequency=20,
            max_frequency=SAMPLE_RATE // 2,
            sampling_rate=SAMPLE_RATE,
            mel_scale="kaldi",
            triangularize_in_mel_space=True,
        )
        _add_constants(self, filters_FN, window_function(WINDOW, "povey", periodic=False))

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        """Return (batch, frames, 2 * bands)."""
        x_BLN = kaldi_log_bands(waveforms_BT, self.taper.double(), self.bands.double())
        deviation_B1N = (x_BLN.var(dim=1, keepdim=True) + 1e-7).sqrt()
        x_BLN = (x_BLN - x_BLN.mean(dim=1, keepdim=True)) / deviation_B1N
        return torch.cat([x_BLN[:, :-1:2], x_BLN[:, 1::2]], dim=2).float()

    def used_samples(self, samples: int) -> int:
        """Return the number of leading samples that features depend on."""
        # The mean over time includes a last window without a neighbour.
        return samples - (samples - WINDOW) % HOP


class WhisperLogMel(nn.Module):
    """Whisper's input for the whole 20 ms frames of waveforms, without appended silence."""

    bands: Tensor
    taper: Tensor

    def __init__(self, bands: int) -> None:
        super().__init__()
        from transformers.audio_utils import mel_filter_bank, window_function

        filters_FN = mel_filter_bank(
            num_frequency_bins=201,
            num_mel_filters=bands,
            min_frequency=0.0,
            max_frequency=8000.0,
            sampling_rate=SAMPLE_RATE,
            norm="slaney",
            mel_scale="slaney",
        )
        _add_constants(self, filters_FN, window_function(WINDOW, "hann"))

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        """Return (batch, bands, frames of 10 ms)."""
        half = WINDOW // 2
        # Written out, since ONNX cannot infer the length of torch's reflection padding.
        waveforms_BT = waveforms_BT[:, : self.used_samples(waveforms_BT.shape[1])].double()
        before_BT = waveforms_BT[:, 1 : half + 1].flip(1)
        after_BT = waveforms_BT[:, -half - 1 : -1].flip(1)
        mirrored_BT = torch.cat([before_BT, waveforms_BT, after_BT], dim=1)
        # Whisper's extractor drops the last frame, too.
        frames_BLW = windows(mirrored_BT, WINDOW, HOP)[:, :-1]
        powers_BLF = power_spectrum(frames_BLW * self.taper.double(), WINDOW, range(201))
        x_BLN = (powers_BLF @ self.bands.double()).clamp(min=1e-10).log10()
        x_BLN = torch.maximum(x_BLN, x_BLN.amax(dim=(1, 2), keepdim=True) - 8)
        return (x_BLN / 4 + 1).transpose(1, 2).float()

    def used_samples(self, samples: int) -> int:
        """Return the number of leading samples that features depend on, in whole encoder frames."""
        return samples - samples % (2 * HOP)


def kaldi_log_bands(
    waveforms_BT: Tensor, taper_W: Tensor, bands_FN: Tensor, scale: float = 2**15
) -> Tensor:
    """Return Kaldi's log filter banks, (batch, frames of 10 ms, bands), in float64.

    Args:
        scale: Factor for the samples, which lie between -1 and 1.
    """
    # By default as in Kaldi, whose samples are 16-bit integers.
    frames_BLW = windows(waveforms_BT.double() * scale, WINDOW, HOP)
    frames_BLW = frames_BLW - frames_BLW.mean(dim=2, keepdim=True)
    # The first sample of a window stands for its missing predecessor.
    before_BLW = torch.cat([frames_BLW[:, :, :1], frames_BLW[:, :, :-1]], dim=2)
    tapered_BLW = (frames_BLW - 0.97 * before_BLW) * taper_W
    powers_BLF = power_spectrum(tapered_BLW, 512, range(257))
    return (powers_BLF @ bands_FN).clamp(min=2**-23).log()  # Kaldi's floor, the epsilon of float32


def _add_constants(module: nn.Module, filters_FN: Any, taper_W: Any) -> None:
    # Not persistent, since they depend only on the number of bands.
    for name, numbers in (("bands", filters_FN), ("taper", taper_W)):
        tensor = torch.tensor(numbers, dtype=torch.float64)
        module.register_buffer(name, tensor, persistent=False)

"""Cepstra in decibels with slow deltas, alone or with the output of Whisper's encoder.

Invariant: numbers are those of Whisper-MesoNet's code, which uses torchaudio: 128 cepstra of frames
every 10 ms with reflection at both ends; bands are limited to 80 dB below the loudest of the
recording; deltas span 199 frames on each side. Nothing is trained or configurable.

Source: Kawa et al., "Improved DeepFake Detection Using Whisper Features", Interspeech 2023;
piotrkawa/deepfake-whisper-features, `src/frontends.py`; torchaudio's LFCC, MFCC and ComputeDeltas.

Shapes: B utterances, T samples, L frames of 10 ms, F frequencies, N filters, C values of a frame.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
import torchaudio.functional as audio
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.networks.casting import without_autocast
from asdf.networks.front_ends.encoder_outline import outside_modes
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.spectral import power_spectrum
from asdf.networks.front_ends.transformers_front_end import TransformersFrontEnd
from asdf.networks.functions import windows
from asdf.settings.sections import FrontEnd as FrontEndSettings

COEFFICIENTS = 128
VALUES = 3 * COEFFICIENTS
"""Number of values of a 10 ms frame: cepstra, deltas and double deltas."""
WINDOW, HOP, N_FFT = 400, 160, 512
REACH = 199
_RANGE_DB = 80.0
_FLOOR = 1e-10
# Number of frames of 10 ms per frame of Whisper's encoder.
_FRAMES = 2


class DecibelCepstra(nn.Module):
    """A module from waveforms (batch, samples) to features (batch, whole frames of 10 ms, 384).

    Args:
        in_mel: Whether bands are equally spaced in mel rather than in Hz.
    """

    taper: Tensor
    filters: Tensor
    transform: Tensor
    slope: Tensor

    def __init__(self, in_mel: bool) -> None:
        super().__init__()
        make = audio.melscale_fbanks if in_mel else audio.linear_fbanks
        # Computed with values even if a network is built without.
        with outside_modes(), torch.device("cpu"), warnings.catch_warnings():
            # The lowest bands are narrower than a bin and so empty, as in published networks.
            warnings.simplefilter("ignore", UserWarning)
            filters_FN = make(N_FFT // 2 + 1, 0.0, SAMPLE_RATE / 2, COEFFICIENTS, SAMPLE_RATE)
            filters = filters_FN.numpy()
            transform = audio.create_dct(COEFFICIENTS, COEFFICIENTS, "ortho").numpy()
        steps = torch.arange(-REACH, REACH + 1.0)
        numbers = {
            "taper": torch.hann_window(WINDOW),
            "filters": torch.tensor(filters),
            "transform": torch.tensor(transform),
            "slope": steps / steps.square().sum(),
        }
        # Not persistent, since they are the same in every network.
        for name, tensor in numbers.items():
            self.register_buffer(name, tensor, persistent=False)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        frames = waveforms_BT.shape[1] // HOP
        decibels_BLN = limited_decibels(
            waveforms_BT, self.taper, self.filters, HOP, N_FFT, _RANGE_DB
        )
        cepstra_BLN = decibels_BLN @ self.transform
        deltas_BLN = self._deltas(cepstra_BLN)
        parts = [cepstra_BLN, deltas_BLN, self._deltas(deltas_BLN)]
        # The last frame, centred at the end of the waveform, is dropped after the deltas.
        return torch.cat(parts, dim=2)[:, :frames]

    def _deltas(self, x_BLC: Tensor) -> Tensor:
        """Return regression slopes over 399 frames, with the first and last frame repeated."""
        batch, frames, values = x_BLC.shape
        rows_RL = x_BLC.transpose(1, 2).reshape(batch * values, 1, frames)
        longer_RL = F.pad(rows_RL, (REACH, REACH), mode="replicate")
        slopes_RL = F.conv1d(longer_RL, self.slope.view(1, 1, -1))
        return slopes_RL.reshape(batch, values, frames).transpose(1, 2)


def limited_decibels(
    waveforms_BT: Tensor, taper_W: Tensor, filters_FN: Tensor, hop: int, n_fft: int, range_db: float
) -> Tensor:
    """Return levels of bands in dB, (batch, frames, filters), for windows centred on their frames.

    Args:
        range_db: Range below a recording's strongest band, to which levels are limited.
    """
    half = len(taper_W) // 2
    # Written out, since ONNX cannot infer the length of torch's reflection padding.
    before_BT = waveforms_BT[:, 1 : half + 1].flip(1)
    after_BT = waveforms_BT[:, -half - 1 : -1].flip(1)
    mirrored_BT = torch.cat([before_BT, waveforms_BT, after_BT], dim=1)
    frames_BLW = windows(mirrored_BT, len(taper_W), hop) * taper_W
    powers_BLF = power_spectrum(frames_BLW, n_fft, range(n_fft // 2 + 1))
    levels_BLN = 10 * (powers_BLF @ filters_FN).clamp(min=_FLOOR).log10()
    strongest_B11 = levels_BLN.amax(dim=(1, 2), keepdim=True)
    return torch.maximum(levels_BLN, strongest_B11 - range_db)


class DecibelLFCCFrontEnd(FrontEnd):
    """128 LFCCs in decibels with deltas and double deltas, in whole frames of 10 ms."""

    short_name = "decibel_lfcc"
    sample_rate = SAMPLE_RATE
    dimension = VALUES
    # The samples to reflect must exist.
    window = 2 * HOP
    hop = HOP
    cacheable: ClassVar[bool] = True
    in_mel: ClassVar[bool] = False

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the module that computes the features."""
        return DecibelCepstra(self.in_mel)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the features."""
        with without_autocast(waveforms_BT):
            x_BLC = self.model(waveforms_BT.float())
        yield self.mask(x_BLC)

    def frames(self, samples: int) -> int:
        """Return the number of frames for `samples` samples."""
        return samples // HOP if samples >= self.window else 0

    def min_samples(self, frames: int) -> int:
        """Return the minimum number of samples for `frames` frames."""
        return max(self.window, frames * HOP)

    def used_samples(self, samples: int) -> int:
        """Return the number of leading samples that frames depend on: all, as deltas span far."""
        return samples

    def feature_settings(self) -> dict[str, Any]:
        """Return the settings of the base class without an architecture, and the kind."""
        known = super().feature_settings()
        del known["architecture"]
        return {**known, "kind": type(self).__name__}


class DecibelMFCCFrontEnd(DecibelLFCCFrontEnd):
    """128 MFCCs in decibels with deltas and double deltas, in whole frames of 10 ms."""

    short_name = "decibel_mfcc"
    in_mel = True
    cacheable = True


class WhisperLFCCFrontEnd(TransformersFrontEnd):
    """Whisper's encoder, with the two LFCC frames of the same time appended to each frame.

    Attributes:
        cepstral_values: Number of values of one LFCC frame.
    """

    short_name = "whisper_lfcc"
    cacheable: ClassVar[bool] = True
    in_mel: ClassVar[bool] = False
    cepstral_values: ClassVar[int] = VALUES

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read the configuration of the encoder.

        Raises:
            UsageError: it is not Whisper's, or masks are requested, which only encoders support.
        """
        super().set_sizes(settings)
        kind = settings.front_end_class
        if (self.window, self.hop) != (_FRAMES * HOP, _FRAMES * HOP):
            raise UsageError(
                f"front_end.front_end_class = {kind!r} is for Whisper's encoder, whose frames are "
                "20 ms long. front_end.architecture or front_end.weights is of another encoder."
            )
        if settings.time_mask_proportion or settings.channel_mask_proportion:
            raise UsageError(
                f"front_end.front_end_class = {kind!r} does not support masking. Set "
                "front_end.time_mask_proportion and front_end.channel_mask_proportion to 0."
            )
        self.encoder_dimension = self.dimension
        self.dimension = self.encoder_dimension + _FRAMES * VALUES

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return Whisper's encoder."""
        self.cepstra = DecibelCepstra(self.in_mel)
        return super().make_model(settings)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the input of the first layer, and each layer's output, with cepstra appended."""
        with without_autocast(waveforms_BT):
            x_BLC = self.cepstra(waveforms_BT.float())
        frames = waveforms_BT.shape[1] // self.hop
        pairs_BLC = x_BLC[:, : _FRAMES * frames].reshape(len(x_BLC), frames, _FRAMES * VALUES)
        for state_BLC in super().states(waveforms_BT):
            yield torch.cat([state_BLC, pairs_BLC.to(state_BLC.dtype)], dim=2)

    def final_norm(self, x_BLC: Tensor) -> Tensor:
        """Apply the encoder's final norm to its values, and keep the cepstra unchanged."""
        normed_BLC = super().final_norm(x_BLC[:, :, : self.encoder_dimension])
        return torch.cat([normed_BLC, x_BLC[:, :, self.encoder_dimension :]], dim=2)

    def used_samples(self, samples: int) -> int:
        """Return the number of leading samples that frames depend on: all, as deltas span far."""
        return samples

    def feature_settings(self) -> dict[str, Any]:
        """Return the settings of the base class, and the kind."""
        return {**super().feature_settings(), "kind": type(self).__name__}


class WhisperMFCCFrontEnd(WhisperLFCCFrontEnd):
    """Whisper's encoder, with the two MFCC frames of the same time appended to each frame."""

    short_name = "whisper_mfcc"
    in_mel = True
    cacheable = True

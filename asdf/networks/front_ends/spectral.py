"""Spectral features: front ends without trained weights, and inputs of encoders by transformers.

Invariant: a frame is computed only from its window (and the sample before it), never from padding,
so features end with the last whole window, unless `spectrum.centred` requests frames that extend
beyond both ends. Deltas and normalisation are those of the section `spectrum`, the same for every
kind of static values. Nothing is trained: the matrices depend only on the settings and are not part
of a state dict.

Source: the LFCC-LCNN baseline of ASVspoof 2021 (github.com/asvspoof-challenge/2021) and Sahidullah
et al., "A comparison of features for synthetic speech detection", Interspeech 2015. The baseline
pads both ends of a waveform with zeros, as with `spectrum.centred`, which adds one or two frames;
all other frames are the same.

Inputs of encoders equal those of transformers' extractors for the same samples, without padding,
and do not depend on other utterances of a batch. As in these extractors, which use numpy,
everything but the result is float64, since the logarithm of a silent band would otherwise be
rounding noise. Source: Barrault et al., "Seamless", 2023 (w2v-BERT 2.0's filter bank is Kaldi's);
Radford et al., "Robust speech recognition via large-scale weak supervision", ICML 2023 (Whisper).

Shapes: B utterances, T samples, L frames, W samples of a window, F frequencies, N filters or
bands, C feature values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.networks.casting import without_autocast
from asdf.networks.filters import (
    band_bins,
    cosine_transform,
    fourier_matrix,
    linear_filters,
    mel_filters,
)
from asdf.networks.front_ends.architectures import ConvLayers, first_inputs
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.functions import windows
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.settings.sections import Spectrum

MIN_VARIANCE = 1e-10


def in_time(samples: int, rate: int) -> int:
    """Return the number of samples at `rate` Hz for `samples` at 16 kHz, rounded."""
    return round(samples * rate / SAMPLE_RATE)


class FramedFrontEnd(FrontEnd):
    """A front end whose `model` computes the static values of frames from waveforms.

    Attributes:
        deltas: Number of times that differences over time are appended.
    """

    deltas: int

    def set_dimension(self, static: int, deltas: int) -> None:
        """Set the number of values per frame from the number of static values."""
        self.deltas = deltas
        self.dimension = static * (deltas + 1)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the features: static values, then their differences over time."""
        with without_autocast(waveforms_BT):
            x_BLC: Tensor = self.model(waveforms_BT.float())
            blocks = [x_BLC]
            for _ in range(self.deltas):
                blocks.append(time_differences(blocks[-1]))
            x_BLC = torch.cat(blocks, dim=2)
            x_BLC = normalize_over_time(x_BLC, self.sections.spectrum.normalization)
        yield self.mask(x_BLC)

    def feature_settings(self) -> dict[str, Any]:
        """Return the settings of the base class without an architecture, and the spectrum's."""
        known = super().feature_settings()
        del known["architecture"]
        spectrum = asdict(self.sections.spectrum)
        known = {**known, "kind": type(self).__name__, "spectrum": spectrum}
        rate = self.sections.audio.sample_rate
        # Features cached before this choice existed state no rate.
        return known if rate == SAMPLE_RATE else {**known, "sample_rate": rate}


def time_differences(x_BLC: Tensor) -> Tensor:
    """Return the difference of each frame's neighbours, repeating the first and the last frame."""
    earlier_BLC = torch.cat([x_BLC[:, :1], x_BLC[:, :-1]], dim=1)
    later_BLC = torch.cat([x_BLC[:, 1:], x_BLC[:, -1:]], dim=1)
    return later_BLC - earlier_BLC


def normalize_over_time(x_BLC: Tensor, kind: str) -> Tensor:
    """Return features minus their mean over the utterance, optionally divided by the deviation."""
    if kind == "none":
        return x_BLC
    centred_BLC = x_BLC - x_BLC.mean(dim=1, keepdim=True)
    if kind == "mean":
        return centred_BLC
    variance_B1C = centred_BLC.square().mean(dim=1, keepdim=True)
    return centred_BLC / variance_B1C.clamp(min=MIN_VARIANCE).sqrt()


NYQUIST_HZ = SAMPLE_RATE / 2


@dataclass(frozen=True)
class Sizes:
    """Sizes whose default depends on the kind of features, all resolved.

    Attributes:
        filters: Number of filters; 0 for a spectrogram, which has all bins of the band.
        coefficients: Number of coefficients of the cosine transform; 0 without one.
        rate: Sampling rate in Hz.
    """

    window: int
    hop: int
    n_fft: int
    filters: int
    coefficients: int
    deltas: int
    high_hz: float
    low_hz: float = 0.0
    rate: int = SAMPLE_RATE

    @property
    def bins(self) -> range:
        """The bins of the Fourier transform that features are computed from."""
        return band_bins(self.n_fft, self.low_hz, self.high_hz, self.rate)

    @property
    def static(self) -> int:
        """The number of values per frame without deltas."""
        return self.coefficients or self.filters or len(self.bins)

    def at_rate(self, rate: int) -> Sizes:
        """Return sizes with the same durations at another rate, up to its highest frequency.

        The Fourier transform has a power of 2 of points, at least as many as the same duration
        needs.
        """
        if rate == self.rate:
            return self
        factor = rate / self.rate
        points = math.ceil(self.n_fft * factor)
        is_whole_band = self.high_hz == self.rate / 2
        return replace(
            self,
            window=round(self.window * factor),
            hop=round(self.hop * factor),
            n_fft=1 << (points - 1).bit_length(),
            high_hz=rate / 2 if is_whole_band else min(self.high_hz, rate / 2),
            rate=rate,
        )


class SpectralFrontEnd(FramedFrontEnd):
    """The base class of spectral front ends: frames, powers, logarithms.

    Attributes:
        usual: Default sizes, for settings of the section `spectrum` that are None.
        sizes: Sizes in use.
    """

    usual: ClassVar[Sizes]
    sizes: Sizes

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read the section `spectrum`.

        Raises:
            UsageError: the section's settings contradict each other.
        """
        usual = self.usual.at_rate(self.sections.audio.sample_rate)
        self.sizes = choose_sizes(self.sections.spectrum, usual)
        self.hop = self.sizes.hop
        self.centred = self.sections.spectrum.centred
        # Padding around a single sample is enough for a frame.
        self.window = 1 if self.centred else self.sizes.window
        self.set_dimension(self.sizes.static, self.sizes.deltas)

    def frames(self, samples: int) -> int:
        """Return the number of frames for `samples` samples."""
        if not self.centred:
            return super().frames(samples)
        return samples // self.hop + 1 if samples else 0

    def min_samples(self, frames: int) -> int:
        """Return the minimum number of samples for `frames` frames."""
        if not self.centred:
            return super().min_samples(frames)
        return max(1, (frames - 1) * self.hop)

    def used_samples(self, samples: int) -> int:
        """Return the leading samples that frames depend on; centred frames depend on all."""
        return samples if self.centred else super().used_samples(samples)

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the module that computes static features."""
        return StaticFeatures(self.sections.spectrum, self.sizes, self.filters(self.sizes))

    def filters(self, sizes: Sizes) -> np.ndarray | None:
        """Return the filters (bins of the band, filters); None if every bin is a value."""
        return None

    def feature_settings(self) -> dict[str, Any]:
        """Return the settings of the base class, with the sizes in use."""
        known = super().feature_settings()
        spectrum = {**known["spectrum"], **asdict(self.sizes)}
        if not self.centred:
            # Omitted, as in features cached before this choice existed.
            del spectrum["centred"]
        # The rate is stored separately, if it is not the default.
        del spectrum["rate"]
        return {**known, "spectrum": spectrum}


class SpectrogramFrontEnd(SpectralFrontEnd):
    """The log powers of all frequencies."""

    short_name = "spectrogram"
    usual = Sizes(320, 160, 512, 0, 0, 0, NYQUIST_HZ)
    cacheable = True


class FilterBankFrontEnd(SpectralFrontEnd):
    """The log powers of bands that are equally spaced in Hz."""

    short_name = "filter_bank"
    usual = Sizes(320, 160, 512, 60, 0, 0, NYQUIST_HZ)
    cacheable = True

    def filters(self, sizes: Sizes) -> np.ndarray:
        return linear_filters(sizes.n_fft, sizes.filters, sizes.low_hz, sizes.high_hz, sizes.rate)


class LogMelFrontEnd(SpectralFrontEnd):
    """The log powers of bands that are equally spaced in mel."""

    short_name = "log_mel"
    usual = Sizes(400, 160, 512, 80, 0, 0, NYQUIST_HZ)
    cacheable = True

    def filters(self, sizes: Sizes) -> np.ndarray:
        return mel_filters(sizes.n_fft, sizes.filters, sizes.low_hz, sizes.high_hz, sizes.rate)


class LFCCFrontEnd(FilterBankFrontEnd):
    """Linear-frequency cepstral coefficients, as in the LFCC-LCNN baseline of ASVspoof 2021 LA."""

    short_name = "lfcc"
    usual = Sizes(320, 160, 1024, 20, 20, 2, 4000.0)
    cacheable = True


class MFCCFrontEnd(LogMelFrontEnd):
    """Mel-frequency cepstral coefficients."""

    short_name = "mfcc"
    usual = Sizes(320, 160, 512, 20, 20, 2, NYQUIST_HZ)
    cacheable = True


class StaticFeatures(nn.Module):
    """A module from waveforms (batch, samples) to static features (batch, frames, values)."""

    taper: Tensor
    filters: Tensor | None
    transform: Tensor | None

    def __init__(self, spectrum: Spectrum, sizes: Sizes, filters_FN: np.ndarray | None) -> None:
        super().__init__()
        self.sizes = sizes
        self.pre_emphasis = spectrum.pre_emphasis
        self.floor = spectrum.log_floor
        self.zeros = (0, 0)
        if spectrum.centred:
            # As in torch.stft: half of the transform, minus the margin of a shorter window.
            before = sizes.n_fft // 2 - (sizes.n_fft - sizes.window) // 2
            self.zeros = (before, sizes.window - before)
        self.has_energy = spectrum.energy and sizes.coefficients > 0
        tapers = {"hamming": torch.hamming_window, "hann": torch.hann_window}
        # Not persistent, since they depend only on the settings.
        self.register_buffer("taper", tapers[spectrum.window_shape](sizes.window), persistent=False)
        filters = transform = None
        if filters_FN is not None:
            filters = torch.tensor(filters_FN, dtype=torch.float32)
        if sizes.coefficients:
            matrix_NC = cosine_transform(sizes.filters, sizes.coefficients)
            transform = torch.tensor(matrix_NC, dtype=torch.float32)
        self.register_buffer("filters", filters, persistent=False)
        self.register_buffer("transform", transform, persistent=False)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        powers_BLF = self.powers(waveforms_BT)
        bands_BLN = powers_BLF
        if self.filters is not None:
            bands_BLN = powers_BLF @ self.filters
        x_BLC = (bands_BLN + self.floor).log10()
        if self.transform is not None:
            x_BLC = x_BLC @ self.transform
        if self.has_energy:
            energy_BL1 = powers_BLF.sum(dim=2, keepdim=True) / self.sizes.n_fft
            energy_BL1 = (energy_BL1 + self.floor).log10()
            # The energy replaces the first coefficient, as in the baseline.
            x_BLC = torch.cat([energy_BL1, x_BLC[:, :, 1:]], dim=2)
        return x_BLC

    def powers(self, waveforms_BT: Tensor) -> Tensor:
        """Return the powers (batch, frames, bins of the band)."""
        later_BT = waveforms_BT[:, 1:] - self.pre_emphasis * waveforms_BT[:, :-1]
        emphasized_BT = torch.cat([waveforms_BT[:, :1], later_BT], dim=1)
        if self.zeros != (0, 0):
            emphasized_BT = F.pad(emphasized_BT, self.zeros)
        frames_BLW = windows(emphasized_BT, self.sizes.window, self.sizes.hop) * self.taper
        return power_spectrum(frames_BLW, self.sizes.n_fft, self.sizes.bins)


def power_spectrum(frames_BLW: Tensor, n_fft: int, bins: range) -> Tensor:
    """Return the powers (batch, frames, bins) of windows (batch, frames, window)."""
    if torch.onnx.is_in_onnx_export():
        # torch's ONNX exporter does not support the Fourier transform.
        matrix_WF = fourier_matrix(int(frames_BLW.shape[2]), n_fft, bins)
        squares_BLF = (frames_BLW @ torch.tensor(matrix_WF, dtype=frames_BLW.dtype)).square()
        # It knows sizes of slices, not of chunks.
        return squares_BLF[:, :, : len(bins)] + squares_BLF[:, :, len(bins) :]
    spectrum_BLF = torch.fft.rfft(frames_BLW, n=n_fft)
    parts_BLF2 = torch.view_as_real(spectrum_BLF[:, :, bins.start : bins.stop])
    return parts_BLF2.square().sum(dim=3)


def choose_sizes(spectrum: Spectrum, usual: Sizes) -> Sizes:
    """Return the sizes in the settings, or the `usual` ones for settings of None.

    Raises:
        UsageError: a window is longer than the Fourier transform, there are more coefficients than
            filters, or no frequency lies between the lowest and the highest.
    """
    chosen: dict[str, Any] = {}
    for name, value in asdict(usual).items():
        setting = getattr(spectrum, name) if name != "rate" else None
        # Only cepstra have coefficients, and a spectrogram has no filters.
        is_part = name not in ("filters", "coefficients") or value
        chosen[name] = setting if setting is not None and is_part else value
    if chosen["coefficients"] and spectrum.coefficients is None:
        chosen["coefficients"] = chosen["filters"]
    sizes = Sizes(**chosen)
    contradictions = {
        f"spectrum.window is {sizes.window} samples, and spectrum.n_fft is {sizes.n_fft}: the "
        "Fourier transform must be at least as long as a window.": sizes.window > sizes.n_fft,
        f"spectrum.coefficients is {sizes.coefficients}, but spectrum.filters is {sizes.filters}: "
        "coefficients cannot outnumber filters.": sizes.coefficients > sizes.filters,
        f"spectrum.low_hz is {sizes.low_hz:g} and spectrum.high_hz {sizes.high_hz:g}: the first "
        "must be at least one bin of the Fourier transform below the second, and the second at "
        f"most {sizes.rate / 2:g}.": sizes.high_hz > sizes.rate / 2 or not sizes.bins,
    }
    for text, is_so in contradictions.items():
        if is_so:
            raise UsageError(text)
    return sizes


class RawFrontEnd(FrontEnd):
    """The samples unchanged, in frames of `spectrum.window` samples every `spectrum.hop` samples.

    By default, each sample is a frame of one value, for back ends with filters of their own.
    """

    short_name = "raw"
    cacheable = True

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read the section `spectrum`."""
        self.window = self.sections.spectrum.window or 1
        self.hop = self.sections.spectrum.hop or self.window
        self.dimension = self.window

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return a module without parameters."""
        return nn.Identity()

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the samples, (batch, frames, window)."""
        yield self.mask(windows(waveforms_BT, self.window, self.hop))

    def feature_settings(self) -> dict[str, Any]:
        """Return the base class's settings without an architecture, and those of the frames."""
        known = super().feature_settings()
        del known["architecture"]
        return {**known, "kind": type(self).__name__, "frames": [self.window, self.hop]}


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

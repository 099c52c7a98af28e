"""Band-pass filters on the waveform with trained edges, and the log powers of their outputs.

Invariant: the initial filters are those of `asdf.networks.filters`, with edges equally spaced in
mel. The trained values are distances from the initial edges, so weight decay pulls them back to the
mel scale rather than to 0 Hz.

Source: Ravanelli and Bengio, "SincNet", SLT 2018. The part after the filters is ours: they are
meant for back ends that take maps of time and frequency, like those of the spectral front ends.

Shapes: B utterances, T samples, L frames, F filters, K taps, H taps after the
middle.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.networks.filters import mel_edges
from asdf.networks.front_ends.spectral import FramedFrontEnd, in_time
from asdf.settings.fields import MAX_FFT, MAX_FILTERS, OwnSettings, setting
from asdf.settings.sections import FrontEnd as FrontEndSettings
from asdf.settings.sections import Spectrum

WINDOW = 400
HOP = 160


@dataclass
class Sinc(OwnSettings, section_name="sinc"):
    """Front end of band-pass filters with learnt edges (after SincNet, SLT 2018)."""

    filters: int = setting(80, at_least=1, at_most=MAX_FILTERS)
    """band-passes"""
    taps: int = setting(251, unit="samples", at_least=3, at_most=MAX_FFT)
    """length of a filter; made odd"""
    low_hz: float = setting(30.0, unit="Hz", at_least=0)
    """where the lowest filter begins at the start"""


class SincFrontEnd(FramedFrontEnd):
    """The log powers, in frames, of band-pass filters with trained edges."""

    short_name = "sinc"
    cacheable = True

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read the section `sinc`, and the settings of `spectrum` for all features of frames.

        Raises:
            UsageError: the lowest edge is not below half of the sampling rate.
        """
        sinc = Sinc.of(self.sections)
        rate = self.sections.audio.sample_rate
        if sinc.low_hz >= rate / 2:
            raise UsageError(
                f"sinc.low_hz = {sinc.low_hz:g}: the lowest filter must begin below {rate // 2} Hz."
            )
        spectrum = self.sections.spectrum
        self.frame = spectrum.window or in_time(WINDOW, rate)
        self.hop = spectrum.hop or in_time(HOP, rate)
        # The taps of a filter extend beyond both ends of a frame of its output.
        self.window = self.frame + _odd(sinc.taps) - 1
        self.set_dimension(sinc.filters, spectrum.deltas or 0)

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the module that computes static features, including the filters."""
        spectrum = self.sections.spectrum
        rate = self.sections.audio.sample_rate
        return BandPowers(Sinc.of(self.sections), spectrum, self.frame, self.hop, rate)

    def feature_settings(self) -> dict[str, Any]:
        """Return the settings of the base class, the filters' and the frames'."""
        known = super().feature_settings()
        return {**known, "sinc": asdict(Sinc.of(self.sections)), "frames": [self.frame, self.hop]}


class BandPowers(nn.Module):
    """A module from waveforms (batch, samples) to log powers (batch, frames, filters).

    Attributes:
        low_shift: Distance of each filter's lower edge from its initial value, (F), as a fraction
            of the sampling rate.
        width_shift: Distance of each filter's width from its initial value, (F), in the same unit.
    """

    low: Tensor
    width: Tensor
    taper: Tensor

    def __init__(
        self, sinc: Sinc, spectrum: Spectrum, frame: int, hop: int, rate: int = SAMPLE_RATE
    ) -> None:
        super().__init__()
        self.frame = frame
        self.hop = hop
        self.pre_emphasis = spectrum.pre_emphasis
        self.floor = spectrum.log_floor
        self.taps = _odd(sinc.taps)
        edges_hz = mel_edges(sinc.filters, sinc.low_hz, rate)
        edges_E = torch.tensor(edges_hz / rate).float()
        self.low_shift = nn.Parameter(torch.zeros(sinc.filters))
        self.width_shift = nn.Parameter(torch.zeros(sinc.filters))
        # Not persistent, since they depend only on the settings.
        self.register_buffer("low", edges_E[:-1], persistent=False)
        self.register_buffer("width", edges_E.diff(), persistent=False)
        taper_K = torch.hamming_window(self.taps, periodic=False)
        self.register_buffer("taper", taper_K, persistent=False)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        later_BT = waveforms_BT[:, 1:] - self.pre_emphasis * waveforms_BT[:, :-1]
        emphasized_BT = torch.cat([waveforms_BT[:, :1], later_BT], dim=1)
        filtered_BFT = F.conv1d(emphasized_BT.unsqueeze(1), self.filters().unsqueeze(1))
        powers_BFL = F.avg_pool1d(filtered_BFT.square(), self.frame, self.hop)
        return (powers_BFL + self.floor).log10().transpose(1, 2)

    def filters(self) -> Tensor:
        """Return the impulse responses (F, K): windowed differences of ideal low-passes."""
        low_F, high_F = self.edges()
        return self.taper * (self._low_pass(high_F) - self._low_pass(low_F))

    def edges(self) -> tuple[Tensor, Tensor]:
        """Return the filters' lower and upper edges (F), as fractions of the sampling rate."""
        # Training may move an edge below 0 Hz or above half of the sampling rate.
        low_F = (self.low + self.low_shift).abs().clamp(max=0.5)
        high_F = (low_F + (self.width + self.width_shift).abs()).clamp(max=0.5)
        return low_F, high_F

    def _low_pass(self, cutoff_F: Tensor) -> Tensor:
        # Without torch.sinc, which ONNX lacks.
        times_H = torch.arange(1, self.taps // 2 + 1, device=cutoff_F.device)
        cutoff_F1 = cutoff_F.unsqueeze(1)
        later_FH = torch.sin(2 * torch.pi * cutoff_F1 * times_H) / (torch.pi * times_H)
        return torch.cat([later_FH.flip(1), 2 * cutoff_F1, later_FH], dim=1)


def _odd(taps: int) -> int:
    """Return an odd number of taps, so that filters are symmetric."""
    return taps + 1 - taps % 2

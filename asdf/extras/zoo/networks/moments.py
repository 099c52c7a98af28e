"""Statistics over time of band energies, which describe how speech moves, not its spectrum.

A channel (microphone, telephone, codec, level) mostly adds constants to log energies, and a small
network trained on these learns channels. The statistics here do not depend on such constants:

- at the rate of glottal pulses (5 ms windows, one every ms): correlations of bands, at once and
  some milliseconds apart. Pulses of a vocoder reach all bands together, artificial phases spread
  them, and a voice does neither.
- at the rate of sounds (25 ms windows, one every 10 ms): skewness and kurtosis of the energies
  and of their changes over 10 to 80 ms. Speech begins faster than it fades, and synthesis smooths
  both.

Invariant: there is one vector per recording, nothing is trained, and it depends only on whole
windows.

Source: ours. Correlations of envelopes across bands are as in texture statistics (McDermott and
Simoncelli, Neuron 2011).

Shapes: B utterances, T samples, L frames, N bands, S statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.facts import SAMPLE_RATE
from asdf.networks.casting import without_autocast
from asdf.networks.filters import band_bins, mel_filters
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.spectral import power_spectrum
from asdf.networks.functions import windows
from asdf.settings.fields import OwnSettings, setting
from asdf.settings.sections import FrontEnd as FrontEndSettings

LOW_HZ = 80.0
HIGH_HZ = 7600.0
FLOOR = 1e-3
"""Number added to powers and deviations, so that a silent band has statistics near 0."""


@dataclass
class MomentSettings(OwnSettings, section_name="moments"):
    """Front end of statistics of band energies over time."""

    parts: tuple[Literal["pulses", "sounds"], ...] = setting(
        ("pulses", "sounds"), check="not_empty"
    )
    """which statistics: of 5 ms windows, between which glottal pulses show; of 25 ms windows,
    between which sounds change"""


@dataclass(frozen=True)
class Pace:
    """The time resolution of band energies, with window and hop in samples."""

    window: int
    hop: int
    n_fft: int
    bands: int


PULSES = Pace(80, 16, 128, 14)
SOUNDS = Pace(400, 160, 512, 40)
MEAN_FRAMES = 17
"""Frames of PULSES in the moving average that is subtracted to remove slow changes."""
LAGS = (1, 2, 4)
"""Lags of the correlations besides 0, in frames of PULSES."""
STEPS = (1, 2, 4, 8)
"""Distances of the changes, in frames of SOUNDS."""
SHORTEST_FRAMES = 32
"""Minimum number of frames of SOUNDS, a third of a second, for statistics."""


class MomentsFrontEnd(FrontEnd):
    """Statistics of a recording as its only frame, (batch, 1, 1175), chosen by `moments.parts`.

    Attributes:
        groups: Indices of the values of each kind of statistics.
    """

    short_name = "moments"
    sample_rate = SAMPLE_RATE
    cacheable = True
    window = SOUNDS.window + (SHORTEST_FRAMES - 1) * SOUNDS.hop
    # Recordings never have a second frame; see `frames`.
    hop = window
    dimension = 0

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Count the statistics."""
        self.groups = find_groups(MomentSettings.of(self.sections).parts)
        self.dimension = sum(len(group) for group in self.groups.values())

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the module that computes the statistics."""
        return Moments(MomentSettings.of(self.sections).parts)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the statistics, (batch, 1, statistics)."""
        with without_autocast(waveforms_BT):
            statistics_BS: Tensor = self.model(waveforms_BT.float())
        yield self.mask(statistics_BS.unsqueeze(1))

    def frames(self, samples: int) -> int:
        """Return 1, or 0 for fewer samples than `window`."""
        return int(samples >= self.window)

    def used_samples(self, samples: int) -> int:
        """Return the samples up to the end of the last whole window of either resolution."""
        return max(_used_by(PULSES, samples), _used_by(SOUNDS, samples))

    def feature_settings(self) -> dict[str, Any]:
        """Return the settings of the base class without an architecture, and the kind."""
        known = super().feature_settings()
        del known["architecture"]
        return {
            **known,
            "kind": type(self).__name__,
            "parts": list(MomentSettings.of(self.sections).parts),
        }


class BandEnergies(nn.Module):
    """A module from waveforms (batch, samples) to powers of mel bands (batch, bands, frames)."""

    taper: Tensor
    filters: Tensor

    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self.pace = pace
        self.bins = band_bins(pace.n_fft, LOW_HZ, HIGH_HZ)
        filters_FN = mel_filters(pace.n_fft, pace.bands, LOW_HZ, HIGH_HZ)
        # Not persistent, since they depend only on the sizes.
        self.register_buffer("taper", torch.hann_window(pace.window), persistent=False)
        self.register_buffer(
            "filters", torch.tensor(filters_FN, dtype=torch.float32), persistent=False
        )

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        frames_BLW = windows(waveforms_BT, self.pace.window, self.pace.hop) * self.taper
        powers_BLF = power_spectrum(frames_BLW, self.pace.n_fft, self.bins)
        return (powers_BLF @ self.filters).transpose(1, 2)


class Moments(nn.Module):
    """A module from waveforms (batch, samples) to statistics, grouped as in `find_groups`."""

    rows: Tensor
    columns: Tensor

    def __init__(self, kinds: Sequence[str]) -> None:
        super().__init__()
        self.kinds = tuple(kinds)
        self.pulses = BandEnergies(PULSES)
        self.sounds = BandEnergies(SOUNDS)
        rows, columns = torch.triu_indices(PULSES.bands, PULSES.bands, 1)
        self.register_buffer("rows", rows, persistent=False)
        self.register_buffer("columns", columns, persistent=False)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        parts: list[Tensor] = []
        if "pulses" in self.kinds:
            parts += self._of_pulses(waveforms_BT)
        if "sounds" in self.kinds:
            parts += self._of_sounds(waveforms_BT)
        return torch.cat(parts, dim=1)

    def _of_pulses(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        # A fourth root is close to a logarithm but does not amplify silence in a band.
        roots_BNL = self.pulses(waveforms_BT).clamp(min=1e-8).sqrt().sqrt()
        means_BNL = F.avg_pool1d(roots_BNL, MEAN_FRAMES, stride=1)
        edge = MEAN_FRAMES // 2
        x_BNL = roots_BNL[:, :, edge:-edge] - means_BNL
        yield correlations(x_BNL, 0)[:, self.rows, self.columns]
        for lag in LAGS:
            yield correlations(x_BNL, lag).flatten(1)
        yield from _shape(x_BNL)
        yield from _shape(changes(x_BNL, 1))

    def _of_sounds(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        x_BNL = (self.sounds(waveforms_BT) + FLOOR).log()
        yield from _shape(x_BNL)
        for step in STEPS:
            yield from _shape(changes(x_BNL, step))
        first_BNL = changes(x_BNL, 1)
        second_BNL = changes(first_BNL, 1)
        ratio_BN = (_deviation(second_BNL) + FLOOR) / (_deviation(first_BNL) + FLOOR)
        yield ratio_BN.log()


def correlations(x_BNL: Tensor, lag: int) -> Tensor:
    """Return the correlations of bands with bands `lag` frames earlier: (batch, bands, bands)."""
    centred_BNL = x_BNL - x_BNL.mean(dim=2, keepdim=True)
    unit_BNL = centred_BNL / (_deviation(x_BNL).unsqueeze(2) + FLOOR)
    later_BNL = unit_BNL[:, :, lag:]
    earlier_BNL = unit_BNL[:, :, : x_BNL.shape[2] - lag]
    return later_BNL @ earlier_BNL.transpose(1, 2) / later_BNL.shape[2]


def changes(x_BNL: Tensor, step: int) -> Tensor:
    """Return each frame minus the one `step` frames before it."""
    return x_BNL[:, :, step:] - x_BNL[:, :, :-step]


def _deviation(x_BNL: Tensor) -> Tensor:
    centred_BNL = x_BNL - x_BNL.mean(dim=2, keepdim=True)
    return centred_BNL.square().mean(dim=2).sqrt()


def _shape(x_BNL: Tensor) -> Iterator[Tensor]:
    """Yield skewness and log kurtosis over time, (batch, bands) each."""
    centred_BNL = x_BNL - x_BNL.mean(dim=2, keepdim=True)
    unit_BNL = centred_BNL / (_deviation(x_BNL).unsqueeze(2) + FLOOR)
    squares_BNL = unit_BNL.square()
    yield (squares_BNL * unit_BNL).mean(dim=2)
    yield (squares_BNL.square().mean(dim=2) + FLOOR).log()


def _used_by(pace: Pace, samples: int) -> int:
    return (samples - pace.window) // pace.hop * pace.hop + pace.window


def find_groups(kinds: Sequence[str]) -> dict[str, range]:
    """Return the indices of each kind of statistics, in the order of their computation."""
    sizes = {"pulse correlations": PULSES.bands * (PULSES.bands - 1) // 2}
    for lag in LAGS:
        sizes[f"pulse correlations, {lag} ms"] = PULSES.bands**2
    sizes["pulse shapes"] = 4 * PULSES.bands
    sizes["sound levels"] = 2 * SOUNDS.bands
    for step in STEPS:
        sizes[f"sound changes, {step}0 ms"] = 2 * SOUNDS.bands
    sizes["sound smoothness"] = SOUNDS.bands
    groups = {}
    first = 0
    for name, size in sizes.items():
        if name.split()[0] + "s" in kinds:
            groups[name] = range(first, first + size)
            first += size
    return groups

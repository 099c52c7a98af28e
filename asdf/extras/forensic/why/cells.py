"""A waveform cut into cells of time and frequency, any of which a filler can replace.

Invariant: the cells sum to the waveform, in time and over frequency, up to rounding: each is the
product of a time gate and a filter, and both sets of weights sum to 1 everywhere. Replacing all
cells therefore gives the filler, and the changes of a linear network sum to the change of its
score.

Shapes: T samples, S stretches of time, B bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from asdf.arrays import Flags, Floats
from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.runs.seeds import generator

BANDS_HZ = (0, 250, 500, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 7000, 8000)
"""Edges of the default bands: finer in the range of formants."""

FILLERS = {
    "noise": "noise of the recording's own long-term level in each band",
    "silence": "digital silence",
}
"""Replacements of a cell."""

MAX_STRETCHES = 40
"""Maximum number of stretches: each needs a forward pass per band."""

_NYQUIST_HZ = SAMPLE_RATE / 2
# Gates and filters overlap with their neighbours: sharp edges would click, and ring.
_FADE_SAMPLES = SAMPLE_RATE // 100
_FADE_HZ = 50.0
# Padding, so that the end of a filtered recording does not wrap around to its beginning.
_PADDING = SAMPLE_RATE // 10


@dataclass(frozen=True)
class Grid:
    """The cells of a recording.

    Attributes:
        samples: Samples of the recording.
        stretches: Edges of the stretches in samples, ascending, from 0 to `samples`.
        bands_hz: Edges of the bands in Hz, ascending, from 0 to 8,000.
    """

    samples: int
    stretches: tuple[float, ...]
    bands_hz: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of stretches and of bands."""
        return len(self.stretches) - 1, len(self.bands_hz) - 1

    def stretch_s(self, index: int) -> tuple[float, float]:
        """Return start and end of a stretch in seconds."""
        return self.stretches[index] / SAMPLE_RATE, self.stretches[index + 1] / SAMPLE_RATE

    def band_hz(self, index: int) -> tuple[float, float]:
        """Return the lower and the upper edge of a band in Hz."""
        return self.bands_hz[index], self.bands_hz[index + 1]


def make_grid(samples: int, stretch_s: float, bands_hz: Sequence[float]) -> Grid:
    """Cut a recording into bands and stretches of about `stretch_s`, at most `MAX_STRETCHES`."""
    count = max(1, round(samples / SAMPLE_RATE / stretch_s))
    edges = np.linspace(0, samples, min(count, MAX_STRETCHES) + 1)
    return Grid(samples, tuple(edges.tolist()), tuple(map(float, bands_hz)))


def check_cells(stretch_s: float, bands_hz: Sequence[float]) -> None:
    """Check stretches and bands.

    Raises:
        UsageError: the bands do not ascend from 0 to 8,000 Hz in steps of at least 100 Hz, or
            stretches are shorter than 0.05 s.
    """
    # `stretch_s < 0.05` would let NaN pass.
    if not stretch_s >= 0.05:
        raise UsageError(
            f"stretches of {stretch_s:g} s: 0.05 s is the shortest that noise can replace without "
            "a click."
        )
    widths = np.diff(bands_hz)
    is_whole = len(widths) > 0 and bands_hz[0] == 0 and bands_hz[-1] == _NYQUIST_HZ
    if not is_whole or not (widths >= 2 * _FADE_HZ).all():
        edges = ", ".join(f"{edge:g}" for edge in bands_hz)
        raise UsageError(
            f"bands with the edges {edges} Hz: give edges that ascend from 0 to {_NYQUIST_HZ:g}, "
            f"{2 * _FADE_HZ:g} Hz or more apart."
        )


@dataclass(frozen=True, eq=False)
class Cells:
    """A recording with the replacements of its cells.

    Attributes:
        waveform_T: Recording, float32.
        gates_ST: Weight of each stretch at each sample; the weights of a sample sum to 1.
        changes_BT: Filler minus recording, in each band.
        filler_T: Filler, float32: the recording with all cells replaced.
    """

    grid: Grid
    waveform_T: np.ndarray
    gates_ST: Floats
    changes_BT: Floats
    filler_T: np.ndarray

    def replace(self, chosen_SB: Flags) -> Floats:
        """Return the recording with the filler in the chosen cells: (T,) float32."""
        replaced_T: Floats = self.waveform_T.astype(np.float64)
        for band in np.flatnonzero(chosen_SB.any(axis=0)):
            gate_T = self.gates_ST[chosen_SB[:, band]].sum(axis=0)
            replaced_T += gate_T * self.changes_BT[band]
        return replaced_T.astype(np.float32)

    def project(self, gradient_T: Floats) -> Floats:
        """Return the contribution of each cell along a gradient, from the filler: (S, B)."""
        # Changes lead from the recording to the filler, and contributions the other way.
        added_SB: Floats = -self.gates_ST @ (self.changes_BT * gradient_T).T
        return added_SB


def make_cells(grid: Grid, waveform_T: Floats, filler: str, seed: int) -> Cells:
    """Prepare the cells of a recording.

    Args:
        filler: Name of `FILLERS`.
        seed: Seed of the noise.
    """
    bands_BT = split_bands(waveform_T, grid.bands_hz)
    changes_BT = -bands_BT
    # Exactly zero, because networks may react differently to rounding residues.
    filler_T = np.zeros(grid.samples, np.float32)
    if filler == "noise":
        rng = generator(seed, "filler of cells")
        noise_BT = split_bands(rng.standard_normal(len(waveform_T)), grid.bands_hz)
        levels_B1 = _level(bands_BT) / np.maximum(_level(noise_BT), 1e-12)
        changes_BT = changes_BT + levels_B1 * noise_BT
        filler_T = (levels_B1 * noise_BT).sum(axis=0).astype(np.float32)
    # The middles of samples, since edges lie between two of them.
    gates_ST = _shares(np.arange(grid.samples) + 0.5, grid.stretches, _FADE_SAMPLES)
    return Cells(grid, waveform_T, gates_ST, changes_BT, filler_T)


def split_bands(waveform_T: Floats, bands_hz: Sequence[float]) -> Floats:
    """Split a waveform into bands, (B, T), which sum to it."""
    padded = len(waveform_T) + _PADDING
    spectrum_F = np.fft.rfft(waveform_T, padded)
    shares_BF = _shares(np.fft.rfftfreq(padded, 1 / SAMPLE_RATE), bands_hz, _FADE_HZ)
    # One band at a time: the spectra of all together would need twice the memory.
    bands = [np.fft.irfft(shares_F * spectrum_F, padded) for shares_F in shares_BF]
    return np.stack(bands)[:, : len(waveform_T)]


def _shares(points_P: np.ndarray, edges: Sequence[float], fade: float) -> Floats:
    """Return the share of each interval between edges at each point, (intervals, P); they sum to 1.

    At an inner edge, one interval fades into the next within `fade`, as a raised cosine.
    """
    rises = [np.ones(len(points_P))]
    for edge in edges[1:-1]:
        phase_P = np.clip((points_P - edge) / fade + 0.5, 0, 1)
        rises.append(0.5 - 0.5 * np.cos(np.pi * phase_P))
    rises.append(np.zeros(len(points_P)))
    shares: Floats = -np.diff(np.stack(rises), axis=0)
    return shares


def _level(bands_BT: Floats) -> Floats:
    """Return the root mean square of each band, (B, 1)."""
    level: Floats = np.sqrt((bands_BT**2).mean(axis=1, keepdims=True))
    return level

"""RawBoost for whole batches, on the network's device.

Invariant: a row equals the result of `asdf.audio.rawboost.boost` for the same draws, up to
rounding. Random values and the design of filters come from the host, which then waits for nothing:
no value is read back, and all shapes are known to it. Filters have the maximum length in the
settings, so that the shapes, and the plans of transforms, are the same in every batch.

Draws, filters and the plan of blocks are shared with `boost`. The filtering is implemented twice:
transforms of numpy and torch round differently (only 1 in 20 numbers is bit-identical), and the
clips of a run must remain bit-identical.

Letters of shapes: B waveforms, R of them augmented, T samples, K orders, L taps, N samples
disturbed by ISD, W blocks of P samples, F frequencies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor
from torch.fft import irfft, rfft
from torch.linalg import vector_norm
from torch.nn.functional import pad

from asdf.audio.rawboost import (
    PARALLEL,
    Draws,
    Notches,
    align,
    design,
    filter_length,
    join_notches,
    plan_blocks,
)
from asdf.settings.sections import RawBoost


@dataclass(frozen=True)
class Unboosted:
    """Waveforms, and everything needed to apply RawBoost to them, as tensors on one device.

    Entries are None for noises that are left out. A DataLoader pins it like tensors.

    Attributes:
        rows_R: Indices of the waveforms that are augmented.
        parallel: Whether LnL and ISD are both computed from the waveform itself, and summed.
        lnl_RKL: Filters of LnL.
        positions_N, factors_N: Indices of the samples disturbed by ISD, counted over all R rows,
            and the factor of each.
        white_RT, colour_R1L: White noise of SSI, and its filters.
        level_R1: Norm of SSI's coloured noise relative to the waveform's.
    """

    waveforms_BT: Tensor
    rows_R: Tensor
    parallel: bool = False
    lnl_RKL: Tensor | None = None
    positions_N: Tensor | None = None
    factors_N: Tensor | None = None
    white_RT: Tensor | None = None
    colour_R1L: Tensor | None = None
    level_R1: Tensor | None = None

    def pin_memory(self) -> Unboosted:
        """Return it in pinned memory."""
        return self._with_each_tensor(Tensor.pin_memory)

    def to(self, device: torch.device, non_blocking: bool = False) -> Unboosted:
        """Return it on `device`."""
        return self._with_each_tensor(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def record_stream(self, stream: torch.Stream) -> None:
        """Call `Tensor.record_stream` for all tensors."""
        for tensor in self._tensors().values():
            tensor.record_stream(stream)

    def boosted(self) -> Tensor:
        """Return the waveforms with their noises: (B, T) float32, on the same device."""
        if not len(self.rows_R):
            return self.waveforms_BT
        x_RT = self.waveforms_BT.index_select(0, self.rows_R)
        if self.parallel:
            x_RT = _limit_peaks(self._add_lnl(x_RT) + self._add_isd(x_RT))
        else:
            x_RT = self._add_lnl(x_RT)
            x_RT = self._add_isd(x_RT)
            x_RT = self._add_ssi(x_RT)
        return self.waveforms_BT.index_copy(0, self.rows_R, x_RT)

    def _add_lnl(self, x_RT: Tensor) -> Tensor:
        if self.lnl_RKL is None:
            return x_RT
        output_RT = filter_powers(x_RT, self.lnl_RKL)
        return _limit_peaks(output_RT - output_RT.mean(dim=1, keepdim=True))

    def _add_isd(self, x_RT: Tensor) -> Tensor:
        if self.positions_N is None or self.factors_N is None:
            return x_RT
        factors = torch.ones_like(x_RT).view(-1)
        factors.scatter_(0, self.positions_N, self.factors_N)
        return _limit_peaks(x_RT * factors.view_as(x_RT))

    def _add_ssi(self, x_RT: Tensor) -> Tensor:
        if self.white_RT is None or self.colour_R1L is None or self.level_R1 is None:
            return x_RT
        noise_RT = filter_powers(self.white_RT, self.colour_R1L)
        norm_R1 = vector_norm(x_RT, dim=1, keepdim=True)
        noise_norm_R1 = vector_norm(noise_RT, dim=1, keepdim=True)
        # Noise of norm 0 is divided by 1 and has no effect. (`where` with a number would copy that
        # number to the device, and wait.)
        divisor_R1 = noise_norm_R1 + (noise_norm_R1 == 0)
        added_RT: Tensor = self.level_R1 * norm_R1 / divisor_R1 * noise_RT
        return x_RT + added_RT

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def _with_each_tensor(self, change: Callable[[Tensor], Tensor]) -> Unboosted:
        changed = {name: change(tensor) for name, tensor in self._tensors().items()}
        return replace(self, **changed)  # type: ignore[arg-type]


def prepare(waveforms_BT: Tensor, draws: Sequence[Draws | None], settings: RawBoost) -> Unboosted:
    """Return waveforms (B, T) float32 with what `Unboosted.boosted` needs to add their noises.

    Args:
        waveforms_BT: Waveforms on the host; everything computed from the draws is also on the host.
        draws: Draws for each waveform, from `asdf.audio.rawboost.draw` with `settings`; None for an
            unchanged waveform.
    """
    rows = [row for row, drawn in enumerate(draws) if drawn is not None]
    changed = [drawn for drawn in draws if drawn is not None]
    lnl = [drawn.lnl for drawn in changed if drawn.lnl is not None]
    isd = [drawn.isd for drawn in changed if drawn.isd is not None]
    ssi = [drawn.ssi for drawn in changed if drawn.ssi is not None]
    arrays: dict[str, np.ndarray] = {}
    if lnl:
        arrays["lnl_RKL"] = _design_aligned(lnl, settings)
    # Indices of samples disturbed by ISD are counted over all rows.
    if isd:
        samples = waveforms_BT.shape[1]
        positions = [row * samples + impulses.positions for row, impulses in enumerate(isd)]
        factors = 1 + settings.g_sd * np.concatenate([impulses.factors for impulses in isd])
        arrays["positions_N"] = np.concatenate(positions)
        arrays["factors_N"] = factors.astype(np.float32)
    if ssi:
        level_R1 = 10 ** (-np.array([[each.snr_db] for each in ssi]) / 20)
        arrays["white_RT"] = np.stack([each.white for each in ssi])
        arrays["colour_R1L"] = _design_aligned([each.notches for each in ssi], settings)
        arrays["level_R1"] = level_R1.astype(np.float32)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return Unboosted(
        waveforms_BT,
        torch.tensor(rows, dtype=torch.int64),
        parallel=settings.algo == PARALLEL,
        **tensors,
    )


def filter_powers(waveforms_RT: Tensor, filters_RKL: Tensor) -> Tensor:
    """Compute `asdf.audio.rawboost.filter_powers` for many waveforms: (R, T).

    Args:
        filters_RKL: Filters, aligned by `align`.
    """
    samples = waveforms_RT.shape[1]
    taps = filters_RKL.shape[2]
    plan = plan_blocks(samples, taps)
    padded_RT = pad(waveforms_RT, (plan.before, plan.after))
    blocks_RWP = padded_RT.unfold(1, plan.points, plan.hop)
    responses_RKF = rfft(filters_RKL, plan.points)
    # All rows at once, but one order at a time, since all orders would take K times the memory.
    power_RWP = blocks_RWP
    spectrum_RWF = rfft(power_RWP) * responses_RKF[:, :1]
    for order in range(1, filters_RKL.shape[1]):
        power_RWP = power_RWP * blocks_RWP
        response_R1F = responses_RKF[:, order : order + 1]
        spectrum_RWF += rfft(power_RWP) * response_R1F
    # The first samples of a block wrapped around.
    output_RWP: Tensor = irfft(spectrum_RWF, plan.points)
    output_RWP = output_RWP[..., taps - 1 :]
    return output_RWP.flatten(1)[:, :samples]


def _design_aligned(notches: Sequence[Notches], settings: RawBoost) -> np.ndarray:
    """Return the filters of R draws, (R, K, L) float32, aligned to the maximum length."""
    max_taps_of_notch = settings.maxCoeff | 1
    taps = filter_length(settings.nBands * (max_taps_of_notch - 1) + 1)
    filters = design(join_notches(notches))
    return align(filters, taps).reshape(len(notches), -1, taps)


def _limit_peaks(x_RT: Tensor) -> Tensor:
    """Scale each row with a peak above 1 to a peak of 1."""
    peak_R1 = x_RT.abs().amax(dim=1, keepdim=True)
    return x_RT / peak_R1.clamp(min=1)

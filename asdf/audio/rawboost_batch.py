"""RawBoost for whole batches, on the device that the network is on.

Invariant: a row is what `asdf.audio.rawboost.boost` makes of the waveform with the same draws, up to rounding. What is
random, and the filters' design, comes from the host; from there on the host waits for nothing: no value is read back,
and all shapes follow from what it knows. Filters are as long as the settings allow, so that the shapes, and with them
the transforms' plans, are the same in every batch.

Letters of shapes: B waveforms, R of them augmented, T samples, K orders, L taps, N samples that ISD disturbs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from asdf.audio.notch_filters import Notches, align, design, longest, overlap_save
from asdf.audio.rawboost import Draws
from asdf.settings.sections import RawBoost


@dataclass(frozen=True)
class Unboosted:
    """Waveforms, and all that RawBoost is to do to them; tensors of one device, None for a noise that is left out.

    A DataLoader pins it as it pins tensors.

    Attributes:
        rows: which of the waveforms are augmented.
        parallel: LnL and ISD are both of the waveform itself, and are summed.
        lnl: LnL's filters.
        positions, factors: the samples that ISD disturbs, counted through all R rows, and what each is multiplied by.
        white, colour, level: SSI's white noise, its filters, and the norm of what comes out over the waveform's.
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
        """In pinned memory."""
        return self._each(Tensor.pin_memory)

    def to(self, device: torch.device, non_blocking: bool = False) -> Unboosted:
        """On `device`."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def record_stream(self, stream: torch.Stream) -> None:
        """As `Tensor.record_stream`."""
        for tensor in self._tensors().values():
            tensor.record_stream(stream)

    def boosted(self) -> Tensor:
        """The waveforms with their noises: (B, T) float32, on the same device."""
        if not len(self.rows_R):
            return self.waveforms_BT
        x_RT = self.waveforms_BT.index_select(0, self.rows_R)
        if self.parallel:
            x_RT = _limited(self._lnl(x_RT) + self._isd(x_RT))
        else:
            x_RT = self._ssi(self._isd(self._lnl(x_RT)))
        return self.waveforms_BT.index_copy(0, self.rows_R, x_RT)

    def _lnl(self, x_RT: Tensor) -> Tensor:
        if self.lnl_RKL is None:
            return x_RT
        output_RT = filter_powers(x_RT, self.lnl_RKL)
        return _limited(output_RT - output_RT.mean(dim=1, keepdim=True))

    def _isd(self, x_RT: Tensor) -> Tensor:
        if self.positions_N is None or self.factors_N is None:
            return x_RT
        factors = torch.ones_like(x_RT).view(-1).scatter_(0, self.positions_N, self.factors_N)
        return _limited(x_RT * factors.view_as(x_RT))

    def _ssi(self, x_RT: Tensor) -> Tensor:
        if self.white_RT is None or self.colour_R1L is None or self.level_R1 is None:
            return x_RT
        noise_RT = filter_powers(self.white_RT, self.colour_R1L)
        norm_R1, noise_R1 = (
            torch.linalg.vector_norm(one, dim=1, keepdim=True) for one in (x_RT, noise_RT)
        )
        # Noise of norm 0 is divided by 1 and changes nothing. (`where` with a number would copy it, and wait.)
        return x_RT + self.level_R1 * norm_R1 / (noise_R1 + (noise_R1 == 0)) * noise_RT

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def _each(self, change: Callable[[Tensor], Tensor]) -> Unboosted:
        return replace(self, **{name: change(tensor) for name, tensor in self._tensors().items()})  # type: ignore[arg-type]


def boost_batch(waveforms_BT: Tensor, draws: Sequence[Draws | None], settings: RawBoost) -> Tensor:
    """Waveforms (B, T) float32, on any device, with the drawn noises: (B, T) float32, there.

    Args:
        draws: for each waveform, by `asdf.audio.rawboost.draw` with `settings`; None: it stays as it is.
    """
    return prepare(waveforms_BT, draws, settings).to(waveforms_BT.device).boosted()


def prepare(waveforms_BT: Tensor, draws: Sequence[Draws | None], settings: RawBoost) -> Unboosted:
    """The host's part of `boost_batch`; what comes of the draws is on the host, too."""
    rows = [row for row, one in enumerate(draws) if one is not None]
    chosen = [one for one in draws if one is not None]
    samples = waveforms_BT.shape[1]
    found: dict[str, np.ndarray] = {}
    lnl = [one.lnl for one in chosen if one.lnl is not None]
    if lnl:
        found["lnl_RKL"] = _filters(lnl, settings)
    isd = [one.isd for one in chosen if one.isd is not None]
    if isd:
        found["positions_N"] = np.concatenate(
            [row * samples + one.positions for row, one in enumerate(isd)]
        )
        found["factors_N"] = 1 + settings.g_sd * np.concatenate([one.factors for one in isd])
    ssi = [one.ssi for one in chosen if one.ssi is not None]
    if ssi:
        found["white_RT"] = np.stack([one.white for one in ssi])
        found["colour_R1L"] = _filters([one.notches for one in ssi], settings)
        found["level_R1"] = 10 ** (-np.array([[one.snr_db] for one in ssi]) / 20)
    tensors = {
        name: torch.from_numpy(
            value if value.dtype == np.int64 else value.astype(np.float32, copy=False)
        )
        for name, value in found.items()
    }
    return Unboosted(
        waveforms_BT, torch.tensor(rows, dtype=torch.int64), settings.algo == 8, **tensors
    )


def filter_powers(waveforms_RT: Tensor, filters_RKL: Tensor) -> Tensor:
    """As `asdf.audio.notch_filters.filter_powers` for many waveforms, with filters that are aligned: (R, T)."""
    samples, taps = waveforms_RT.shape[1], filters_RKL.shape[2]
    points, hop, before, after = overlap_save(samples, taps)
    windows_RWP = pad(waveforms_RT, (before, after)).unfold(1, points, hop)
    responses_RKF = torch.fft.rfft(filters_RKL, points)
    # All rows at once, but one order after the other: all orders at once would take K times the memory.
    power_RWP = windows_RWP
    spectrum_RWF = torch.fft.rfft(power_RWP) * responses_RKF[:, :1]
    for order in range(1, filters_RKL.shape[1]):
        power_RWP = power_RWP * windows_RWP
        spectrum_RWF += torch.fft.rfft(power_RWP) * responses_RKF[:, order : order + 1]
    return torch.fft.irfft(spectrum_RWF, points)[..., taps - 1 :].flatten(1)[:, :samples]


def _filters(notches: Sequence[Notches], settings: RawBoost) -> np.ndarray:
    """The filters of R draws, (R, K, L) float32, aligned."""
    together = Notches(
        *(
            np.concatenate([getattr(one, field.name) for one in notches])
            for field in fields(Notches)
        )
    )
    taps = longest(settings.nBands * ((settings.maxCoeff | 1) - 1) + 1)
    return align(design(together), taps).reshape(len(notches), -1, taps)


def _limited(x_RT: Tensor) -> Tensor:
    """Each row scaled to a peak of 1 where its peak is higher."""
    return x_RT / x_RT.abs().amax(dim=1, keepdim=True).clamp(min=1)

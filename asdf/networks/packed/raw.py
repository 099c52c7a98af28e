"""What precedes raw AASIST's residual blocks: band-pass filters, magnitudes and their pooling.

Invariant: what `SincFilters` and `MagnitudePool` compute in `eval()` mode, utterance by utterance,
in stretches of time that stay in a core's cache.

The filters are symmetric: adding the two samples that a tap is multiplied with before the product
saves half of it.

Shapes: B utterances, T samples, F filters, K taps, H the first half of the taps and the middle one,
P pooled filters, N pooled times.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asdf.networks.aasist import POOL
from asdf.networks.sinc import SincFilters

# Times of a stretch, of the filters and of the pooling.
_FILTERED = 8192
_POOLED = 2048


class PackedFilters(nn.Module):
    """Symmetric filters."""

    def __init__(self, filters: SincFilters) -> None:
        super().__init__()
        self.length = filters.length
        middle = self.length // 2
        self._half_FH = filters.filters[:, 0, : middle + 1].detach().clone()

    def forward(self, waveforms_BT: Tensor, mask: bool = False) -> Tensor:
        """Return filtered waveforms (batch, filters, samples - length + 1); none are masked."""
        assert not mask
        batch, samples = waveforms_BT.shape
        times = samples - self.length + 1
        result_BFT = torch.empty(batch, len(self._half_FH), times)
        folded_HT = torch.empty(self._half_FH.shape[1], min(_FILTERED, times))
        for row_T, result_FT in zip(waveforms_BT.float(), result_BFT, strict=True):
            for start in range(0, times, _FILTERED):
                end = min(start + _FILTERED, times)
                part_HT = folded_HT[:, : end - start]
                self._fold(row_T[start : end + self.length - 1], part_HT)
                torch.mm(self._half_FH, part_HT, out=result_FT[:, start:end])
        return result_BFT

    def _fold(self, samples_T: Tensor, folded_HT: Tensor) -> None:
        """Write what each pair of equal taps is multiplied with."""
        taps, times = folded_HT.shape
        for tap in range(taps - 1):
            early_T = samples_T[tap : tap + times]
            first = self.length - 1 - tap
            torch.add(early_T, samples_T[first : first + times], out=folded_HT[tap])
        folded_HT[-1] = samples_T[taps - 1 : taps - 1 + times]


class PackedMagnitudePool(nn.Module):
    """The largest magnitude of each `POOL` filters and times."""

    def forward(self, x_BFT: Tensor) -> Tensor:
        """Return (batch, 1, filters // POOL, times // POOL) of (batch, filters, times)."""
        batch, filters, times = x_BFT.shape
        count = filters // POOL
        result_BPN = torch.empty(batch, count, times // POOL)
        for x_FT, result_PN in zip(x_BFT.float(), result_BPN, strict=True):
            for start in range(0, times // POOL, _POOLED):
                target_PN = result_PN[:, start : start + _POOLED]
                first = start * POOL
                stretch_FT = x_FT[: count * POOL, first : first + target_PN.shape[1] * POOL]
                # Filters first: their times are neighbours in memory.
                rows_PT = _max_of_three(stretch_FT.abs().unflatten(0, (count, POOL)).unbind(1))
                columns = rows_PT.unflatten(1, (-1, POOL)).unbind(2)
                target_PN.copy_(_max_of_three(columns))
        return result_BPN.unsqueeze(1)


def _max_of_three(tensors: tuple[Tensor, ...]) -> Tensor:
    first, second, third = tensors
    largest = torch.maximum(first, second)
    return torch.maximum(largest, third, out=largest)


def is_symmetric(filters: SincFilters) -> bool:
    """Return whether a filter's taps are the same from either end."""
    taps_FK = filters.filters[:, 0]
    return taps_FK.shape[1] % 2 == 1 and torch.equal(taps_FK, taps_FK.flip(1))

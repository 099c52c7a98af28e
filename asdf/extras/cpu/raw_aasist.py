"""Raw AASIST's layers before its graphs, computed in blocks of time that fit into a core's cache.

Invariant: results are those of `SincFilters`, `MagnitudePool` and `ResidualEncoder` in `eval()`
mode, utterance by utterance. A block includes its neighbours' times, so its edges have no effect.

The filters are symmetric: adding the two samples that share a tap before multiplying halves the
products.

The batch norm between the convolutions is folded into the first one's weights, and SELU's constants
into both. The whole map of a recording of 4 s has 16 million numbers; reading and writing it in
memory in each step would take as long as computing it.

Shapes: B utterances, T samples, F filters, K taps, H the first half of the taps and the middle one,
P pooled filters, N pooled times. In the blocks: 1 utterance, C channels, F frequencies, T times;
"padded" maps have `_HALO` more times, all zero, at either end.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.extras.cpu.packed_weights import ConvolutionWeight, fold_norm
from asdf.networks.aasist import POOL
from asdf.networks.back_ends.graph_back_end import ResidualBlock, ResidualEncoder
from asdf.networks.filters import SincFilters
from asdf.networks.functions import ALPHA, LOG2_E, SCALE, unscaled_selu_

# Times of a block of the filters and the pooling.
_FILTERED = 8192
_POOLED = 2048

# Two convolutions of three times each.
_HALO = 2
_POOL = 3
# Size of one step's result, 2.4 MB: fewer need more calls, more exceed the caches.
_NUMBERS = 600_000
_FREQUENCIES = 23
# The height of a map behind a front end, for 4 s.
_SPECTRAL_NODES = 42
_TEMPORAL_NODES = 67


class PackedFilters(nn.Module):
    """Symmetric filters with half of the products."""

    def __init__(self, filters: SincFilters) -> None:
        super().__init__()
        self.length = filters.length
        middle = self.length // 2
        self._half_FH = filters.filters[:, 0, : middle + 1].detach().clone()

    def forward(self, waveforms_BT: Tensor, mask: bool = False) -> Tensor:
        """Return filtered waveforms (batch, filters, samples - length + 1), never masked."""
        assert not mask
        batch, samples = waveforms_BT.shape
        times = samples - self.length + 1
        result_BFT = torch.empty(batch, len(self._half_FH), times)
        folded_HT = torch.empty(self._half_FH.shape[1], min(_FILTERED, times))
        for row_T, result_FT in zip(waveforms_BT.float(), result_BFT, strict=True):
            for start in range(0, times, _FILTERED):
                end = min(start + _FILTERED, times)
                part_HT = folded_HT[:, : end - start]
                samples_T = row_T[start : end + self.length - 1]
                for tap in range(self.length // 2):
                    early_T = samples_T[tap : tap + end - start]
                    late_T = samples_T[self.length - 1 - tap :][: end - start]
                    torch.add(early_T, late_T, out=part_HT[tap])
                part_HT[-1] = samples_T[self.length // 2 :][: end - start]
                torch.mm(self._half_FH, part_HT, out=result_FT[:, start:end])
        return result_BFT


class PackedMagnitudePool(nn.Module):
    """The maximum magnitude in each window of `POOL` filters and `POOL` times."""

    def forward(self, x_BFT: Tensor) -> Tensor:
        """Pool (batch, filters, times) to (batch, 1, filters // POOL, times // POOL)."""
        batch, filters, times = x_BFT.shape
        count = filters // POOL
        result_BPN = torch.empty(batch, count, times // POOL)
        for x_FT, result_PN in zip(x_BFT.float(), result_BPN, strict=True):
            for start in range(0, times // POOL, _POOLED):
                target_PN = result_PN[:, start : start + _POOLED]
                first = start * POOL
                stretch_FT = x_FT[: count * POOL, first : first + target_PN.shape[1] * POOL]
                # Pool filters first, since their times are contiguous in memory.
                rows_PT = _max_of_three(stretch_FT.abs().unflatten(0, (count, POOL)).unbind(1))
                columns = rows_PT.unflatten(1, (-1, POOL)).unbind(2)
                target_PN.copy_(_max_of_three(columns))
        return result_BPN.unsqueeze(1)


def _max_of_three(tensors: tuple[Tensor, ...]) -> Tensor:
    first, second, third = tensors
    largest = torch.maximum(first, second)
    return torch.maximum(largest, third, out=largest)


class PackedEncoder(nn.Module):
    """Residual blocks in sequence."""

    def __init__(self, encoder: ResidualEncoder) -> None:
        super().__init__()
        blocks = _blocks_of(encoder)
        self._pools = blocks[0].pool
        make = _PoolingBlock if self._pools else _Block
        # Not modules, since they hold no parameters of the network.
        self._blocks = [make(block) for block in blocks]

    def forward(self, x_BCFT: Tensor) -> Tensor:
        """Return the output of the last block for (batch, channels, F, T)."""
        return torch.cat([self._encode(x_1CFT) for x_1CFT in x_BCFT.split(1)])

    def _encode(self, x_1CFT: Tensor) -> Tensor:
        if not self._pools:
            for block in self._blocks:
                x_1CFT = block.apply(x_1CFT)
            return x_1CFT
        padded_1CFT = F.pad(x_1CFT, (_HALO, _HALO))
        for block in self._blocks:
            padded_1CFT = block.apply(padded_1CFT)
        return padded_1CFT[..., _HALO:-_HALO]


class _Block:
    """A residual block on a whole map, which is small behind a front end."""

    def __init__(self, block: ResidualBlock) -> None:
        weight1, bias1_C = _fold_first(block)
        inputs = block.conv1.in_channels
        size = (1, block.conv2.out_channels, _SPECTRAL_NODES, _TEMPORAL_NODES)
        self._first = ConvolutionWeight(weight1, bias1_C, (1, 1), (1, inputs, *size[2:]))
        weight2 = block.conv2.weight * (SCALE * ALPHA)
        self._second = ConvolutionWeight(weight2, block.conv2.bias, (0, 1), size)
        self._downsample: ConvolutionWeight | None = None
        if block.changes_channels:
            down = block.conv_downsample
            self._downsample = ConvolutionWeight(
                down.weight, down.bias, (0, 1), (1, inputs, *size[2:])
            )

    def apply(self, x_1CFT: Tensor) -> Tensor:
        """Return a map with the same number of times; the input may be overwritten."""
        hidden_1CFT = unscaled_selu_(self._first.apply(x_1CFT)).sub_(1)
        if self._downsample is not None:
            x_1CFT = self._downsample.apply(x_1CFT)
        return self._second.add_to(x_1CFT, hidden_1CFT)


class _PoolingBlock:
    """A residual block with pooling, from one padded map to the next, in blocks of time."""

    def __init__(self, block: ResidualBlock) -> None:
        conv1 = block.conv1
        conv2 = block.conv2
        assert conv2.bias is not None
        self._channels = conv2.out_channels
        size = (1, conv2.out_channels, _FREQUENCIES + 1, self._width(_FREQUENCIES))
        weight1, bias1_C = _fold_first(block)
        self._first = ConvolutionWeight(weight1, bias1_C, (1, 0), (1, conv1.in_channels, *size[2:]))
        weight2 = conv2.weight * (SCALE * ALPHA)
        # The input is larger by 1 everywhere.
        bias2_C = conv2.bias - weight2.sum(dim=(1, 2, 3))
        self._second = ConvolutionWeight(weight2, bias2_C, (0, 0), size)
        self._downsample: ConvolutionWeight | None = None
        if block.changes_channels:
            down = block.conv_downsample
            self._downsample = ConvolutionWeight(
                down.weight, down.bias, (0, 0), (1, conv1.in_channels, *size[2:])
            )

    def apply(self, padded_1CFT: Tensor) -> Tensor:
        """Map a padded map to a padded map with a third of the times."""
        frequencies = padded_1CFT.shape[2]
        times = padded_1CFT.shape[3] - 2 * _HALO
        result_1CFT = torch.empty(
            (1, self._channels, frequencies, times // _POOL + 2 * _HALO),
            memory_format=torch.channels_last,
        )
        result_1CFT[..., :_HALO] = 0
        result_1CFT[..., -_HALO:] = 0
        used = times // _POOL * _POOL
        width = self._width(frequencies)
        for start in range(0, used, width):
            end = min(start + width, used)
            stretch_1CFT = self._compute(padded_1CFT, start, end)
            target_1CFT = result_1CFT[..., _HALO + start // _POOL : _HALO + end // _POOL]
            # In memory order, in which a maximum is twice as fast.
            stretch_1FTC = stretch_1CFT.permute(0, 2, 3, 1)
            pooled_1FTC = stretch_1FTC.unflatten(2, (-1, _POOL)).amax(dim=3)
            target_1CFT.permute(0, 2, 3, 1).copy_(pooled_1FTC)
        return result_1CFT

    def _compute(self, padded_1CFT: Tensor, start: int, end: int) -> Tensor:
        """Compute the times from `start` to `end`, before pooling."""
        part_1CFT = _cut_times(padded_1CFT, start, end + 2 * _HALO)
        hidden_1CFT = unscaled_selu_(self._first.apply(part_1CFT))
        # The second convolution sees zeros before the first time and after the last.
        if start == 0:
            hidden_1CFT[..., 0] = 1
        if end == padded_1CFT.shape[3] - 2 * _HALO:
            hidden_1CFT[..., -1] = 1
        width = end - start
        if self._downsample is None:
            sum_1CFT = _cut_times(part_1CFT, _HALO, _HALO + width)
        else:
            sum_1CFT = self._downsample.apply(_cut_times(part_1CFT, 1, width + 3))
        return self._second.add_to(sum_1CFT, hidden_1CFT)

    def _width(self, frequencies: int) -> int:
        """Return the number of times of a block, a multiple of `_POOL`."""
        return _POOL * max(1, _NUMBERS // (self._channels * (frequencies + 1) * _POOL))


def _fold_first(block: ResidualBlock) -> tuple[Tensor, Tensor]:
    """Return the first convolution's weight and bias, with its norm and SELU folded in."""
    conv = block.conv1
    assert conv.bias is not None
    factor_C, bias_C = fold_norm(block.bn2, conv.bias)
    weight = conv.weight * factor_C[:, None, None, None]
    return weight * LOG2_E, bias_C * LOG2_E


def _cut_times(x_1CFT: Tensor, start: int, end: int) -> Tensor:
    """Return a dense, channels-last copy of some times."""
    part_1CFT = x_1CFT[..., start:end]
    if x_1CFT.shape[1] == 1:
        # With a single channel both layouts are equal, and this one is faster.
        return part_1CFT.contiguous()
    return part_1CFT.contiguous(memory_format=torch.channels_last)


def pack_filters(filters: SincFilters, dtype: torch.dtype) -> PackedFilters | None:
    """Return the filters packed; None if a filter is not symmetric."""
    taps_FK = filters.filters[:, 0]
    is_symmetric = taps_FK.shape[1] % 2 == 1 and torch.equal(taps_FK, taps_FK.flip(1))
    return PackedFilters(filters) if is_symmetric else None


def pack_encoder(encoder: ResidualEncoder, dtype: torch.dtype) -> PackedEncoder | None:
    """Return the blocks packed.

    The result is None unless all are the project's, each in its own Sequential, and alike.
    """
    blocks = _blocks_of(encoder)
    if len(blocks) != len(encoder) or not blocks:
        return None
    # The input of the second block is then a new tensor, which may be overwritten.
    is_known = blocks[0].changes_channels and len({block.pool for block in blocks}) == 1
    return PackedEncoder(encoder) if is_known else None


def _blocks_of(encoder: ResidualEncoder) -> list[ResidualBlock]:
    """Return the blocks, each alone in its Sequential."""
    blocks = []
    for sequence in encoder:
        if not isinstance(sequence, nn.Sequential) or len(sequence) != 1:
            continue
        # Not a derived class, which may compute something else.
        if type(sequence[0]) is ResidualBlock:
            blocks.append(sequence[0])
    return blocks

"""AASIST's residual blocks, in stretches of time that stay in a core's cache.

Invariant: what `ResidualEncoder` computes in `eval()` mode, utterance by utterance. A stretch knows
its neighbours' times, so that its edges show nowhere.

The batch norm between the convolutions is part of the first one's weights, and SELU's constants are
part of both. The whole map of a recording of 4 s has 16 million numbers; each step over it would
read and write them in memory, which takes as long as computing them.

Shapes: 1 utterance, C channels, F frequencies, T times; "padded" maps have `_HALO` more times at
either end, which are zero.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.residual_blocks import ResidualBlock, ResidualEncoder
from asdf.networks.fast_selu import ALPHA, LOG2_E, SCALE, unscaled_selu_
from asdf.networks.packed.arithmetic import ConvolutionWeight
from asdf.networks.packed.norms import fold_norm

# Two convolutions of three times each.
_HALO = 2
_POOL = 3
# Of one step's result, 2.4 MB: fewer cost more calls, more leave the caches.
_NUMBERS = 600_000
_FREQUENCIES = 23
# Of a map behind a front end, of 4 s.
_SPECTRAL_NODES = 42
_TEMPORAL_NODES = 67


class PackedEncoder(nn.Module):
    """Residual blocks one after the other."""

    def __init__(self, encoder: ResidualEncoder) -> None:
        super().__init__()
        blocks = _blocks_of(encoder)
        self._pools = blocks[0].pool
        make = _PoolingBlock if self._pools else _Block
        # No modules: they have no parameters of the network.
        self._blocks = [make(block) for block in blocks]

    def forward(self, x_BCFT: Tensor) -> Tensor:
        """Return what the last block makes of (batch, channels, F, T)."""
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
    """A residual block over a whole map, which is small behind a front end."""

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
        """Map a map to one of as many times, which may overwrite it."""
        hidden_1CFT = unscaled_selu_(self._first.apply(x_1CFT)).sub_(1)
        if self._downsample is not None:
            x_1CFT = self._downsample.apply(x_1CFT)
        return self._second.add_to(x_1CFT, hidden_1CFT)


class _PoolingBlock:
    """A residual block that pools, from one padded map to the next, stretch by stretch."""

    def __init__(self, block: ResidualBlock) -> None:
        conv1 = block.conv1
        conv2 = block.conv2
        assert conv2.bias is not None
        self._channels = conv2.out_channels
        size = (1, conv2.out_channels, _FREQUENCIES + 1, self._width(_FREQUENCIES))
        weight1, bias1_C = _fold_first(block)
        self._first = ConvolutionWeight(weight1, bias1_C, (1, 0), (1, conv1.in_channels, *size[2:]))
        weight2 = conv2.weight * (SCALE * ALPHA)
        # What comes in is greater by 1 everywhere.
        bias2_C = conv2.bias - weight2.sum(dim=(1, 2, 3))
        self._second = ConvolutionWeight(weight2, bias2_C, (0, 0), size)
        self._downsample: ConvolutionWeight | None = None
        if block.changes_channels:
            down = block.conv_downsample
            self._downsample = ConvolutionWeight(
                down.weight, down.bias, (0, 0), (1, conv1.in_channels, *size[2:])
            )

    def apply(self, padded_1CFT: Tensor) -> Tensor:
        """Map a padded map to a padded one of a third of the times."""
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
            _pool_times(stretch_1CFT, target_1CFT)
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
        """Return how many times a stretch has, a multiple of `_POOL`."""
        return _POOL * max(1, _NUMBERS // (self._channels * (frequencies + 1) * _POOL))


def _fold_first(block: ResidualBlock) -> tuple[Tensor, Tensor]:
    """Return the first convolution's weight and bias with its norm and SELU's constant in them."""
    conv = block.conv1
    assert conv.bias is not None
    factor_C, bias_C = fold_norm(block.bn2, conv.bias)
    weight = conv.weight * factor_C[:, None, None, None]
    return weight * LOG2_E, bias_C * LOG2_E


def _cut_times(x_1CFT: Tensor, start: int, end: int) -> Tensor:
    """Return a dense copy of some times, channels last."""
    part_1CFT = x_1CFT[..., start:end]
    if x_1CFT.shape[1] == 1:
        # Of a single channel both orders are one, and this one is faster.
        return part_1CFT.contiguous()
    return part_1CFT.contiguous(memory_format=torch.channels_last)


def _pool_times(x_1CFT: Tensor, target_1CFT: Tensor) -> None:
    """Write the maximum of each `_POOL` times to `target_1CFT`."""
    # In the order in memory, in which a maximum is twice as fast.
    x_1FTC = x_1CFT.permute(0, 2, 3, 1)
    target_1CFT.permute(0, 2, 3, 1).copy_(x_1FTC.unflatten(2, (-1, _POOL)).amax(dim=3))


def is_known_encoder(encoder: ResidualEncoder) -> bool:
    """Return whether all blocks are the project's, each by itself in a Sequential, and alike."""
    blocks = _blocks_of(encoder)
    if len(blocks) != len(encoder) or not blocks:
        return False
    # What comes into the second block is then a new tensor, which may be overwritten.
    return blocks[0].changes_channels and len({block.pool for block in blocks}) == 1


def _blocks_of(encoder: ResidualEncoder) -> list[ResidualBlock]:
    """Return the blocks that stand by themselves in a Sequential."""
    blocks = []
    for sequence in encoder:
        if not isinstance(sequence, nn.Sequential) or len(sequence) != 1:
            continue
        # Not a derived one, which may compute something else.
        if type(sequence[0]) is ResidualBlock:
            blocks.append(sequence[0])
    return blocks

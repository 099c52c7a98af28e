"""A network whose layers are exchanged for packed ones, while it scores.

Invariant: outside `in_use` the network is as it was: it can learn, be saved and be copied. Packed
weights are made anew where the network's have changed. A layer of a kind that is not known, one
that hooks watch and one whose weight is computed stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import nn
from torchaudio.models.wav2vec2.components import (
    ConvolutionalPositionalEmbedding,
    FeatureExtractor,
    FeedForward,
    SelfAttention,
)

from asdf.networks.aasist import MagnitudePool
from asdf.networks.autocast import weights_cast_apart
from asdf.networks.back_ends.graph_attention import GraphAttention, HeterogeneousGraphAttention
from asdf.networks.back_ends.residual_blocks import ResidualEncoder
from asdf.networks.back_ends.ssl_aasist import NodeAttention
from asdf.networks.fast_functions import LearningSELU, LearningTanh, PackedSelu, PackedTanh
from asdf.networks.sinc import SincFilters
from asdf.networks.watched import is_plain
from asdf.packed.packed_graphs import pack_attention, pack_graph
from asdf.packed.packed_wav2vec2 import (
    PackedPositions,
    pack_feed_forward,
    pack_self_attention,
    pack_stem,
)
from asdf.packed.packed_weights import pack_linear
from asdf.packed.raw_aasist import PackedMagnitudePool, pack_encoder, pack_filters

Make = Callable[[Any, torch.dtype], nn.Module | None]

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)

# A tensor, where its numbers are, and how often they were changed in place.
_State = tuple[int, int, int]


@dataclass(frozen=True)
class _Exchange:
    """A layer of a network and what takes its position."""

    parent: nn.Module
    name: str
    layer: nn.Module
    packed: nn.Module


class PackedNetwork:
    """The packed layers of a network on the CPU, whose own numbers are float32."""

    def __init__(
        self,
        network: nn.Module,
        replace: bool = False,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Pack `network` when it is first used.

        Args:
            dtype: Number format of the products of large linear maps; all else is computed in
                float32.
            replace: leave the packed layers in it, and forget the others: the network then takes
                no more memory than before, and can do nothing but score.
        """
        self._network = network
        self._replace = replace
        self._dtype = dtype
        self._exchanges: list[_Exchange] = []
        self._state: list[_State] | None = None

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the network compute with packed layers in the block; in `eval()` mode alone."""
        self._refresh()
        try:
            for each in self._exchanges:
                each.parent._modules[each.name] = each.packed
            with weights_cast_apart():
                yield
        finally:
            for each in self._exchanges:
                each.parent._modules[each.name] = each.layer

    def _refresh(self) -> None:
        """Pack the weights if the network's are not those that were packed."""
        if self._replace:
            if self._state is None:
                with torch.no_grad():
                    for each in _exchange_layers(self._network, self._dtype):
                        # At once: its weights are then freed before the next ones are packed.
                        each.parent._modules[each.name] = each.packed
                self._state = []
            return
        # Which tensors the network has, where they are, and how often each was changed.
        state = []
        for tensor in chain(self._network.parameters(), self._network.buffers()):
            # Tensors that were made for inference count no changes, and may not change.
            version = 0 if tensor.is_inference() else tensor._version
            # An assignment to `.data` changes where a tensor is, and is not counted.
            state.append((id(tensor), tensor.data_ptr(), version))
        if state == self._state:
            return
        # First: the memory of the old ones is then free, and after a failure nothing counts as
        # packed.
        self._exchanges = []
        self._state = None
        with torch.no_grad():
            self._exchanges = list(_exchange_layers(self._network, self._dtype))
        self._state = state


def _exchange_layers(network: nn.Module, dtype: torch.dtype) -> Iterator[_Exchange]:
    """Yield what is exchanged below `network`; nothing within a layer that is exchanged."""
    made: dict[int, nn.Module | None] = {}
    is_torchs = type(network).__module__.startswith("torch.nn.modules.")
    if is_torchs and not isinstance(network, _CONTAINERS):
        # Such a module may compute with its layers' weights.
        return
    for name, layer in list(network._modules.items()):
        if layer is None:
            continue
        # The same one may stand in several positions.
        if id(layer) not in made:
            made[id(layer)] = _pack_layer(layer, dtype)
        packed = made[id(layer)]
        if packed is None:
            yield from _exchange_layers(layer, dtype)
        else:
            yield _Exchange(network, name, layer, packed.eval())


def _pack_layer(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    """Return a packed layer; None where it is of another kind, or cannot be packed."""
    make = _MAKERS.get(type(layer))
    if make is None or not all(is_plain(module) for module in layer.modules()):
        return None
    for tensor in chain(layer.parameters(), layer.buffers()):
        is_whole = type(tensor) in (nn.Parameter, torch.Tensor)
        is_number = tensor.is_floating_point()
        if not is_whole or tensor.device.type != "cpu":
            return None
        if is_number and tensor.dtype is not torch.float32:
            return None
    return make(layer, dtype)


def _pack_selu(layer: nn.SELU, dtype: torch.dtype) -> nn.Module | None:
    # One that overwrites what comes in may be relied on for that.
    return None if layer.inplace else PackedSelu()


# By the very class: a derived one may compute something else.
_MAKERS: dict[type[nn.Module], Make] = {
    nn.Linear: pack_linear,
    FeatureExtractor: pack_stem,
    FeedForward: pack_feed_forward,
    SelfAttention: pack_self_attention,
    ConvolutionalPositionalEmbedding: lambda layer, dtype: PackedPositions(layer),
    ResidualEncoder: pack_encoder,
    NodeAttention: pack_attention,
    GraphAttention: pack_graph,
    HeterogeneousGraphAttention: pack_graph,
    SincFilters: pack_filters,
    MagnitudePool: lambda layer, dtype: PackedMagnitudePool(),
    nn.SELU: _pack_selu,
    LearningSELU: _pack_selu,
    nn.Tanh: lambda layer, dtype: PackedTanh(),
    LearningTanh: lambda layer, dtype: PackedTanh(),
}

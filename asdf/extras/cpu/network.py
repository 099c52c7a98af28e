"""A network whose layers are replaced by packed ones while it scores.

Invariant: outside `in_use`, the network is unchanged: it can be trained, saved and copied. Weights
are packed again if the network's have changed. Layers of unknown kinds, with hooks or with computed
weights are not replaced.
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

from asdf.extras.cpu.packed_wav2vec2 import (
    PackedPositions,
    pack_feed_forward,
    pack_self_attention,
    pack_stem,
)
from asdf.extras.cpu.packed_weights import (
    is_available,
    pack_attention,
    pack_graph,
    pack_linear,
    packs_bfloat16,
)
from asdf.extras.cpu.raw_aasist import PackedMagnitudePool, pack_encoder, pack_filters
from asdf.networks.aasist import MagnitudePool
from asdf.networks.back_ends.graph_attention import GraphAttention, HeterogeneousGraphAttention
from asdf.networks.back_ends.graph_back_end import ResidualEncoder
from asdf.networks.back_ends.ssl_aasist import NodeAttention
from asdf.networks.casting import weights_cast_apart
from asdf.networks.filters import SincFilters
from asdf.networks.functions import LearningSELU, LearningTanh, PackedSelu, PackedTanh, is_plain

Make = Callable[[Any, torch.dtype], nn.Module | None]

_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)

# A tensor's id, its address, and the number of in-place changes.
_State = tuple[int, int, int]


@dataclass(frozen=True)
class _Exchange:
    """A layer of a network and its packed replacement."""

    parent: nn.Module
    name: str
    layer: nn.Module
    packed: nn.Module


class PackedNetwork:
    """The packed layers of a network on the CPU with float32 weights."""

    def __init__(
        self, network: nn.Module, replace: bool = False, dtype: torch.dtype = torch.float32
    ) -> None:
        """Prepare packing of `network`, which happens at first use.

        Args:
            dtype: Number format for products of large linear maps; all else is computed in float32.
            replace: Whether the packed layers replace the others permanently; the network then
                takes no more memory than before but can only score.
        """
        self._network = network
        self._replace = replace
        self._dtype = dtype
        self._exchanges: list[_Exchange] = []
        self._state: list[_State] | None = None

    @staticmethod
    def takes(device: torch.device, precision: str) -> bool:
        """Return whether layers are packed on this device and in this precision."""
        if device.type != "cpu" or not is_available():
            return False
        return precision != "bf16" or packs_bfloat16()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the network compute with packed layers in the block, only in `eval()` mode."""
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
        """Pack the weights again if the network's have changed."""
        if self._replace:
            if self._state is None:
                with torch.no_grad():
                    for each in _exchange_layers(self._network, self._dtype):
                        # Immediately, so that its weights are freed before the next ones are
                        # packed.
                        each.parent._modules[each.name] = each.packed
                self._state = []
            return
        # The network's tensors, their addresses, and the number of changes of each.
        state = []
        for tensor in chain(self._network.parameters(), self._network.buffers()):
            # Inference tensors count no changes and cannot change.
            version = 0 if tensor.is_inference() else tensor._version
            # An assignment to `.data` changes the address without being counted.
            state.append((id(tensor), tensor.data_ptr(), version))
        if state == self._state:
            return
        # Cleared first, so that the memory of the old ones is free, and nothing counts as packed
        # after a failure.
        self._exchanges = []
        self._state = None
        with torch.no_grad():
            self._exchanges = list(_exchange_layers(self._network, self._dtype))
        self._state = state


def _exchange_layers(network: nn.Module, dtype: torch.dtype) -> Iterator[_Exchange]:
    """Yield the replacements in `network`, none inside a replaced layer."""
    made: dict[int, nn.Module | None] = {}
    is_torchs = type(network).__module__.startswith("torch.nn.modules.")
    if is_torchs and not isinstance(network, _CONTAINERS):
        # Such a module may use its layers' weights directly.
        return
    for name, layer in list(network._modules.items()):
        if layer is None:
            continue
        # The same layer may occur at several positions.
        if id(layer) not in made:
            made[id(layer)] = _pack_layer(layer, dtype)
        packed = made[id(layer)]
        if packed is None:
            yield from _exchange_layers(layer, dtype)
        else:
            yield _Exchange(network, name, layer, packed.eval())


def _pack_layer(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    """Return the packed layer; None if its kind is not supported or it cannot be packed."""
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
    # Code may rely on the side effect of an in-place layer.
    return None if layer.inplace else PackedSelu()


# By exact class, since a derived class may compute something else.
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

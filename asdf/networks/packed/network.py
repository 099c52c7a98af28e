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

import torch
from torch import nn
from torchaudio.models.wav2vec2.components import (
    ConvolutionalPositionalEmbedding,
    FeatureExtractor,
    FeedForward,
    SelfAttention,
)

from asdf.networks.aasist import MagnitudePool
from asdf.networks.back_ends.graph_attention import GraphAttention, HeterogeneousGraphAttention
from asdf.networks.back_ends.residual_blocks import ResidualEncoder
from asdf.networks.back_ends.ssl_aasist import NodeAttention
from asdf.networks.casting import weights_cast_apart
from asdf.networks.cpu_gradients import LearningSELU, LearningTanh
from asdf.networks.fast_selu import PackedSelu, PackedTanh
from asdf.networks.packed.attention import PackedNodeAttention, is_known_attention
from asdf.networks.packed.graphs import (
    PackedGraphAttention,
    PackedHeterogeneousAttention,
    is_known_graph,
)
from asdf.networks.packed.linear import PackedLinear, is_large
from asdf.networks.packed.positions import PackedPositions
from asdf.networks.packed.raw import PackedFilters, PackedMagnitudePool, is_symmetric
from asdf.networks.packed.residual import PackedEncoder, is_known_encoder
from asdf.networks.packed.wav2vec2 import (
    PackedFeedForward,
    PackedSelfAttention,
    PackedStem,
    is_known_stem,
)
from asdf.networks.sinc import SincFilters
from asdf.networks.watched import is_plain

Make = Callable[[nn.Module, torch.dtype], nn.Module | None]

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
            self._replace_once()
            return
        state = _read_state(self._network)
        if state == self._state:
            return
        # First: the memory of the old ones is then free, and after a failure nothing counts as
        # packed.
        self._exchanges = []
        self._state = None
        with torch.no_grad():
            self._exchanges = list(_exchange_layers(self._network, self._dtype))
        self._state = state

    def _replace_once(self) -> None:
        if self._state is not None:
            return
        with torch.no_grad():
            for each in _exchange_layers(self._network, self._dtype):
                # At once: its weights are then freed before the next ones are packed.
                each.parent._modules[each.name] = each.packed
        self._state = []


def _read_state(network: nn.Module) -> list[_State]:
    """Return which tensors the network has, where they are, and how often each was changed."""
    states = []
    for tensor in chain(network.parameters(), network.buffers()):
        # Tensors that were made for inference count no changes, and may not change.
        version = 0 if tensor.is_inference() else tensor._version
        # An assignment to `.data` changes where a tensor is, and is not counted.
        states.append((id(tensor), tensor.data_ptr(), version))
    return states


def _exchange_layers(network: nn.Module, dtype: torch.dtype) -> Iterator[_Exchange]:
    """Yield what is exchanged below `network`; nothing within a layer that is exchanged."""
    made: dict[int, nn.Module | None] = {}
    if _looks_at_weights(network):
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


def _looks_at_weights(module: nn.Module) -> bool:
    """Return whether a module is one of torch's that may compute with its layers' weights."""
    is_torchs = type(module).__module__.startswith("torch.nn.modules.")
    return is_torchs and not isinstance(module, _CONTAINERS)


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


def _pack_linear(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, nn.Linear)
    return PackedLinear(layer, dtype) if is_large(layer) else None


def _pack_stem(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, FeatureExtractor)
    return PackedStem(layer, dtype) if is_known_stem(layer) else None


def _pack_feed_forward(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, FeedForward)
    parts = (layer.intermediate_dense, layer.output_dense)
    # Low-rank updates are linear layers of another kind.
    if any(type(part) is not nn.Linear for part in parts):
        return None
    return PackedFeedForward(layer, dtype) if is_large(layer.intermediate_dense) else None


def _pack_self_attention(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, SelfAttention)
    parts = (layer.q_proj, layer.k_proj, layer.v_proj, layer.out_proj)
    if any(type(part) is not nn.Linear for part in parts):
        return None
    return PackedSelfAttention(layer, dtype) if is_large(layer.out_proj) else None


def _pack_positions(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, ConvolutionalPositionalEmbedding)
    return PackedPositions(layer)


def _pack_encoder(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, ResidualEncoder)
    return PackedEncoder(layer) if is_known_encoder(layer) else None


def _pack_attention(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, NodeAttention)
    return PackedNodeAttention(layer) if is_known_attention(layer) else None


def _pack_graph(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, GraphAttention)
    return PackedGraphAttention(layer) if is_known_graph(layer) else None


def _pack_graphs(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, HeterogeneousGraphAttention)
    return PackedHeterogeneousAttention(layer) if is_known_graph(layer) else None


def _pack_filters(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, SincFilters)
    return PackedFilters(layer) if is_symmetric(layer) else None


def _pack_pool(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    return PackedMagnitudePool()


def _pack_selu(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    assert isinstance(layer, nn.SELU)
    # One that overwrites what comes in may be relied on for that.
    return None if layer.inplace else PackedSelu()


def _pack_tanh(layer: nn.Module, dtype: torch.dtype) -> nn.Module | None:
    return PackedTanh()


# By the very class: a derived one may compute something else.
_MAKERS: dict[type[nn.Module], Make] = {
    nn.Linear: _pack_linear,
    FeatureExtractor: _pack_stem,
    FeedForward: _pack_feed_forward,
    SelfAttention: _pack_self_attention,
    ConvolutionalPositionalEmbedding: _pack_positions,
    ResidualEncoder: _pack_encoder,
    NodeAttention: _pack_attention,
    GraphAttention: _pack_graph,
    HeterogeneousGraphAttention: _pack_graphs,
    SincFilters: _pack_filters,
    MagnitudePool: _pack_pool,
    nn.SELU: _pack_selu,
    LearningSELU: _pack_selu,
    nn.Tanh: _pack_tanh,
    LearningTanh: _pack_tanh,
}

"""Bottleneck adapters: small networks between the layers of a frozen front end.

Invariant: an adapter initially adds zeros, so the network's results are unchanged to the last bit.
It is attached to a module of the front end, whose class and names stay.

Source: Houlsby et al., "Parameter-Efficient Transfer Learning for NLP", ICML 2019: one after the
feed-forward network of each layer, before its residual sum.

Shapes: B any number of dimensions, C feature values, W values of the bottleneck.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.first_numbers import draw_uniform
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.ssl_detector import SSLDetector
from asdf.networks.tuning.low_rank_maps import linear_maps
from asdf.settings.sections import Adapter

_BEFORE = "adapter_before"
_AFTER = "adapter"


class Bottleneck(nn.Module):
    """x + up(gelu(down(x))), where `up` is initialised with zeros."""

    def __init__(self, dimension: int, width: int, name: str) -> None:
        super().__init__()
        down_WC = draw_uniform(torch.empty(width, dimension), "adapter", name)
        self.down_weight = nn.Parameter(down_WC)
        self.down_bias = nn.Parameter(torch.zeros(width))
        self.up_weight = nn.Parameter(torch.zeros(dimension, width))
        self.up_bias = nn.Parameter(torch.zeros(dimension))

    def forward(self, x_BC: Tensor) -> Tensor:
        """Return features of the same shape."""
        narrow_BW = F.gelu(F.linear(x_BC, self.down_weight, self.down_bias))
        return x_BC + F.linear(narrow_BW, self.up_weight, self.up_bias)


def add_adapters(front_end: FrontEnd, adapter: Adapter) -> None:
    """Attach adapters before the first computed encoder layer, and inside each of them.

    Raises:
        UsageError: the front end computes no layers, or has none with feed-forward networks.
    """
    layers = list(front_end.layer_modules())[: front_end.layers]
    if not layers:
        raise UsageError(
            f"adapter.width = {adapter.width}: {type(front_end).__name__} has no encoder layers to "
            "add adapters to. Set adapter.positions = ('after',)."
        )
    if "before" in adapter.positions:
        layers[0].add_module(_BEFORE, Bottleneck(front_end.dimension, adapter.width, "before"))
        layers[0].register_forward_pre_hook(_adapt_input)
    if "layers" in adapter.positions:
        for number, layer in enumerate(layers, 1):
            last_map = _last_map(front_end, layer, number)
            name = f"layer {number}"
            last_map.add_module(_AFTER, Bottleneck(front_end.dimension, adapter.width, name))
            last_map.register_forward_hook(_adapt_output)


def add_feature_adapter(network: nn.Module, adapter: Adapter) -> None:
    """Add an adapter between the front end and the back end, trained with the front end.

    Raises:
        UsageError: the network is not an `SSLDetector`, or its back end takes several layers.
    """
    if not isinstance(network, SSLDetector) or network.back_end.takes != "features":
        raise UsageError(
            "adapter.positions: 'after' needs a network whose back end takes one tensor of "
            f"features, unlike {type(network).__name__}. Remove 'after'."
        )
    network.feature_adapter = Bottleneck(network.front_end.dimension, adapter.width, "after")


def has_adapters(network: nn.Module) -> bool:
    """Return whether the network has any adapter."""
    return any(isinstance(module, Bottleneck) for module in network.modules())


def _last_map(front_end: FrontEnd, layer: nn.Module, number: int) -> nn.Module:
    """Return the linear map that ends a layer's feed-forward network."""
    inner = {id(module) for module in layer.modules()}
    maps = []
    for linear in linear_maps(front_end):
        module = linear.module
        if id(module) not in inner or linear.kind != "feed_forward":
            continue
        # The width of the layer distinguishes it from narrower maps for other purposes.
        if isinstance(module, nn.Linear) and module.out_features == front_end.dimension:
            maps.append(module)
    if not maps:
        raise UsageError(
            f"adapter.positions: layer {number} of {type(front_end).__name__} has no feed-forward "
            "network of torch.nn.Linear. Remove 'layers'."
        )
    return maps[-1]


def _adapt_input(layer: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    adapter = layer.get_submodule(_BEFORE)
    return adapter(inputs[0]), *inputs[1:]


def _adapt_output(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
    adapted: Tensor = module.get_submodule(_AFTER)(output)
    return adapted

"""Low-rank updates of linear maps (LoRA), with separately learned magnitudes (DoRA).

Invariants: an updated map keeps its class's interface and the names and values of its weights;
initially its results are unchanged, to the last bit on the CPU. Reading its `weight` gives the
updated one, so attention that multiplies by weights directly is updated as well. In `eval()` mode
it computes with that weight, so a merged network gives exactly the same scores. In a sharded
network, weights are only available while gathered; until then `weight` is the parameter, which
torch reads by that name to find the part to gather.

Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022; Liu et al.,
"DoRA: Weight-Decomposed Low-Rank Adaptation", ICML 2024.

Shapes: B any number of dimensions, I input values, O output values, R the rank.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.distributed.sharding import is_part
from asdf.networks.autocast import without_autocast
from asdf.networks.first_numbers import draw_uniform
from asdf.settings.sections import Lora

# The parts of attention's joined projection, in this order.
JOINED = ("q_proj", "k_proj", "v_proj")
_DOWN = "lora_A"
_UP = "lora_B"
_MAGNITUDE = "lora_magnitude"


class _Updated(nn.Module):
    """A module with updated weights; `update_map` turns a plain module into one.

    Attributes:
        plain_class: Original class of the module, which merging restores.
        lora_scale: Scale of the update, alpha / rank.
    """

    plain_class: type[nn.Module]
    lora_scale: float
    lora_dropout: float

    def factor(self, kind: str, suffix: str = "") -> Tensor | None:
        """Return a learned tensor of the update; None for magnitudes without DoRA."""
        return self._parameters.get(kind + suffix)

    def updated(self, weight_OI: Tensor, suffix: str = "") -> Tensor:
        """Return W + alpha/R BA (LoRA), with rows scaled to the learned magnitudes (DoRA)."""
        down_RI = self.factor(_DOWN, suffix)
        up_OR = self.factor(_UP, suffix)
        assert down_RI is not None and up_OR is not None
        with without_autocast(weight_OI):
            sum_OI = weight_OI + self.lora_scale * (up_OR @ down_RI)
            magnitude_O = self.factor(_MAGNITUDE, suffix)
            if magnitude_O is None:
                return sum_OI
            scaled_OI = (magnitude_O / _row_norms(sum_OI)).unsqueeze(1) * sum_OI
            return scaled_OI.to(sum_OI.dtype)

    def add_update(self, weight_OI: Tensor, lora: Lora, name: str, suffix: str = "") -> None:
        """Create the tensors of a weight's update; its name determines the initial values."""
        size_out, size_in = weight_OI.shape
        down_RI = draw_uniform(weight_OI.new_empty((lora.rank, size_in)), "lora", name)
        self.register_parameter(_DOWN + suffix, nn.Parameter(down_RI))
        up_OR = weight_OI.new_zeros((size_out, lora.rank))
        self.register_parameter(_UP + suffix, nn.Parameter(up_OR))
        if lora.decomposed:
            norms_O = _row_norms(weight_OI)
            self.register_parameter(_MAGNITUDE + suffix, nn.Parameter(norms_O))


class LowRankLinear(_Updated, nn.Linear):
    """A linear map with an update."""

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The updated weight (O, I), or a shard of the parameter while the network is sharded."""
        if is_part(self.base_weight):
            return self.base_weight
        return self.updated(self.base_weight)

    @property
    def base_weight(self) -> Tensor:
        """The original weight (O, I), as in the state dict."""
        return cast(Tensor, self._parameters["weight"])

    def forward(self, x_BI: Tensor) -> Tensor:
        """Return (B, O); in training by two small products, without the updated weight."""
        if not self.training:
            return F.linear(x_BI, self.weight, self.bias)
        plain_BO = F.linear(x_BI, self.base_weight, self.bias)
        dropped_BI = F.dropout(x_BI, self.lora_dropout)
        down_RI = cast(Tensor, self.factor(_DOWN))
        up_OR = cast(Tensor, self.factor(_UP))
        update_BO = self.lora_scale * F.linear(F.linear(dropped_BI, down_RI), up_OR)
        magnitude_O = self.factor(_MAGNITUDE)
        if magnitude_O is None:
            return plain_BO + update_BO
        # The norms of the rows of W + alpha/R BA are treated as constant (DoRA, eq. 11).
        with torch.no_grad(), without_autocast(self.base_weight):
            norms_O = _row_norms(self.base_weight + self.lora_scale * (up_OR @ down_RI))
        ratio_O = magnitude_O / norms_O
        unbiased_BO = plain_BO if self.bias is None else plain_BO - self.bias
        # A sum, to which the initial update adds zeros; scaling would round differently.
        added_BO = (ratio_O - 1.0) * unbiased_BO + ratio_O * update_BO
        return plain_BO + added_BO.to(plain_BO.dtype)


class LowRankAttention(_Updated, nn.MultiheadAttention):
    """Attention with a joined map of queries, keys and values, some of them with an update."""

    @property
    def in_proj_weight(self) -> Tensor:  # type: ignore[override]
        """The updated weight (3 O, I), or a shard of the parameter while the network is sharded."""
        base = cast(Tensor, self._parameters["in_proj_weight"])
        if is_part(base):
            return base
        parts = []
        for name, weight_OI in zip(JOINED, base.chunk(len(JOINED)), strict=True):
            suffix = f"_{name}"
            has_update = self.factor(_DOWN, suffix) is not None
            parts.append(self.updated(weight_OI, suffix) if has_update else weight_OI)
        return torch.cat(parts)


def update_map(module: nn.Module, lora: Lora, name: str, part: str = "") -> None:
    """Add a zero update to a linear map, or to a `part` of attention's joined projection.

    Args:
        name: Name of the map in its network; with torch's seed, it determines the initial values.
    """
    if not isinstance(module, _Updated):
        plain_class = type(module)
        module.__class__ = LowRankAttention if part else LowRankLinear
        updated = cast(_Updated, module)
        updated.plain_class = plain_class
        updated.lora_scale = lora.alpha / lora.rank
        updated.lora_dropout = lora.dropout
    updated = cast(_Updated, module)
    if not part:
        weight_OI = cast(Tensor, module._parameters["weight"])
        updated.add_update(weight_OI.detach(), lora, name)
        return
    joined = cast(Tensor, module._parameters["in_proj_weight"])
    weight_OI = joined.detach().chunk(len(JOINED))[JOINED.index(part)]
    updated.add_update(weight_OI, lora, name, f"_{part}")


def merge_updates(network: nn.Module) -> int:
    """Merge the updates into the weights, in place; return the number of updated modules.

    The network then has the classes, names and shapes of one without LoRA.
    """
    updated = list(updated_modules(network))
    for module in updated:
        name = "weight" if isinstance(module, LowRankLinear) else "in_proj_weight"
        merged = getattr(module, name).detach()
        for factor in list(module._parameters):
            if is_update(factor):
                del module._parameters[factor]
        module.__class__ = module.plain_class  # type: ignore[assignment]
        module._parameters[name] = nn.Parameter(merged, requires_grad=False)
    return len(updated)


def updated_modules(network: nn.Module) -> Iterator[_Updated]:
    """Yield the modules with an update."""
    for module in network.modules():
        if isinstance(module, _Updated):
            yield module


def is_update(name: str) -> bool:
    """Return whether a parameter of this name belongs to an update."""
    return name.rpartition(".")[2].startswith("lora_")


def _row_norms(weight_OI: Tensor) -> Tensor:
    # A sharded network may be gathered in 16 bits, where a ratio of norms has steps of 0.4 %.
    kind = torch.promote_types(weight_OI.dtype, torch.float32)
    norms_O: Tensor = torch.linalg.vector_norm(weight_OI, dim=1, dtype=kind)
    return norms_O

"""The weights of a layer, cast to autocast's number format in one operation.

Invariant: the numbers equal those of autocast to the last bit, except for attention and short
norms. Autocast casts each weight when it is used, and its gradient back; here the weights of a
layer's linear maps and convolutions are cast together before the layer runs. This needs a single
kernel launch on a GPU, and launches take most of the host's time.

Autocast also casts the input of an attention three times, for queries, keys and values. Here their
weights are cast into one matrix: one product computes all three from one cast and sums their
gradients in float32, whereas autocast sums three rounded ones. WavLM's attention already has one
matrix, and its gates are computed by `asdf.networks.gated_attention`.

Casting the weights of a whole network at once would delay all gradients to the end of the backward
pass, where their exchange between processes cannot overlap with computation.

Shapes: B utterances, L frames, C values of a frame or a head, H heads; Z rows of all three
projections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torchaudio.models.wav2vec2.components import LayerNorm, SelfAttention
from torchaudio.models.wav2vec2.wavlm_attention import WavLMSelfAttention

from asdf.networks.autocast import PASS, is_autocast_on
from asdf.networks.functions import is_plain
from asdf.networks.gated_attention import attend_gated, attend_rows, can_gate

# Autocast casts weight and bias of exactly these classes; a derived class may differ.
_KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d)
# Autocast computes these in float32.
_NORMS = (nn.LayerNorm, nn.GroupNorm, LayerNorm)
_PROJECTIONS = ("q_proj", "k_proj", "v_proj")

# A module, the name of an attribute, and its value while the layer runs.
_Change = tuple[nn.Module, str, Any]


class _Part(NamedTuple):
    """Weights that are cast into one tensor.

    Attributes:
        owners: Modules that hold the weights.
        name: Name of the weights in these modules.
        user: Module that reads the cast weights from its attribute `attribute`.
    """

    owners: tuple[nn.Module, ...]
    name: str
    user: nn.Module
    attribute: str

    def weights(self) -> list[nn.Parameter]:
        """Return the existing weights; empty if they cannot be cast together."""
        weights = []
        for owner in self.owners:
            weight = owner._parameters[self.name]
            # The bias may be missing.
            if weight is None or weight.dtype is not torch.float32:
                return []
            weights.append(weight)
        # One cast either passes a gradient or does not, so weights of both kinds stay separate.
        learning = {weight.requires_grad for weight in weights}
        return weights if len(learning) == 1 else []


class _Attention(NamedTuple):
    """An attention, either `joined` (computed by `attend`) or `apart`."""

    module: nn.Module
    attend: Callable[..., tuple[Tensor, None]]
    joined: list[_Part]
    apart: list[_Part]


class _Plan(NamedTuple):
    """The parts of a layer that may be cast."""

    parts: list[_Part]
    attentions: list[_Attention]
    norms: list[_Part]


# Searching the modules of a layer takes as long as a cast.
_PLANS: WeakKeyDictionary[nn.Module, _Plan] = WeakKeyDictionary()


@contextmanager
def weights_cast_together(
    layer: nn.Module, device: torch.device, short_norms: bool = False
) -> Iterator[None]:
    """Within autocast, let linear maps and convolutions of `layer` use weights cast in advance.

    All of them must compute in autocast's format. Nothing is changed without autocast, in a
    compiled network, or for parameters that are not float32.

    Args:
        short_norms: Whether layer norms and group norms also output autocast's format, so that the
            next layers compute in it; means and variances are in float32 in either case.
    """
    if torch.compiler.is_compiling() or PASS.apart or not is_autocast_on(device):
        yield
        return
    parts, changes = _choose(layer, short_norms)
    if not parts:
        yield
        return
    groups = [part.weights() for part in parts]
    casts = _cast_weights(torch.get_autocast_dtype(device.type), groups)
    for part, cast in zip(parts, casts, strict=True):
        changes.append((part.user, part.attribute, cast))
    try:
        for module, name, value in changes:
            # Python finds an attribute of the object before a module's parameter or a method.
            module.__dict__[name] = value
        yield
    finally:
        for module, name, _ in changes:
            module.__dict__.pop(name, None)


def _choose(layer: nn.Module, short_norms: bool) -> tuple[list[_Part], list[_Change]]:
    """Return the parts to cast, and the attributes to change."""
    plan = _PLANS.get(layer)
    if plan is None:
        plan = _PLANS[layer] = _make_plan(layer)
    parts = list(plan.parts)
    changes: list[_Change] = []
    for attention in plan.attentions:
        module = attention.module
        is_joined = is_plain(module) and all(part.weights() for part in attention.joined)
        parts += attention.joined if is_joined else attention.apart
        if is_joined:
            changes.append((module, "forward", partial(attention.attend, module)))
    parts = [part for part in parts if part.weights()]
    if short_norms:
        shortened = [part for part in plan.norms if part.weights() and is_plain(part.user)]
        for part in shortened:
            changes.append((part.user, "forward", partial(_normalize, part.user)))
        parts += shortened
    return parts, changes


def _make_plan(layer: nn.Module) -> _Plan:
    plan = _Plan([], [], [])
    projections: set[nn.Module] = set()
    for module in layer.modules():
        if type(module) is SelfAttention and _is_known(module):
            owners = tuple(module.get_submodule(name) for name in _PROJECTIONS)
            projections.update(owners)
            joined = [_Part(owners, name, module, f"joined_{name}") for name in ("weight", "bias")]
            apart = [part for owner in owners for part in _parts_of(owner)]
            plan.attentions.append(_Attention(module, _attend, joined, apart))
        elif type(module) is WavLMSelfAttention:
            # The attention itself computes with the weights of these modules.
            parts = []
            for name in ("attention", "attention.out_proj"):
                inner = module.get_submodule(name)
                # Low-rank updates replace it by another class.
                if type(inner) in (nn.MultiheadAttention, NonDynamicallyQuantizableLinear):
                    parts += _parts_of(inner)
            if can_gate(module):
                plan.attentions.append(_Attention(module, attend_gated, parts, parts))
            else:
                plan.parts.extend(parts)
        elif type(module) in _KINDS and module not in projections:
            plan.parts.extend(_parts_of(module))
        elif type(module) in _NORMS:
            plan.norms.extend(_parts_of(module))
    return plan


def _parts_of(module: nn.Module) -> list[_Part]:
    """Return parts of one weight each."""
    names = [name for name, weight in module._parameters.items() if weight is not None]
    return [_Part((module,), name, module, name) for name in names]


def _is_known(attention: SelfAttention) -> bool:
    """Return whether the projections are torch's; low-rank updates use another class."""
    projections = [attention.get_submodule(name) for name in _PROJECTIONS]
    return all(type(layer) is nn.Linear and is_plain(layer) for layer in projections)


def _attend(
    attention: SelfAttention,
    x_BLC: Tensor,
    attention_mask: Tensor | None = None,
    position_bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
) -> tuple[Tensor, None]:
    """Compute `SelfAttention.forward` with the cast weights of all three projections."""
    rows_BLZ = F.linear(x_BLC, attention.joined_weight, attention.joined_bias)
    dropout = attention.dropout if attention.training else 0.0
    output = attention.out_proj
    return attend_rows(rows_BLZ, attention.num_heads, attention_mask, dropout, output), None


def _normalize(norm: nn.Module, x: Tensor) -> Tensor:
    """Apply a norm in the format of its cast weights."""
    with torch.autocast(x.device.type, enabled=False):
        weight: Tensor = norm.weight  # type: ignore[assignment]
        normed: Tensor = type(norm).forward(norm, x.to(weight.dtype))
    return normed


def _cast_weights(dtype: torch.dtype, groups: Sequence[list[nn.Parameter]]) -> list[Tensor]:
    """Return a cast of each group, in order; frozen weights get no gradient."""
    learning = [group for group in groups if group[0].requires_grad]
    resting = [group for group in groups if not group[0].requires_grad]
    sizes = [len(group) for group in learning]
    weights = [weight for group in learning for weight in group]
    of_learning = iter(_Cast.apply(dtype, sizes, *weights) if learning else ())
    with torch.no_grad():
        of_resting = iter(_copy_together(resting, dtype))
    casts: list[Tensor] = []
    for group in groups:
        casts.append(next(of_learning if group[0].requires_grad else of_resting))
    return casts


class _Cast(torch.autograd.Function):
    """Groups of tensors cast to another format and joined; gradients are cast back."""

    @staticmethod
    def forward(
        ctx: Any, dtype: torch.dtype, sizes: list[int], *weights: Tensor
    ) -> tuple[Tensor, ...]:
        # The weights of a part that was not used keep a gradient of None, as under autocast.
        ctx.set_materialize_grads(False)
        groups = _split(weights, sizes)
        ctx.rows = [list(map(len, group)) for group in groups]
        return _copy_together(groups, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        parts: list[Tensor] = []
        for gradient, rows in zip(gradients, ctx.rows, strict=True):
            if gradient is not None:
                parts += gradient.split(rows)
        copies = iter(_lengthen(parts))
        # The first two are the gradients of `dtype` and `sizes`.
        results: list[Tensor | None] = [None, None]
        for gradient, rows in zip(gradients, ctx.rows, strict=True):
            for _ in rows:
                results.append(None if gradient is None else next(copies))
        return tuple(results)


def _lengthen(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Return gradients in float32, in the memory layout of their parameters.

    Gradients of channels-last convolutions come in another layout.
    """
    copies = []
    alike: tuple[list[Tensor], list[Tensor]] = ([], [])
    for gradient in gradients:
        copy = gradient.new_empty(gradient.shape, dtype=torch.float32)
        copies.append(copy)
        if copy.stride() == gradient.stride():
            alike[0].append(copy)
            alike[1].append(gradient)
        else:
            copy.copy_(gradient)
    if alike[0]:
        torch._foreach_copy_(*alike)
    return copies


def _split(tensors: Sequence[Tensor], sizes: Sequence[int]) -> list[Sequence[Tensor]]:
    groups = []
    start = 0
    for size in sizes:
        groups.append(tensors[start : start + size])
        start += size
    return groups


def _copy_together(groups: Sequence[Sequence[Tensor]], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Return a copy of each group's tensors, concatenated along the first dimension."""
    if not groups:
        return ()
    joined = []
    parts: list[Tensor] = []
    for group in groups:
        rows = [len(tensor) for tensor in group]
        copy = torch.empty_like(group[0], dtype=dtype)
        if len(group) > 1:
            copy = group[0].new_empty((sum(rows), *group[0].shape[1:]), dtype=dtype)
        joined.append(copy)
        parts += copy.split(rows)
    torch._foreach_copy_(parts, [tensor for group in groups for tensor in group])
    return tuple(joined)

"""The weights of a layer, cast to autocast's number format in one operation.

Invariant: the numbers equal those of autocast to the last bit, except for attention and short
norms. Autocast casts each weight when it is used, and its gradient back; here the weights of a
layer's linear maps and convolutions are cast together before the layer runs. This needs a single
kernel launch on a GPU, and launches take most of the host's time.

Autocast also casts the input of an attention three times, for queries, keys and values. Here their
weights are cast into one matrix: one product computes all three from one cast and sums their
gradients in float32, whereas autocast sums three rounded ones. WavLM's attention already has one
matrix. Torchaudio computes its gates in ten operations and multiplies them by a float32 bias for
all utterances, which autocast and torch's attention copy for their format and alignment; the
backward pass needs twice as many. Here all utterances share one bias, and the term added to the
attention scores is written once, in the layout that attention reads. The results are equal up to
the rounding of autocast's format; the gradients of the bias are summed over the layers in float32.

Casting the weights of a whole network at once would delay all gradients to the end of the backward
pass, where their exchange between processes cannot overlap with computation.

Source: Chen et al., "WavLM", JSTSP 2022, for the gates.

Shapes: B utterances, L frames, C values of a frame or a head, H heads, X = H * L rows of all heads;
Z rows of all three projections.

Modes of a forward pass: number formats beyond the choices of autocast, and no numbers at all.

Logits and other outputs that determine a score stay in float32 under autocast: in bfloat16,
different scores could become equal.

Networks without numbers have shapes only. On the meta device, torch computes some functions by
Python references, which load its compiler or sympy; this takes longer than all other steps of
opening a network. These functions, which initialise weights, get their result shapes directly here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from threading import local
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.overrides import TorchFunctionMode
from torchaudio.models.wav2vec2.components import LayerNorm, SelfAttention
from torchaudio.models.wav2vec2.wavlm_attention import WavLMSelfAttention

from asdf.networks.functions import is_on_cpu, is_plain, is_traced, multiply


def without_autocast(x: Tensor) -> AbstractContextManager[object]:
    """Return a context manager that disables autocast on the device of `x`."""
    if x.is_meta:
        # Autocast does not support the meta device, on which networks are measured without weights.
        return nullcontext()
    if not torch.is_autocast_enabled(x.device.type):
        # Entering an autocast context takes as long as a small layer.
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


def in_full_precision(layer: nn.Linear, x: Tensor) -> Tensor:
    """Apply an output layer in the precision of its weights, float32, since its logits are scores.

    In bfloat16, a score between 4 and 8 is a multiple of 1/32, and trials with equal scores cannot
    be ranked.
    """
    with without_autocast(x):
        result: Tensor = layer(x.to(layer.weight.dtype))
    return result


class _PassChoices(local):
    """Choices for the forward pass of the current thread.

    Attributes:
        apart: Whether each weight is cast when it is used, since most weights of packed layers are
            not.
        short_norms: Whether norms compute in autocast's format.
    """

    # Not a ContextVar, since reading one breaks the graph of a compiled network in torch 2.11.
    apart = False
    short_norms = False


PASS = _PassChoices()


@contextmanager
def weights_cast_apart() -> Iterator[None]:
    """Leave casting to autocast inside the block, for layers whose weights may not be used."""
    before = PASS.apart
    PASS.apart = True
    try:
        yield
    finally:
        PASS.apart = before


@contextmanager
def norms_shortened(short: bool) -> Iterator[None]:
    """Let `norms_are_short` return `short` inside the block."""
    before = PASS.short_norms
    PASS.short_norms = short
    try:
        yield
    finally:
        PASS.short_norms = before


def norms_are_short() -> bool:
    """Return whether norms compute in autocast's format, for `weights_cast_together`.

    Call this in the forward pass; code that recomputes in the backward pass gets the value as an
    argument.
    """
    return PASS.short_norms


def is_autocast_on(device: torch.device) -> bool:
    """Return whether autocast chooses number formats on `device`."""
    # Autocast does not support the meta device, on which networks are measured without weights.
    return device.type != "meta" and torch.is_autocast_enabled(device.type)


def is_short_on_gpu(x: Tensor) -> bool:
    """Return whether a GPU computes the operations after `x` in 16 bits, one by one.

    The order in memory and the choice of equivalent operations then determine the speed.
    """
    if torch.compiler.is_compiling() or is_traced() or is_on_cpu(x):
        return False
    return is_autocast_on(x.device)


@contextmanager
def without_numbers() -> Iterator[None]:
    """Create the block's tensors on the meta device, where they take no memory."""
    with torch.device("meta"), _Shapes():
        yield


# Functions of a size, whose numbers are not needed here.
_FILLED = (torch.randn, torch.hamming_window, torch.hann_window)


class _Shapes(TorchFunctionMode):
    """A mode in which meta tensors are neither initialised nor normalised."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if args and isinstance(args[0], Tensor) and args[0].is_meta:
            if function is Tensor.normal_:
                return args[0]
            if function is torch.norm_except_dim and not kwargs:
                weight, _, dim = args
                # All dimensions but one are summed; -1 keeps none.
                sizes = [size if each == dim else 1 for each, size in enumerate(weight.shape)]
                return weight.new_empty(sizes if dim >= 0 else [])
        # On the meta device a window is computed by loading torch's compiler, which takes a second.
        if function in _FILLED and not kwargs:
            return torch.empty(*args)
        return function(*args, **(kwargs or {}))


# Row length of the term added to the scores: attention copies rows of other multiples.
_ALIGNED = 16
# Autocast casts weight and bias of exactly these classes; a derived class may differ.
_KINDS = (nn.Linear, nn.Conv1d, nn.Conv2d)
# Autocast computes these in float32.
_NORMS = (nn.LayerNorm, nn.GroupNorm, LayerNorm)
_PROJECTIONS = ("q_proj", "k_proj", "v_proj")

# A module, the name of an attribute, and its value while the layer runs.
_Change = tuple[nn.Module, str, Any]


def can_gate(attention: WavLMSelfAttention) -> bool:
    """Return whether all parts are torch's and have no hooks; low-rank updates are not."""
    if not (attention.gru_rel_pos and is_plain(attention) and is_plain(attention.attention)):
        return False
    inner, gates = attention.attention, attention.gru_rel_pos_linear
    kinds = {inner: nn.MultiheadAttention, inner.out_proj: NonDynamicallyQuantizableLinear}
    kinds[gates] = nn.Linear
    return is_plain(gates) and all(type(part) is kind for part, kind in kinds.items())


def attend_gated(
    attention: WavLMSelfAttention,
    x_BLC: Tensor,
    key_padding_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    position_bias: Tensor | None = None,
) -> tuple[Tensor, None]:
    """Compute `WavLMSelfAttention.forward`, without masks.

    Args:
        position_bias: Bias (1, heads, frames, frames), in float32.
    """
    inner, gates = attention.attention, attention.gru_rel_pos_linear
    x_BLC = x_BLC.to(inner.in_proj_weight.dtype)
    logits_BLH8 = F.linear(x_BLC.unflatten(2, (inner.num_heads, -1)), gates.weight, gates.bias)
    added_BHLL = _GatedBias.apply(logits_BLH8, attention.gru_rel_pos_const, position_bias)
    rows_BLZ = F.linear(x_BLC, inner.in_proj_weight, inner.in_proj_bias)
    dropout = attention.dropout if attention.training else 0.0
    return attend_rows(rows_BLZ, inner.num_heads, added_BHLL, dropout, inner.out_proj), None


def attend_rows(
    rows_BLZ: Tensor, heads: int, added_BHLL: Tensor | None, dropout: float, output: nn.Module
) -> Tensor:
    """Return the output of an attention for its concatenated queries, keys and values.

    Args:
        rows_BLZ: Queries, keys and values, (batch, frames, 3 * values).
        added_BHLL: Term added to the attention scores, (batch, heads, frames, frames).
        output: Output projection, applied to the values of all heads.
    """
    heads_BL3HC = rows_BLZ.unflatten(2, (3, heads, -1))
    # In this order, one copy joins the gradients of all three.
    queries, keys, values = (rows.transpose(1, 2) for rows in heads_BL3HC.unbind(2))
    attended_BHLC = F.scaled_dot_product_attention(
        queries, keys, values, attn_mask=added_BHLL, dropout_p=dropout
    )
    return output(attended_BHLC.transpose(1, 2).flatten(2))


class _GatedBias(torch.autograd.Function):
    """The bias times its gates: a (b c - 1) + 2, where a and b are sigmoids and c is learned.

    For the gradients of the logits behind a and b, and of c, three factors are saved: a (b c - 1),
    a b c, and a b. The first two still have to be multiplied by 1 - a and 1 - b.
    """

    @staticmethod
    def forward(ctx: Any, logits_BLH8: Tensor, scale_1H11: Tensor, bias_1HLL: Tensor) -> Tensor:
        utterances, frames, heads, _ = logits_BLH8.shape
        with without_autocast(logits_BLH8):
            sums_BLH2 = logits_BLH8.unflatten(3, (2, 4)).sum(dim=4, dtype=torch.float32)
            gates_BLH2 = sums_BLH2.sigmoid_()
            first, second = gates_BLH2.unbind(3)
            factors_BLH3 = first.new_empty(*first.shape, 3)
            of_first, of_second, of_scale = factors_BLH3.unbind(3)
            torch.mul(first, second, out=of_scale)
            torch.mul(of_scale, scale_1H11.view(-1), out=of_second)
            torch.sub(of_second, first, out=of_first)
            # In the layout of the product that computes the gradient of the bias.
            gate_HLB = logits_BLH8.new_empty(heads, frames, utterances)
            torch.add(of_first.permute(2, 1, 0), 2, out=gate_HLB)
            aligned = -(-frames // _ALIGNED) * _ALIGNED
            rows = logits_BLH8.new_empty(utterances, heads, frames, aligned)
            added_BHLL = rows[..., :frames]
            torch.mul(gate_HLB.permute(2, 0, 1).unsqueeze(3), bias_1HLL, out=added_BHLL)
        ctx.save_for_backward(gates_BLH2, factors_BLH3, gate_HLB, bias_1HLL)
        return added_BHLL

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient_BHLL: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        gates_BLH2, factors_BLH3, gate_HLB, bias_1HLL = ctx.saved_tensors
        rows_XBL = gradient_BHLL.permute(1, 2, 0, 3).flatten(0, 1)
        short_XL1 = bias_1HLL.to(rows_XBL.dtype).flatten(0, 2).unsqueeze(2)
        of_gates_BLH = multiply(rows_XBL, short_XL1).view_as(gate_HLB).permute(2, 1, 0)
        parts_BLH3 = of_gates_BLH.unsqueeze(3) * factors_BLH3
        of_scale_H = parts_BLH3[..., 2].sum((0, 1))
        of_logits_BLH24 = rows_XBL.new_empty(*gates_BLH2.shape, 4)
        sums_BLH24 = parts_BLH3[..., :2].unsqueeze(4).expand_as(of_logits_BLH24)
        torch.addcmul(
            sums_BLH24, sums_BLH24, gates_BLH2.unsqueeze(4), value=-1, out=of_logits_BLH24
        )
        of_bias_1HLL = None
        if ctx.needs_input_grad[2]:
            of_bias_X1L = multiply(gate_HLB.flatten(0, 1).unsqueeze(1), rows_XBL)
            of_bias_1HLL = of_bias_X1L.view_as(bias_1HLL).float()
        return of_logits_BLH24.flatten(3), of_scale_H.view(1, -1, 1, 1), of_bias_1HLL


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
        groups = []
        start = 0
        for size in sizes:
            groups.append(weights[start : start + size])
            start += size
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

"""Weights of linear maps and convolutions in oneDNN's layout, with norms folded into them.

Invariant: a row's result does not depend on the number of rows, and all processes of a machine use
the same layout, so that a score is the same in each of them.

Shapes: N rows, I input values of a row, O output values; B utterances, C channels, F frequencies, T
times, K values of a kernel.

AASIST's attention, over graphs and over the positions of a map, in fewer, cheaper steps.

Invariant: results are those of `GraphAttention`, `HeterogeneousGraphAttention` and `NodeAttention`
in `eval()` mode. The product of two nodes is the same in both directions, so each pair is projected
once; tanh is computed as a logistic function, with its constants, and the norm, folded into
neighbouring weights. A convolution over single positions is a linear map of channels.

Shapes: B utterances; N nodes of the first graph, M of the second, J of both or of one alone, P
pairs of nodes; C input values of a node, D output values; K kinds of pairs; 1 a single value. In
`PackedNodeAttention`: C channels, S spectral and N temporal nodes, H hidden values.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from asdf.distributed.arithmetic import multiplies_bfloat16
from asdf.networks.back_ends.graph_attention import (
    GraphAttention,
    HeterogeneousGraphAttention,
    Pairs,
)
from asdf.networks.back_ends.ssl_aasist import NodeAttention
from asdf.networks.casting import without_autocast
from asdf.networks.functions import ALPHA, LOG2_E, SCALE, LearningSELU, selu, unscaled_selu_

_OPERATIONS = (
    "_linear_pointwise",
    "_reorder_linear_weight",
    "_convolution_pointwise",
    "_convolution_pointwise_",
    "_reorder_convolution_weight",
)
# The measured processors; on others, torch uses other libraries.
_PROCESSORS = ("x86_64", "AMD64")
# A layout that suits this number of rows suits other numbers, too.
_ROWS = 512
_CHECK_TOLERANCE = 1e-5
# Stride, dilation and groups of every convolution here.
_GEOMETRY = ([1, 1], [1, 1], 1)

MIN_NUMBERS = 2**16
"""Minimum size of a packed weight: torch is faster for 128 times 128."""

Pair = tuple[int, int]


@cache
def is_available() -> bool:
    """Return whether torch has these products here, and whether their results are correct."""
    if platform.machine() not in _PROCESSORS or not torch.backends.mkldnn.is_available():
        return False
    if not all(hasattr(torch.ops.mkldnn, name) for name in _OPERATIONS):
        return False
    try:
        # Private operations of torch, whose arguments may change between versions.
        return _gives_right_numbers()
    except Exception:
        return False


@cache
def packs_bfloat16() -> bool:
    """Return whether products of packed weights are computed in bfloat16 by the processor itself.

    They are tried, since oneDNN may be limited to fewer instructions than the processor has.
    """
    if not (is_available() and multiplies_bfloat16()):
        return False
    try:
        with torch.inference_mode():
            weight = LinearWeight(torch.zeros(32, 16), None, torch.bfloat16)
            weight.apply(torch.zeros(2, 1, 16))
    except RuntimeError:
        return False
    return True


class LinearWeight:
    """The weight of a linear map in oneDNN's layout."""

    def __init__(
        self, weight_OI: Tensor, bias_O: Tensor | None, dtype: torch.dtype = torch.float32
    ) -> None:
        """Pack a float32 weight; its products are computed in `dtype`."""
        self._dtype = dtype
        weight_OI = weight_OI.detach().to(dtype).contiguous()
        self._packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI, _ROWS)
        # A copy, since the network's may change.
        self._bias_O = None if bias_O is None else bias_O.detach().to(dtype, copy=True)

    @property
    def bias_O(self) -> Tensor | None:
        """The bias (O,), float32."""
        return None if self._bias_O is None else self._bias_O.float()

    def apply(self, x: Tensor, activation: str = "none", as_float32: bool = True) -> Tensor:
        """Map (..., I) to (..., O).

        Args:
            activation: Activation: 'none', or 'gelu', which is cheaper here than afterwards.
            as_float32: Whether to return float32, whatever format the products use.
        """
        algorithm = "none" if activation == "gelu" else ""
        # Also if a user's network computes a part in another format.
        result: Tensor = torch.ops.mkldnn._linear_pointwise(
            x.to(self._dtype), self._packed, self._bias_O, activation, [], algorithm
        )
        return result.float() if as_float32 else result

    def unpacked(self) -> Tensor:
        """Return the weight (O, I) in float32."""
        weight_OI: Tensor = self._packed.to_dense()
        return weight_OI.float()


class ConvolutionWeight:
    """The weight of a convolution of (B, C, F, T) in oneDNN's layout, in float32."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        padding: Pair,
        input_size: tuple[int, int, int, int],
    ) -> None:
        """Pack `weight` (out, C, F, T) for inputs about as large as `input_size`."""
        weight = weight.detach().contiguous(memory_format=torch.channels_last)
        self._padding = list(padding)
        self._packed: Tensor = torch.ops.mkldnn._reorder_convolution_weight(
            weight, self._padding, *_GEOMETRY, list(input_size)
        )
        self._bias = None if bias is None else bias.detach().clone()

    def apply(self, x_BCFT: Tensor) -> Tensor:
        """Return (B, out, F', T') with its channels last in memory."""
        result: Tensor = torch.ops.mkldnn._convolution_pointwise(
            x_BCFT.float(), self._packed, self._bias, self._padding, *_GEOMETRY, "none", [], ""
        )
        return result

    def add_to(self, sum_BCFT: Tensor, x_BCFT: Tensor) -> Tensor:
        """Add the result to `sum_BCFT` in place, and return it."""
        result: Tensor = torch.ops.mkldnn._convolution_pointwise_(
            sum_BCFT,
            x_BCFT,
            self._packed,
            self._bias,
            self._padding,
            *_GEOMETRY,
            "add",
            1.0,
            None,
            [],
            None,
        )
        return result


class PackedLinear(nn.Module):
    """`nn.Linear` with a packed weight.

    It holds no parameters. Code that reads its weight gets a copy, or the network's own parameter
    if that still exists.
    """

    def __init__(self, linear: nn.Linear, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.in_features = linear.in_features
        self.out_features = linear.out_features
        self._weight = LinearWeight(linear.weight, linear.bias, dtype)

    @property
    def weight(self) -> Tensor:
        """The weight (out, in), as a copy."""
        return self._weight.unpacked()

    @property
    def bias(self) -> Tensor | None:
        """The bias (out,)."""
        return self._weight.bias_O

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., in) to (..., out)."""
        return self._weight.apply(x)


def pack_linear(linear: nn.Linear, dtype: torch.dtype) -> PackedLinear | None:
    """Return the layer packed; None if that is not faster."""
    return PackedLinear(linear, dtype) if is_large(linear) else None


def is_large(linear: nn.Linear) -> bool:
    """Return whether its weight is large enough for packing to be faster."""
    return linear.weight.numel() >= MIN_NUMBERS


def is_foldable(norm: nn.Module) -> TypeGuard[_BatchNorm]:
    """Return whether `norm` is a batch norm with its own statistics and weights.

    In a run of several processes, it may be synchronised over all minibatches.
    """
    if not isinstance(norm, _BatchNorm):
        return False
    return norm.running_mean is not None and norm.weight is not None


def fold_norm(norm: nn.Module, bias_C: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return the norm of x + `bias_C` as a factor (C,) of x and a constant (C,)."""
    assert is_foldable(norm) and norm.running_mean is not None and norm.running_var is not None
    factor_C = norm.weight.detach() / torch.sqrt(norm.running_var + norm.eps)
    constant_C = (bias_C - norm.running_mean) * factor_C + norm.bias.detach()
    return factor_C, constant_C


def _gives_right_numbers() -> bool:
    # The result is cached, so it must not depend on a caller that computes in bfloat16.
    with torch.inference_mode(), torch.autocast("cpu", enabled=False):
        draw = torch.Generator().manual_seed(0)
        weight_OI = torch.randn(32, 16, generator=draw)
        bias_O = torch.randn(32, generator=draw)
        x_NI = torch.randn(5, 16, generator=draw)
        linear_NO = torch.nn.functional.linear(x_NI, weight_OI, bias_O)
        is_right = _agree(LinearWeight(weight_OI, bias_O).apply(x_NI), linear_NO)
        kernel = weight_OI.view(32, 8, 1, 2)
        x_BCFT = torch.randn(1, 8, 3, 7, generator=draw)
        expected = torch.nn.functional.conv2d(x_BCFT, kernel, bias_O, padding=(0, 1))
        packed = ConvolutionWeight(kernel, bias_O, (0, 1), (1, 8, 3, 7))
        last = x_BCFT.contiguous(memory_format=torch.channels_last)
        is_right = is_right and _agree(packed.apply(last), expected)
        zeros = torch.zeros_like(expected, memory_format=torch.channels_last)
        return is_right and _agree(packed.add_to(zeros, last), expected)


def _agree(result: Tensor, expected: Tensor) -> bool:
    return bool(torch.allclose(result, expected, atol=_CHECK_TOLERANCE, rtol=_CHECK_TOLERANCE))


class PackedGraphAttention(nn.Module):
    """Attention over one graph."""

    def __init__(self, graph: GraphAttention) -> None:
        super().__init__()
        self._edges = _Edges(graph.att_proj, [graph.att_weight], graph.temperature)
        self._nodes = _JoinedMap(graph.proj_with_att, graph.proj_without_att, graph.bn)

    def forward(self, x_BJC: Tensor) -> Tensor:
        """Map (batch, nodes, dim_in) to (batch, nodes, dim_out)."""
        with without_autocast(x_BJC):
            x_BJC = x_BJC.float()
            pairs = Pairs.of(x_BJC.shape[1])
            scores_BP1 = self._edges.score(pairs.multiply(x_BJC))
            attention_BJJ = pairs.spread(scores_BP1.squeeze(2)).softmax(dim=2)
            return selu(self._nodes.apply(attention_BJJ @ x_BJC, x_BJC))


class PackedHeterogeneousAttention(nn.Module):
    """Attention over the nodes of two graphs together, and into their master node."""

    def __init__(self, graph: HeterogeneousGraphAttention) -> None:
        super().__init__()
        # Indexed by the number of a pair's nodes in the second graph.
        columns = [graph.att_weight11, graph.att_weight12, graph.att_weight22]
        self._edges = _Edges(graph.att_proj, columns, graph.temperature)
        self._master_edges = _Edges(graph.att_projM, [graph.att_weightM], graph.temperature)
        self._nodes = _JoinedMap(graph.proj_with_att, graph.proj_without_att, graph.bn)
        self._master = _JoinedMap(graph.proj_with_attM, graph.proj_without_attM)
        self._first = _copies_of(graph.proj_type1)
        self._second = _copies_of(graph.proj_type2)

    def forward(
        self, first_BNC: Tensor, second_BMC: Tensor, master_B1C: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Map two graphs and their master node from dim_in to dim_out values per node."""
        nodes = first_BNC.shape[1]
        with without_autocast(first_BNC):
            first_BNC = F.linear(first_BNC.float(), *self._first)
            second_BMC = F.linear(second_BMC.float(), *self._second)
            x_BJC = torch.cat([first_BNC, second_BMC], dim=1)
            master_B1C = master_B1C.float().expand(len(x_BJC), -1, -1)
            attention_BJJ = self._score_edges(x_BJC, nodes).softmax(dim=2)
            x_BJD = selu(self._nodes.apply(attention_BJJ @ x_BJC, x_BJC))
            scores_BJ1 = self._master_edges.score(x_BJC * master_B1C)
            gathered_B1C = scores_BJ1.softmax(dim=1).transpose(1, 2) @ x_BJC
            master_B1D = self._master.apply(gathered_B1C, master_B1C)
        return x_BJD[:, :nodes], x_BJD[:, nodes:], master_B1D

    def _score_edges(self, x_BJC: Tensor, nodes: int) -> Tensor:
        """Return the score of each edge, using the weight of its kind."""
        pairs = Pairs.of(x_BJC.shape[1])
        return pairs.spread_kinds(self._edges.score(pairs.multiply(x_BJC)), nodes)


class PackedNodeAttention(nn.Module):
    """Two linear maps around SELU and a batch norm, from AASIST behind a front end."""

    def __init__(self, attention: NodeAttention) -> None:
        super().__init__()
        first, _, norm, second = attention
        assert isinstance(first, nn.Conv2d) and first.bias is not None
        assert isinstance(second, nn.Conv2d) and second.bias is not None
        self._first = LinearWeight(first.weight[:, :, 0, 0] * LOG2_E, first.bias * LOG2_E)
        weight_CH = second.weight[:, :, 0, 0]
        scale = SCALE * ALPHA
        # The input is 1 + SELU / scale.
        factor_H, shift_H = fold_norm(norm, -scale)
        bias_C = second.bias + weight_CH @ shift_H
        self._second = LinearWeight(weight_CH * factor_H * scale, bias_C)

    def forward(self, x_BCSN: Tensor) -> Tensor:
        """Return scores of the same shape."""
        x_BSNC = x_BCSN.permute(0, 2, 3, 1).contiguous()
        hidden_BSNH = unscaled_selu_(self._first.apply(x_BSNC))
        return self._second.apply(hidden_BSNH).permute(0, 3, 1, 2)


class _Edges:
    """Scores of pairs of nodes: a projection, tanh, and a weight per kind, over temperature."""

    def __init__(
        self, projection: nn.Module, columns: Sequence[Tensor], temperature: float
    ) -> None:
        assert isinstance(projection, nn.Linear)  # `pack_graph` packs no others
        # tanh(x) = 2 * sigmoid(2 * x) - 1.
        self._weight_DC = 2 * projection.weight.detach()
        self._bias_D = 2 * projection.bias.detach()
        weight_KD = torch.cat([column.detach().T for column in columns]) / temperature
        self._weight_KD = 2 * weight_KD
        self._bias_K = -weight_KD.sum(dim=1)

    def score(self, products_BPC: Tensor) -> Tensor:
        """Map products of nodes to scores of every kind, (batch, pairs, kinds)."""
        hidden_BPD = F.linear(products_BPC, self._weight_DC, self._bias_D).sigmoid_()
        return F.linear(hidden_BPD, self._weight_KD, self._bias_K)


class _JoinedMap:
    """The sum of two linear maps, followed by a norm."""

    def __init__(self, first: nn.Module, second: nn.Module, norm: nn.Module | None = None) -> None:
        assert isinstance(first, nn.Linear) and isinstance(second, nn.Linear)
        weight_DC = torch.cat([first.weight, second.weight], dim=1).detach()
        bias_D = (first.bias + second.bias).detach()
        if norm is not None:
            factor_D, bias_D = fold_norm(norm, bias_D)
            weight_DC = weight_DC * factor_D.unsqueeze(1)
        self._weight_DC = weight_DC
        self._bias_D = bias_D

    def apply(self, first_BJC: Tensor, second_BJC: Tensor) -> Tensor:
        """Map nodes of both kinds, (batch, nodes, dim_in) each, to (batch, nodes, dim_out)."""
        joined_BJC = torch.cat([first_BJC, second_BJC], dim=2)
        return F.linear(joined_BJC, self._weight_DC, self._bias_D)


def _copies_of(layer: nn.Module) -> tuple[Tensor, Tensor]:
    assert isinstance(layer, nn.Linear)
    # A copy, since the network's may change.
    return layer.weight.detach().clone(), layer.bias.detach().clone()


def pack_attention(attention: NodeAttention, dtype: torch.dtype) -> PackedNodeAttention | None:
    """Return the attention packed; None if it has other parts."""
    first, _, norm, second = attention
    is_known = is_foldable(norm) and type(first) is nn.Conv2d and type(second) is nn.Conv2d
    return PackedNodeAttention(attention) if is_known else None


def pack_graph(
    graph: GraphAttention | HeterogeneousGraphAttention, dtype: torch.dtype
) -> PackedGraphAttention | PackedHeterogeneousAttention | None:
    """Return attention over one graph or two, packed; None if it has other parts."""
    for name, part in graph.named_children():
        if name == "bn":
            if not is_foldable(part):
                return None
        elif "proj" in name and (type(part) is not nn.Linear or part.bias is None):
            # Low-rank updates are linear layers of another class.
            return None
        elif name == "selu" and type(part) is not LearningSELU:
            return None
    if isinstance(graph, GraphAttention):
        return PackedGraphAttention(graph)
    return PackedHeterogeneousAttention(graph)

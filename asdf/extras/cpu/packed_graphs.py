"""AASIST's attention, over graphs and over the positions of a map, in fewer, cheaper steps.

Invariant: results are those of `GraphAttention`, `HeterogeneousGraphAttention` and `NodeAttention`
in `eval()` mode. The product of two nodes is the same in both directions, so each pair is projected
once; tanh is computed as a logistic function, with its constants, and the norm, folded into
neighbouring weights. A convolution over single positions is a linear map of channels.

Shapes: B utterances; N nodes of the first graph, M of the second, J of both or of one alone, P
pairs of nodes; C input values of a node, D output values; K kinds of pairs; 1 a single value. In
`PackedNodeAttention`: C channels, S spectral and N temporal nodes, H hidden values.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.extras.cpu.packed_weights import LinearWeight, fold_norm, is_foldable
from asdf.networks.autocast import without_autocast
from asdf.networks.back_ends.graph_attention import (
    GraphAttention,
    HeterogeneousGraphAttention,
    Pairs,
)
from asdf.networks.back_ends.ssl_aasist import NodeAttention
from asdf.networks.functions import ALPHA, LOG2_E, SCALE, selu, unscaled_selu_


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
        self, projection: nn.Linear, columns: Sequence[Tensor], temperature: float
    ) -> None:
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

    def __init__(self, first: nn.Linear, second: nn.Linear, norm: nn.Module | None = None) -> None:
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


def _copies_of(layer: nn.Linear) -> tuple[Tensor, Tensor]:
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
    if isinstance(graph, GraphAttention):
        return PackedGraphAttention(graph)
    return PackedHeterogeneousAttention(graph)

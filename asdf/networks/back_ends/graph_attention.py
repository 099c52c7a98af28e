"""AASIST's graph layers: attention over one graph, over two joined graphs, and pooling of nodes.

Invariant: names and numbers of parameters are those of the published networks. Edges are the
pairwise products of the nodes.

Source: Jung et al., "AASIST", ICASSP 2022, sections 3 and 4.

Shapes: B utterances; N nodes (of the first graph if there are two), M nodes of the second, J of
both, X of all utterances; P pairs of nodes; K nodes kept by pooling; C input values of a node, D
output values; 1 a single value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.casting import without_autocast
from asdf.networks.functions import LearningSELU, LearningTanh, at_least, learns_on_cpu, share

MakeMap = Callable[[int, int], nn.Module]
INPUT_DROPOUT = 0.2
POOL_DROPOUT = 0.3
# Creating the pairs of a short recording takes as long as their scores; each has up to 0.7 MB.
_REMEMBERED_NODES = 200
_REMEMBERED_SIZES = 32


class Pairs(NamedTuple):
    """All unordered pairs of nodes, including each node with itself.

    Attributes:
        first_P, second_P: Indices of the pair's nodes, the first not above the second.
        position_NN: Index of the pair for two nodes, the same in either order.
    """

    first_P: Tensor
    second_P: Tensor
    position_NN: Tensor

    @staticmethod
    def of(nodes: int) -> Pairs:
        """Return the pairs of `nodes` nodes."""
        return _recall_pairs(nodes) if nodes <= _REMEMBERED_NODES else _make_pairs(nodes)

    def multiply(self, x_BNC: Tensor) -> Tensor:
        """Return the product of each pair, (batch, pairs, values), half as many as edges."""
        return x_BNC.index_select(1, self.first_P) * x_BNC.index_select(1, self.second_P)

    def spread(self, scores_BP: Tensor) -> Tensor:
        """Return the score of each edge from that of its pair, (batch, nodes, nodes)."""
        edges_BX = scores_BP.index_select(1, self.position_NN.flatten())
        return edges_BX.view(len(scores_BP), *self.position_NN.shape)

    def spread_kinds(self, scores_BP3: Tensor, nodes: int) -> Tensor:
        """Return the score of each edge from that of its pair and kind, (batch, nodes, nodes).

        Args:
            scores_BP3: Scores of each pair, by the number of its nodes in the second graph.
            nodes: Number of nodes of the first graph.
        """
        kind_P = (self.first_P >= nodes).long() + (self.second_P >= nodes).long()
        kind_BP1 = kind_P.expand(len(scores_BP3), -1).unsqueeze(2)
        return self.spread(scores_BP3.gather(2, kind_BP1).squeeze(2))


def _make_pairs(nodes: int) -> Pairs:
    # Tensors created for inference could not be used in training later.
    with torch.inference_mode(False):
        first_P, second_P = torch.triu_indices(nodes, nodes).unbind()
        position_NN = torch.empty(nodes, nodes, dtype=torch.long)
        positions_P = torch.arange(len(first_P))
        position_NN[first_P, second_P] = positions_P
        position_NN[second_P, first_P] = positions_P
    return Pairs(first_P, second_P, position_NN)


_recall_pairs = lru_cache(_REMEMBERED_SIZES)(_make_pairs)


class GraphAttention(nn.Module):
    """Attention over one graph: a node becomes a weighted mean of all nodes, plus itself.

    Both terms are projected; batch norm and SELU follow.

    Args:
        make_map: Class of its maps.
    """

    def __init__(
        self, dim_in: int, dim_out: int, temperature: float, make_map: MakeMap = nn.Linear
    ) -> None:
        super().__init__()
        self.att_proj = make_map(dim_in, dim_out)
        self.att_weight = _make_column(dim_out)
        self.proj_with_att = make_map(dim_in, dim_out)
        self.proj_without_att = make_map(dim_in, dim_out)
        self.bn = nn.BatchNorm1d(dim_out)
        self.input_drop = nn.Dropout(INPUT_DROPOUT)
        self.tanh = LearningTanh()
        self.selu = LearningSELU()
        self.temperature = temperature

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Map (batch, nodes, dim_in) to (batch, nodes, dim_out)."""
        x_BNC = self.input_drop(x_BNC)
        scores_BNN = self._score_edges(x_BNC)
        attention_BNN = F.softmax(scores_BNN / self.temperature, dim=-1)
        gathered_BNC = attention_BNN @ x_BNC
        x_BND = self.proj_with_att(gathered_BNC) + self.proj_without_att(x_BNC)
        return self.selu(_normalize(self.bn, x_BND))

    def _score_edges(self, x_BNC: Tensor) -> Tensor:
        """Return the score of each edge, which is the same in both directions."""
        if learns_on_cpu(x_BNC):
            pairs = Pairs.of(x_BNC.shape[1])
            edges_BPD = self.tanh(self.att_proj(pairs.multiply(x_BNC)))
            return pairs.spread((edges_BPD @ self.att_weight).squeeze(-1))
        # The edges are not stored in a variable: they take the most memory and are freed at once.
        scores_BNN1: Tensor = self.tanh(_project_edges(x_BNC, self.att_proj)) @ self.att_weight
        return scores_BNN1.squeeze(-1)


class HeterogeneousGraphAttention(nn.Module):
    """Attention over the nodes of two graphs together, with one weight for each kind of edge.

    A master node attends to all nodes; no node attends to it.

    Args:
        make_map: Class of its maps.
    """

    def __init__(
        self, dim_in: int, dim_out: int, temperature: float, make_map: MakeMap = nn.Linear
    ) -> None:
        super().__init__()
        self.proj_type1 = make_map(dim_in, dim_in)
        self.proj_type2 = make_map(dim_in, dim_in)
        self.att_proj = make_map(dim_in, dim_out)
        self.att_projM = make_map(dim_in, dim_out)
        self.att_weight11 = _make_column(dim_out)
        self.att_weight22 = _make_column(dim_out)
        self.att_weight12 = _make_column(dim_out)
        self.att_weightM = _make_column(dim_out)
        self.proj_with_att = make_map(dim_in, dim_out)
        self.proj_without_att = make_map(dim_in, dim_out)
        self.proj_with_attM = make_map(dim_in, dim_out)
        self.proj_without_attM = make_map(dim_in, dim_out)
        self.bn = nn.BatchNorm1d(dim_out)
        self.input_drop = nn.Dropout(INPUT_DROPOUT)
        self.tanh = LearningTanh()
        self.selu = LearningSELU()
        self.temperature = temperature

    def forward(
        self, first_BNC: Tensor, second_BMC: Tensor, master_B1C: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Map two graphs and their master node from dim_in to dim_out values per node."""
        nodes = first_BNC.shape[1]
        first_BNC = self.proj_type1(first_BNC)
        second_BMC = self.proj_type2(second_BMC)
        x_BJC = self.input_drop(torch.cat([first_BNC, second_BMC], dim=1))
        scores_BJJ = self._score_edges(x_BJC, nodes)
        attention_BJJ = F.softmax(scores_BJJ / self.temperature, dim=-1)
        master_B1D = self._gather_into_master(x_BJC, master_B1C)
        gathered_BJC = attention_BJJ @ x_BJC
        x_BJD = self.proj_with_att(gathered_BJC) + self.proj_without_att(x_BJC)
        x_BJD = self.selu(_normalize(self.bn, x_BJD))
        first_BND = x_BJD[:, :nodes]
        second_BMD = x_BJD[:, nodes:]
        return first_BND, second_BMD, master_B1D

    def _score_edges(self, x_BJC: Tensor, nodes: int) -> Tensor:
        """Return the score of each edge, using the weight of its kind."""
        if learns_on_cpu(x_BJC):
            # The same result from the edges in one direction.
            pairs = Pairs.of(x_BJC.shape[1])
            edges_BPD = self.tanh(self.att_proj(pairs.multiply(x_BJC)))
            weights_D3 = torch.cat([self.att_weight11, self.att_weight12, self.att_weight22], dim=1)
            return pairs.spread_kinds(edges_BPD @ weights_D3, nodes)
        edges_BJJD = self.tanh(_project_edges(x_BJC, self.att_proj))
        sizes = [nodes, x_BJC.shape[1] - nodes]
        edges_BNJD = edges_BJJD[:, :nodes]
        edges_BMJD = edges_BJJD[:, nodes:]
        edges_BNND, edges_BNMD = edges_BNJD.split(sizes, dim=2)
        edges_BMND, edges_BMMD = edges_BMJD.split(sizes, dim=2)
        scores_BNJ1 = torch.cat(
            [edges_BNND @ self.att_weight11, edges_BNMD @ self.att_weight12], dim=2
        )
        scores_BMJ1 = torch.cat(
            [edges_BMND @ self.att_weight12, edges_BMMD @ self.att_weight22], dim=2
        )
        scores_BJJ1 = torch.cat([scores_BNJ1, scores_BMJ1], dim=1)
        return scores_BJJ1.squeeze(-1)

    def _gather_into_master(self, x_BJC: Tensor, master_B1C: Tensor) -> Tensor:
        products_BJC = x_BJC * master_B1C
        edges_BJD = self.tanh(self.att_projM(products_BJC))
        scores_BJ1 = edges_BJD @ self.att_weightM
        attention_BJ1 = F.softmax(scores_BJ1 / self.temperature, dim=1)
        # Written out, since the backward pass of a matrix product is an outer product here, which
        # torch 2.14 compiles with Triton on a GPU and which fails without a C compiler.
        gathered_B1C = (attention_BJ1 * x_BJC).sum(dim=1, keepdim=True)
        attended_B1D: Tensor = self.proj_with_attM(gathered_B1C)
        master_B1D: Tensor = self.proj_without_attM(master_B1C)
        return attended_B1D + master_B1D


class GraphPool(nn.Module):
    """The best-scored proportion of nodes, each times its score; at least one node."""

    def __init__(self, ratio: float, dim: int, make_map: MakeMap = nn.Linear) -> None:
        super().__init__()
        self.ratio = ratio
        self.proj = make_map(dim, 1)
        self.drop = nn.Dropout(POOL_DROPOUT)

    def forward(self, x_BNC: Tensor) -> Tensor:
        """Map (batch, nodes, dim) to (batch, max(1, int(ratio * nodes)), dim), best first."""
        # In float32 even under autocast: in bfloat16 many scores would be equal, and the order of a
        # sort would decide between nodes.
        with without_autocast(x_BNC):
            dropped_BNC = self.drop(x_BNC.float())
            scores_BN1 = torch.sigmoid(self.proj(dropped_BNC))
        nodes, values = x_BNC.shape[1:]
        count = at_least(share(nodes, self.ratio), 1)
        best_BK1 = scores_BN1.topk(count, dim=1).indices
        scored_BNC = x_BNC * scores_BN1.to(x_BNC.dtype)
        best_BKC = best_BK1.expand(-1, -1, values)
        return scored_BNC.gather(1, best_BKC)


def _project_edges(x_BNC: Tensor, projection: nn.Module) -> Tensor:
    """Return the projected product of every pair of nodes: (batch, nodes, nodes, values)."""
    # The products are not stored in a variable, so that they are freed early without gradients.
    return projection(x_BNC.unsqueeze(2) * x_BNC.unsqueeze(1))


def _normalize(norm: nn.Module, x_BND: Tensor) -> Tensor:
    """Apply a batch norm over all nodes of all utterances."""
    normed_XD: Tensor = norm(x_BND.flatten(0, 1))
    return normed_XD.view_as(x_BND)


def _make_column(size: int) -> nn.Parameter:
    column = torch.empty(size, 1)
    return nn.Parameter(nn.init.xavier_normal_(column))

"""AASIST's graph layers: attention over the nodes of one graph, of two joined graphs, and pooling of nodes.

Invariant: names and numbers are those of the published networks. Edges are the pairwise products of the nodes.

Source: Jung et al., "AASIST", ICASSP 2022, sections 3 and 4.

Shapes: B utterances, N and M nodes, C values of a node coming in, D going out.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.full_precision import without_autocast

INPUT_DROPOUT = 0.2
POOL_DROPOUT = 0.3


class GraphAttention(nn.Module):
    """Every node becomes a weighted mean of all nodes plus itself, each projected; then batch norm and SELU."""

    def __init__(self, dim_in: int, dim_out: int, temperature: float) -> None:
        super().__init__()
        self.att_proj = nn.Linear(dim_in, dim_out)
        self.att_weight = _column(dim_out)
        self.proj_with_att = nn.Linear(dim_in, dim_out)
        self.proj_without_att = nn.Linear(dim_in, dim_out)
        self.bn = nn.BatchNorm1d(dim_out)
        self.input_drop = nn.Dropout(INPUT_DROPOUT)
        self.temperature = temperature

    def forward(self, x_BNC: Tensor) -> Tensor:
        """(batch, nodes, dim_in) to (batch, nodes, dim_out)."""
        x_BNC = self.input_drop(x_BNC)
        scores_BNN = (_edges(x_BNC, self.att_proj) @ self.att_weight).squeeze(-1)
        attention_BNN = F.softmax(scores_BNN / self.temperature, dim=-1)
        x_BND = self.proj_with_att(attention_BNN @ x_BNC) + self.proj_without_att(x_BNC)
        return F.selu(_batch_norm(self.bn, x_BND))


class HeterogeneousGraphAttention(nn.Module):
    """Attention over temporal and spectral nodes together, with one weight for each kind of edge.

    A master node gathers from all nodes; no node gathers from it.
    """

    def __init__(self, dim_in: int, dim_out: int, temperature: float) -> None:
        super().__init__()
        self.proj_type1 = nn.Linear(dim_in, dim_in)
        self.proj_type2 = nn.Linear(dim_in, dim_in)
        self.att_proj = nn.Linear(dim_in, dim_out)
        self.att_projM = nn.Linear(dim_in, dim_out)
        self.att_weight11 = _column(dim_out)
        self.att_weight22 = _column(dim_out)
        self.att_weight12 = _column(dim_out)
        self.att_weightM = _column(dim_out)
        self.proj_with_att = nn.Linear(dim_in, dim_out)
        self.proj_without_att = nn.Linear(dim_in, dim_out)
        self.proj_with_attM = nn.Linear(dim_in, dim_out)
        self.proj_without_attM = nn.Linear(dim_in, dim_out)
        self.bn = nn.BatchNorm1d(dim_out)
        self.input_drop = nn.Dropout(INPUT_DROPOUT)
        self.temperature = temperature

    def forward(
        self, first_BNC: Tensor, second_BMC: Tensor, master_B1C: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Two graphs and their master node, with dim_in values a node, to the same with dim_out values."""
        nodes = first_BNC.shape[1]
        x_BNC = torch.cat([self.proj_type1(first_BNC), self.proj_type2(second_BMC)], dim=1)
        x_BNC = self.input_drop(x_BNC)
        attention_BNN = F.softmax(self._scores(x_BNC, nodes) / self.temperature, dim=-1)
        master_B1D = self._gather(x_BNC, master_B1C)
        x_BND = self.proj_with_att(attention_BNN @ x_BNC) + self.proj_without_att(x_BNC)
        x_BND = F.selu(_batch_norm(self.bn, x_BND))
        return x_BND[:, :nodes], x_BND[:, nodes:], master_B1D

    def _scores(self, x_BNC: Tensor, nodes: int) -> Tensor:
        edges_BNND = _edges(x_BNC, self.att_proj)
        within_first, across = edges_BNND[:, :nodes].split([nodes, x_BNC.shape[1] - nodes], dim=2)
        across_back, within_second = edges_BNND[:, nodes:].split(
            [nodes, x_BNC.shape[1] - nodes], dim=2
        )
        first = torch.cat([within_first @ self.att_weight11, across @ self.att_weight12], dim=2)
        second = torch.cat(
            [across_back @ self.att_weight12, within_second @ self.att_weight22], dim=2
        )
        return torch.cat([first, second], dim=1).squeeze(-1)

    def _gather(self, x_BNC: Tensor, master_B1C: Tensor) -> Tensor:
        scores_BN1 = torch.tanh(self.att_projM(x_BNC * master_B1C)) @ self.att_weightM
        attention_BN1 = F.softmax(scores_BN1 / self.temperature, dim=1)
        # Written out: the backward pass of a matrix product is an outer product here, which torch
        # 2.14 compiles with Triton on a GPU, and that fails where there is no C compiler.
        gathered_B1C = (attention_BN1 * x_BNC).sum(dim=1, keepdim=True)
        return self.proj_with_attM(gathered_B1C) + self.proj_without_attM(master_B1C)


class GraphPool(nn.Module):
    """Keeps the best-scored share of the nodes, each multiplied with its score; at least one node."""

    def __init__(self, ratio: float, dim: int) -> None:
        super().__init__()
        self.ratio = ratio
        self.proj = nn.Linear(dim, 1)
        self.drop = nn.Dropout(POOL_DROPOUT)

    def forward(self, x_BNC: Tensor) -> Tensor:
        """(batch, nodes, dim) to (batch, max(1, int(ratio * nodes)), dim), best first."""
        # In float32 also under autocast: in bfloat16 many scores are equal, and the order of a sort
        # would choose the nodes.
        with without_autocast(x_BNC):
            scores_BN1 = torch.sigmoid(self.proj(self.drop(x_BNC.float())))
        count = max(int(x_BNC.shape[1] * self.ratio), 1)
        best_BM1 = scores_BN1.topk(count, dim=1).indices
        scored_BNC = x_BNC * scores_BN1.to(x_BNC.dtype)
        return scored_BNC.gather(1, best_BM1.expand(-1, -1, x_BNC.shape[2]))


def _edges(x_BNC: Tensor, projection: nn.Linear) -> Tensor:
    return torch.tanh(projection(x_BNC.unsqueeze(2) * x_BNC.unsqueeze(1)))


def _batch_norm(norm: nn.Module, x_BNC: Tensor) -> Tensor:
    return norm(x_BNC.flatten(0, 1)).view_as(x_BNC)


def _column(size: int) -> nn.Parameter:
    return nn.Parameter(nn.init.xavier_normal_(torch.empty(size, 1)))

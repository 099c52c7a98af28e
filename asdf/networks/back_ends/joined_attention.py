"""The attention of AASIST's joined branches, with its gradient written out, for GPUs.

Invariant: values and gradients equal those of torch's operations, up to the rounding of float32.
Torch sums the gradient of a weight over all pairs of nodes, up to 290,000 terms, in a few of a
GPU's processors, and reads the pairs' gradients, the largest tensors, twice as often.

Shapes: G branches; B utterances; X matrices or rows; J nodes, K kinds of edges; M nodes that
attend; C input values, R output values, D values of a node; 1 a single value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from asdf.networks.functions import multiply, multiply_long


class Edges(NamedTuple):
    """The scoring of an attention's edges.

    Attributes:
        kind_JJ1: Index of each edge's kind, which selects the scoring column; None for one kind.
        is_JJK: Whether each edge is of each kind.
        hidden_G11J: Mask added to scores; None for no mask.
    """

    temperature: float
    kind_JJ1: Tensor | None = None
    is_JJK: Tensor | None = None
    hidden_G11J: Tensor | None = None


class NodeWeights(NamedTuple):
    """Weights and biases of a graph's attention.

    Attributes:
        edge_GDC, edge_G1D: Map of the edges.
        node_GRC, node_G1R: Maps of the nodes, with D rows each: as attended nodes, as attending
            nodes, and as attended by the master node, if there is one.
        column_GKD: Columns that score the edges, one for each kind.
    """

    edge_GDC: Tensor
    edge_G1D: Tensor
    node_GRC: Tensor
    node_G1R: Tensor
    column_GKD: Tensor


class MasterWeights(NamedTuple):
    """Weights and biases of a master node's attention.

    Attributes:
        edge_GDC, edge_G1D: Map of its edges.
        own_GDC, own_G1D: Map of the master itself.
        column_G1D: Column that scores its edges.
    """

    edge_GDC: Tensor
    edge_G1D: Tensor
    own_GDC: Tensor
    own_G1D: Tensor
    column_G1D: Tensor


class _SavedNodes(NamedTuple):
    """Tensors for the backward pass of a graph's attention."""

    x_GBJC: Tensor
    pairs_GBJJC: Tensor
    edges_GBJJD: Tensor
    attention_GBJJ: Tensor
    attended_GBJD: Tensor
    edge_GDC: Tensor
    node_GRC: Tensor
    column_GKD: Tensor


class _SavedMaster(NamedTuple):
    """Tensors for the backward pass of a master node's attention."""

    master_GB1C: Tensor
    products_GBJC: Tensor
    edges_GBJD: Tensor
    attention_GB1J: Tensor
    attended_GBJD: Tensor
    edge_GDC: Tensor
    own_GDC: Tensor
    column_G1D: Tensor


class Attention(torch.autograd.Function):
    """An attention over a graph's nodes (G, B, J, C), and of a master node if there is one.

    The score of an edge and its gradient are the same in both directions, so only half of the
    gradient of pair products, a graph's largest tensors, has to be read.

    Args:
        parameters: Weights as `NodeWeights`, then the master node (G, B, 1, C) and `MasterWeights`.

    Returns:
        Nodes (G, B, J, D), and the master node (G, B, 1, D).
    """

    @staticmethod
    def forward(
        ctx: Any, choices: Edges, x_GBJC: Tensor, *parameters: Tensor
    ) -> Tensor | tuple[Tensor, Tensor]:
        count = len(NodeWeights._fields)
        weights = NodeWeights(*parameters[:count])
        pairs_GBJJC = x_GBJC.unsqueeze(-2) * x_GBJC.unsqueeze(-3)
        edges_GBJJD = _map(pairs_GBJJC, weights.edge_GDC, weights.edge_G1D).tanh_()
        scores_GBJJK = _score(edges_GBJJD, weights.column_GKD, choices.temperature)
        if choices.kind_JJ1 is not None:
            index_GBJJ1 = choices.kind_JJ1.expand(*scores_GBJJK.shape[:-1], 1)
            scores_GBJJK = scores_GBJJK.gather(-1, index_GBJJ1)
        scores_GBJJ = scores_GBJJK.squeeze(-1)
        if choices.hidden_G11J is not None:
            scores_GBJJ = scores_GBJJ + choices.hidden_G11J
        attention_GBJJ = scores_GBJJ.softmax(dim=-1)
        # Mapping before gathering is equivalent, since the attention weights of a node sum to 1.
        mapped_GBJR = _map(x_GBJC, weights.node_GRC, weights.node_G1R)
        mapped = mapped_GBJR.split(weights.edge_GDC.shape[1], dim=-1)
        nodes_GBJD: Tensor = _gather(attention_GBJJ, mapped[0]) + mapped[1]
        ctx.choices = choices
        saved = _SavedNodes(
            x_GBJC,
            pairs_GBJJC,
            edges_GBJJD,
            attention_GBJJ,
            mapped[0],
            weights.edge_GDC,
            weights.node_GRC,
            weights.column_GKD,
        )
        if len(parameters) == count:
            ctx.save_for_backward(*saved)
            return nodes_GBJD
        master_GB1C = parameters[count]
        of_master = MasterWeights(*parameters[count + 1 :])
        master_GB1D, saved_master = _attend_master(
            x_GBJC, mapped[2], master_GB1C, of_master, choices.temperature
        )
        ctx.save_for_backward(*saved, *saved_master)
        return nodes_GBJD, master_GB1D

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient_GBJD: Tensor, of_master_GB1D: Tensor | None = None
    ) -> tuple[Tensor | None, ...]:
        choices = ctx.choices
        count = len(_SavedNodes._fields)
        saved = _SavedNodes(*ctx.saved_tensors[:count])
        x_GBJC, attention_GBJJ = saved.x_GBJC, saved.attention_GBJJ
        of_scores_GBJJ = _through_softmax(
            gradient_GBJD, saved.attended_GBJD, attention_GBJJ, choices.temperature
        )
        of_scores_GBJJ = of_scores_GBJJ.lerp(of_scores_GBJJ.mT, 0.5)
        of_scores_GBJJK = of_scores_GBJJ.unsqueeze(-1)
        if choices.is_JJK is not None:
            of_scores_GBJJK = of_scores_GBJJK * choices.is_JJK
        of_edges, of_column = _unscore(of_scores_GBJJK, saved.edges_GBJJD, saved.column_GKD)
        of_pairs, *of_edge_map = _unmap(of_edges, saved.pairs_GBJJC, saved.edge_GDC)
        # Half of it, completed by `beta` below, since a node is the first and second of its pairs.
        of_x_GBJC = of_pairs.mul_(x_GBJC.unsqueeze(-3)).sum(-2)
        of_nodes = [_ungather(attention_GBJJ, gradient_GBJD), gradient_GBJD]
        of_master: list[Tensor] = []
        if of_master_GB1D is not None:
            from_master = _SavedMaster(*ctx.saved_tensors[count:])
            of_products_GBJC, *of_master = _unattend_master(
                from_master, x_GBJC, of_master_GB1D, choices.temperature
            )
            of_x_GBJC.addcmul_(of_products_GBJC, from_master.master_GB1C, value=0.5)
            of_nodes.append(_ungather(from_master.attention_GB1J, of_master_GB1D))
        of_mapped_GXR = torch.cat(of_nodes, dim=-1).flatten(1, 2)
        of_x_GBJC.flatten(1, 2).baddbmm_(of_mapped_GXR, saved.node_GRC, beta=2)
        of_node_map = _of_weights(of_mapped_GXR, x_GBJC.flatten(1, 2))
        return None, of_x_GBJC, *of_edge_map, *of_node_map, of_column, *of_master


def _attend_master(
    x_GBJC: Tensor,
    attended_GBJD: Tensor,
    master_GB1C: Tensor,
    weights: MasterWeights,
    temperature: float,
) -> tuple[Tensor, _SavedMaster]:
    """Return the master node after attention, (G, B, 1, D), and the tensors for its gradient."""
    products_GBJC = x_GBJC * master_GB1C
    edges_GBJD = _map(products_GBJC, weights.edge_GDC, weights.edge_G1D).tanh_()
    scores_GBJ1 = _score(edges_GBJD, weights.column_G1D, temperature)
    attention_GB1J = scores_GBJ1.squeeze(-1).softmax(dim=-1).unsqueeze(2)
    master_GB1D = _map(master_GB1C, weights.own_GDC, weights.own_G1D)
    attention_X1J = attention_GB1J.flatten(0, 1)
    attended_XJD = attended_GBJD.flatten(0, 1)
    master_GB1D.flatten(0, 1).baddbmm_(attention_X1J, attended_XJD)
    saved = _SavedMaster(
        master_GB1C,
        products_GBJC,
        edges_GBJD,
        attention_GB1J,
        attended_GBJD,
        weights.edge_GDC,
        weights.own_GDC,
        weights.column_G1D,
    )
    return master_GB1D, saved


def _unattend_master(
    saved: _SavedMaster, x_GBJC: Tensor, gradient_GB1D: Tensor, temperature: float
) -> tuple[Tensor, ...]:
    """Return the gradients of the products with nodes, of the master node and of its weights."""
    of_scores_GB1J = _through_softmax(
        gradient_GB1D, saved.attended_GBJD, saved.attention_GB1J, temperature
    )
    of_edges, of_column = _unscore(of_scores_GB1J.mT, saved.edges_GBJD, saved.column_G1D)
    of_products, *of_edge_map = _unmap(of_edges, saved.products_GBJC, saved.edge_GDC)
    gradient_GBD = gradient_GB1D.flatten(1, 2)
    of_own_map = _of_weights(gradient_GBD, saved.master_GB1C.flatten(1, 2))
    of_master_GB1C = (of_products * x_GBJC).sum(2, keepdim=True)
    of_master_GB1C.flatten(1, 2).baddbmm_(gradient_GBD, saved.own_GDC)
    return of_products, of_master_GB1C, *of_edge_map, *of_own_map, of_column


def _map(x: Tensor, weight_GRC: Tensor, bias_G1R: Tensor) -> Tensor:
    rows_GXC = x.flatten(1, -2)
    mapped_GXR = torch.baddbmm(bias_G1R, rows_GXC, weight_GRC.mT)
    return mapped_GXR.unflatten(1, x.shape[1:-1])


def _unmap(gradient: Tensor, x: Tensor, weight_GRC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients with respect to `x`, the weight and the bias."""
    gradient_GXR = gradient.flatten(1, -2)
    # Computed first, since the sum needs as much memory as the edges.
    of_weight, of_bias = _of_weights(gradient_GXR, x.flatten(1, -2))
    of_x = multiply(gradient_GXR, weight_GRC).view_as(x)
    return of_x, of_weight, of_bias


def _of_weights(gradient_GXR: Tensor, x_GXC: Tensor) -> tuple[Tensor, Tensor]:
    of_weight_GRC = multiply_long(gradient_GXR.mT, x_GXC)
    of_bias_G1R = gradient_GXR.sum(1, keepdim=True)
    return of_weight_GRC, of_bias_G1R


def _score(edges: Tensor, column_GKD: Tensor, temperature: float) -> Tensor:
    rows_GXD = edges.flatten(1, -2)
    # Its values are not read, and creating a scale would be another operation.
    unread = rows_GXD.new_empty(())
    scores_GXK = torch.baddbmm(unread, rows_GXD, column_GKD.mT, beta=0, alpha=1 / temperature)
    return scores_GXK.unflatten(1, edges.shape[1:-1])


def _unscore(gradient: Tensor, edges: Tensor, column_GKD: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of the input of `tanh` for edges, and of the columns."""
    gradient_GXK = gradient.flatten(1, -2)
    of_edges = multiply(gradient_GXK, column_GKD).view_as(edges)
    torch.ops.aten.tanh_backward.grad_input(of_edges, edges, grad_input=of_edges)
    of_column = multiply_long(gradient_GXK.mT, edges.flatten(1, -2))
    return of_edges, of_column


def _gather(attention_GBMJ: Tensor, x_GBJD: Tensor) -> Tensor:
    """Return the mean of nodes for each of M nodes, weighted by its attention."""
    attention_XMJ = attention_GBMJ.flatten(0, 1)
    x_XJD = x_GBJD.flatten(0, 1)
    gathered_XMD = multiply(attention_XMJ, x_XJD)
    return gathered_XMD.unflatten(0, x_GBJD.shape[:2])


def _ungather(attention_GBMJ: Tensor, gradient_GBMD: Tensor) -> Tensor:
    return _gather(attention_GBMJ.mT, gradient_GBMD)


def _through_softmax(
    gradient_GBMD: Tensor, x_GBJD: Tensor, attention_GBMJ: Tensor, temperature: float
) -> Tensor:
    """Return the gradient of the scores before division by the temperature."""
    of_attention_XMJ = torch.baddbmm(
        gradient_GBMD.new_empty(()),
        gradient_GBMD.flatten(0, 1),
        x_GBJD.flatten(0, 1).mT,
        beta=0,
        alpha=1 / temperature,
    )
    return torch.ops.aten._softmax_backward_data(
        of_attention_XMJ.view_as(attention_GBMJ), attention_GBMJ, -1, attention_GBMJ.dtype
    )

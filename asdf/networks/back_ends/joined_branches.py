"""AASIST's two branches of joint layers at once, with few operations: for a GPU.

A branch alone is hundreds of operations on a few thousand numbers, and a GPU takes longer to be
handed them than to compute them. Here the branches are one more dimension, one operation copies the
weights of both, and both kinds of nodes are projected, scored and pooled together. A CPU, which is
limited by the arithmetic, of which there is more here, computes one branch after the other.

Invariant: equal to one branch after the other up to the rounding of float32, with the layers' own
batch norms; dropout draws for both branches together.

Source: Jung et al., "AASIST", ICASSP 2022, sections 3 and 4.

Shapes: G branches; B utterances; J nodes of both kinds, K those that pooling retains; C values of a
node coming in, D going out; X rows of all utterances; R rows of a weight; 1 a single value.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.graph_attention import (
    INPUT_DROPOUT,
    POOL_DROPOUT,
    GraphAttention,
    GraphPool,
    HeterogeneousGraphAttention,
)
from asdf.networks.back_ends.joined_gradients import (
    LinearMaps,
    MatrixProducts,
    PairProducts,
    Pick,
    Symmetric,
)
from asdf.networks.cpu_gradients import LearningSELU, LearningTanh
from asdf.networks.traced_sizes import at_least, share
from asdf.networks.watched import is_plain

_KNOWN = (
    *(GraphAttention, HeterogeneousGraphAttention, GraphPool),
    *(nn.ModuleList, nn.Linear, nn.Dropout, LearningTanh, LearningSELU),
)
# Maps of the same nodes, which one product computes.
_KINDS = ("proj_type1", "proj_type2")
_EDGES = ("att_proj",)
_MASTER_EDGES = ("att_projM",)
_NODES = ("proj_with_att", "proj_without_att", "proj_with_attM")
_MASTER = ("proj_without_attM",)
_POOLS = ("0.proj", "1.proj")
_NODES_APART = ("proj_with_att", "proj_without_att")
# By how many of a pair's nodes are of the second kind; the master's is the last.
_COLUMNS = ("att_weight11", "att_weight12", "att_weight22", "att_weightM")
# Groups of linear maps, and columns, by the kind of the layers.
_NAMES: dict[type[nn.Module], tuple[Sequence[tuple[str, ...]], Sequence[str]]] = {
    GraphAttention: ((_EDGES, _NODES_APART), ("att_weight",)),
    HeterogeneousGraphAttention: ((_KINDS, _EDGES, _MASTER_EDGES, _NODES, _MASTER), _COLUMNS),
    nn.ModuleList: ((_POOLS,), ()),
}


class Kinds(NamedTuple):
    """How many nodes there are of two kinds, those of the first kind first.

    Attributes:
        kind_JJ: Number of nodes of the second kind in each pair, 0 to 2.
        is_JJ3: Whether it is 0, 1 and 2.
    """

    first: int
    second: int
    kind_JJ: Tensor
    is_JJ3: Tensor

    @classmethod
    def of(cls, first: int, second: int, device: torch.device) -> Kinds:
        """Note the kinds of so many nodes."""
        kind_J = torch.zeros(first + second, dtype=torch.long, device=device)
        kind_J[first:] = 1
        kind_JJ = kind_J[:, None] + kind_J
        is_JJ3 = kind_JJ[:, :, None] == torch.arange(3, device=device)
        return cls(first, second, kind_JJ, is_JJ3)

    def retain(self, first: int, second: int) -> Kinds:
        """Return the kinds of fewer nodes, without an operation of the device."""
        around = slice(self.first - first, self.first + second)
        return Kinds(first, second, self.kind_JJ[around, around], self.is_JJ3[around, around])

    def pick_of_nodes(self, values: Tensor) -> Tensor:
        """Return of (..., nodes, 2, C) those of each node's kind, (..., nodes, C)."""
        # A node's kind is that of its pair with the first node.
        index, is_it = self.kind_JJ[:, :1, None], self.is_JJ3[:, 0, :2, None]
        picked: Tensor = Pick.apply(values, index, is_it)
        return picked

    def pick_of_pairs(self, values: Tensor) -> Tensor:
        """Return of (..., nodes, nodes, 3) those of each pair's kind, (..., nodes, nodes)."""
        picked: Tensor = Pick.apply(values, self.kind_JJ[:, :, None], self.is_JJ3)
        return picked


def can_join(layers: Sequence[nn.Module]) -> bool:
    """Return whether all parts of attentions and pools are as published, and nobody watches them.

    Norms may be of any kind: they are called.
    """
    for layer in layers:
        for name, part in layer.named_modules():
            is_known = type(part) in _KNOWN and is_plain(part)
            if name != "bn" and not is_known:
                return False
    return True


def attend_apart(maps: Maps, graphs: Sequence[Tensor]) -> Tensor:
    """Compute an attention over each of two graphs, the smaller one filled up with nodes of zeros.

    Args:
        maps: Of layers of one temperature.
        graphs: Nodes of each graph, (batch, nodes, values).

    Returns:
        Nodes of the first graph and then of the second, (batch, nodes, dim_out).
    """
    layers = maps.layers
    sizes = [graph.shape[1] for graph in graphs]
    full_GBJC, hidden_G11J = _fill_up(graphs, max(sizes))
    x_GBJC = F.dropout(full_GBJC, INPUT_DROPOUT, layers[0].training)
    edges_GBJJC: Tensor = PairProducts.apply(x_GBJC)
    columns_G1D = maps.columns_GRD / layers[0].temperature
    scores_GBJJ1 = _map(maps.apply(_EDGES, edges_GBJJC).tanh(), columns_G1D)
    scores_GBJJ: Tensor = Symmetric.apply(scores_GBJJ1.squeeze(-1))
    if hidden_G11J is not None:
        scores_GBJJ = scores_GBJJ + hidden_G11J
    attending, own = maps.apply(_NODES_APART, x_GBJC).chunk(2, dim=-1)
    x_GBJD = _gather(scores_GBJJ.softmax(dim=-1), attending) + own
    normed = []
    for layer, x_BJD, size in zip(layers, x_GBJD.unbind(), sizes, strict=True):
        rows_XD = layer.bn(x_BJD[:, :size].flatten(0, 1))
        normed.append(rows_XD.unflatten(0, (-1, size)))
    return F.selu(torch.cat(normed, dim=1))


def _fill_up(graphs: Sequence[Tensor], size: int) -> tuple[Tensor, Tensor | None]:
    """Return graphs of `size` nodes each, and what hides the others from attention, if there are.

    Returns:
        (graphs, batch, size, values), and (graphs, 1, 1, size) that is added to scores.
    """
    missing = [size - graph.shape[1] for graph in graphs]
    if not any(missing):
        return torch.stack(list(graphs)), None
    full = []
    hidden_G11J = graphs[0].new_zeros(len(graphs), 1, 1, size)
    for number, (graph, more) in enumerate(zip(graphs, missing, strict=True)):
        full.append(F.pad(graph, (0, 0, 0, more)) if more else graph)
        if more:
            hidden_G11J[number, ..., -more:] = -torch.inf
    return torch.stack(full), hidden_G11J


def attend(
    maps: Maps, nodes_GBJC: Tensor, master_GBC: Tensor, kinds: Kinds
) -> tuple[Tensor, Tensor]:
    """Compute an attention of each branch.

    Args:
        nodes_GBJC: Nodes of each branch, or of one (G = 1) that all share.
        master_GBC: Master node of each branch and utterance, or of a branch (B = 1).

    Returns:
        Nodes (branches, batch, nodes, dim_out), and master nodes (branches, batch, dim_out).
    """
    layers = maps.layers
    x_GBJC = kinds.pick_of_nodes(maps.apply(_KINDS, nodes_GBJC).unflatten(-1, (2, -1)))
    x_GBJC = F.dropout(x_GBJC, INPUT_DROPOUT, layers[0].training)
    columns_GRD = maps.columns_GRD / layers[0].temperature
    pairs_GRD, master_GRD = columns_GRD.split([len(_COLUMNS) - 1, 1], dim=1)

    edges_GBJJC: Tensor = PairProducts.apply(x_GBJC)
    scores_GBJJ3 = _map(maps.apply(_EDGES, edges_GBJJC).tanh(), pairs_GRD)
    scores_GBJJ: Tensor = Symmetric.apply(kinds.pick_of_pairs(scores_GBJJ3))
    # Mapped before they are gathered, which is the same: the attention of a node adds up to 1.
    attending, own, for_master = maps.apply(_NODES, x_GBJC).chunk(len(_NODES), dim=-1)
    x_GBJD = _gather(scores_GBJJ.softmax(dim=-1), attending) + own

    master_GB1C = master_GBC.expand(*x_GBJC.shape[:2], -1).unsqueeze(2)
    edges_GBJD = maps.apply(_MASTER_EDGES, x_GBJC * master_GB1C).tanh()
    scores_GBJ = _map(edges_GBJD, master_GRD).squeeze(-1)
    gathered_GB1D = _gather(scores_GBJ.softmax(dim=-1).unsqueeze(2), for_master)
    master_GB1D = maps.apply(_MASTER, master_GB1C) + gathered_GB1D
    master_GBD = master_GB1D.squeeze(2)
    return _normalize(layers, x_GBJD), master_GBD


def pool(maps: Maps, nodes_GBJC: Tensor, kinds: Kinds) -> tuple[Tensor, Kinds]:
    """Retain the best-scored share of each kind's nodes, by the two pools of each branch."""
    first, second = maps.layers[0]
    dropped_GBJC = F.dropout(nodes_GBJC, POOL_DROPOUT, first.training)
    either_GBJ2 = maps.apply(_POOLS, dropped_GBJC).sigmoid()
    scores_GBJ1 = kinds.pick_of_nodes(either_GBJ2.unsqueeze(-1))
    # Which nodes are best has no gradient.
    parts = scores_GBJ1.detach().split([kinds.first, kinds.second], dim=2)
    best_first = _find_best(parts[0], first.ratio)
    best_second = _find_best(parts[1], second.ratio)
    best_GBK1 = torch.cat([best_first, best_second + kinds.first], dim=2)
    best_GBKC = best_GBK1.expand(-1, -1, -1, nodes_GBJC.shape[-1])
    pooled_GBKC = (nodes_GBJC * scores_GBJ1).gather(2, best_GBKC)
    return pooled_GBKC, kinds.retain(best_first.shape[2], best_second.shape[2])


class Maps:
    """Linear maps and columns of the equal layers of a stage; see `copy_maps`.

    Attributes:
        layers: The layers.
        columns_GRD: the columns as rows.
    """

    def __init__(self, layers: Sequence[Any], copies: Sequence[Tensor]) -> None:
        """Take the copies: weights of each group of maps, their biases, and the columns."""
        groups, columns = _NAMES[type(layers[0])]
        parts = [copy.view(len(layers), -1) for copy in copies]
        self.layers = layers
        self._weights = dict(zip(groups, parts, strict=False))
        self._biases = dict(zip(groups, parts[len(groups) :], strict=False))
        self.columns_GRD = parts[-1].unflatten(1, (max(1, len(columns)), -1))

    def apply(self, group: tuple[str, ...], x: Tensor) -> Tensor:
        """Map (branches or 1, ..., C) to (branches, ..., R), the results of the group's maps."""
        weight_GRC = self._weights[group].unflatten(1, (-1, x.shape[-1]))
        return _map(x, weight_GRC, self._biases[group].unsqueeze(1))


def copy_maps(stages: Sequence[Sequence[nn.Module]]) -> list[Maps]:
    """Copy the parameters of all stages by one operation; return the maps of each stage.

    Args:
        stages: Equal layers of both branches, or of both graphs; pools in pairs, as module lists.
    """
    parts: list[Tensor] = []
    sizes: list[list[int]] = []
    for layers in stages:
        groups, columns = _NAMES[type(layers[0])]
        names = []
        for kind in ("weight", "bias"):
            for group in groups:
                names.append([f"{name}.{kind}" for name in group])
        sizes.append([_append_flat(parts, layers, each) for each in (*names, columns)])
    flat_sizes = [size for each in sizes for size in each]
    copies = iter(torch.cat(parts).split(flat_sizes))
    maps = []
    for layers, each in zip(stages, sizes, strict=True):
        maps.append(Maps(layers, list(islice(copies, len(each)))))
    return maps


def _append_flat(parts: list[Tensor], layers: Sequence[nn.Module], names: Sequence[str]) -> int:
    """Append the named parameters of each layer to `parts`; return how many numbers they have."""
    size = 0
    for layer in layers:
        for name in names:
            part = attrgetter(name)(layer).flatten()
            parts.append(part)
            size += part.numel()
    return size


def _map(x: Tensor, weight_GRC: Tensor, added_G1R: Tensor | None = None) -> Tensor:
    """Map (G or 1, ..., C) to (G, ..., R) by the weight of each branch."""
    x = x.expand(len(weight_GRC), *x.shape[1:])
    rows_GXR: Tensor = LinearMaps.apply(x.flatten(1, -2), weight_GRC, added_G1R)
    mapped: Tensor = rows_GXR.unflatten(1, x.shape[1:-1])
    return mapped


def _gather(attention_GBMJ: Tensor, x_GBJD: Tensor) -> Tensor:
    """Return the mean of nodes for each of M, weighted by its attention."""
    matrices = (attention_GBMJ.flatten(0, 1), x_GBJD.flatten(0, 1))
    gathered_XMD: Tensor = MatrixProducts.apply(*matrices)
    gathered: Tensor = gathered_XMD.unflatten(0, x_GBJD.shape[:2])
    return gathered


def _find_best(scores_GBJ1: Tensor, ratio: float) -> Tensor:
    count = at_least(share(scores_GBJ1.shape[2], ratio), 1)
    return scores_GBJ1.topk(count, dim=2).indices


def _normalize(layers: Sequence[HeterogeneousGraphAttention], x_GBJD: Tensor) -> Tensor:
    """Apply each branch's own batch norm, over all nodes of all utterances, and SELU."""
    normed = []
    for layer, x_BJD in zip(layers, x_GBJD.unbind(), strict=True):
        normed.append(layer.bn(x_BJD.flatten(0, 1)))
    normed_GXD = torch.stack(normed)
    return F.selu(normed_GXD).view_as(x_GBJD)

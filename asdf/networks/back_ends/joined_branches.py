"""AASIST's two branches computed together in few operations, for GPUs.

A branch consists of hundreds of operations on a few thousand numbers, and launching them takes a
GPU longer than computing them. Here the branches are an additional dimension, one operation copies
the weights of both, and both kinds of nodes are projected, scored and pooled together. This takes
more arithmetic, so a CPU computes one branch after the other.

Invariant: equal to one branch after the other up to the rounding of float32, with the layers' own
batch norms; dropout draws for both branches together.

Source: Jung et al., "AASIST", ICASSP 2022, sections 3 and 4.

Shapes: G branches; B utterances; J nodes of both kinds, K nodes kept by pooling; C input values of
a node, D output values; X rows of all utterances; R rows of a weight; 1 a single value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from asdf.networks.back_ends.joined_attention import Attention, Edges, MasterWeights, NodeWeights
from asdf.networks.functions import LearningSELU, LearningTanh, at_least, is_plain, share

_KNOWN = (
    *(GraphAttention, HeterogeneousGraphAttention, GraphPool),
    *(nn.ModuleList, nn.Linear, nn.Dropout, LearningTanh, LearningSELU),
)
# Maps of the same nodes, computed by one product.
_KINDS = ("proj_type1", "proj_type2")
_EDGES = ("att_proj",)
_MASTER_EDGES = ("att_projM",)
_NODES = ("proj_with_att", "proj_without_att", "proj_with_attM")
_MASTER = ("proj_without_attM",)
_POOLS = ("0.proj", "1.proj")
_NODES_APART = ("proj_with_att", "proj_without_att")
_COLUMN = ("att_weight",)
# Indexed by the number of a pair's nodes that are of the second kind.
_COLUMNS = ("att_weight11", "att_weight12", "att_weight22")
_MASTER_COLUMN = ("att_weightM",)
# Groups of linear maps, and of columns, by the kind of layer.
_Groups = Sequence[tuple[str, ...]]
_NAMES: dict[type[nn.Module], tuple[_Groups, _Groups]] = {
    GraphAttention: ((_EDGES, _NODES_APART), (_COLUMN,)),
    HeterogeneousGraphAttention: (
        (_KINDS, _EDGES, _MASTER_EDGES, _NODES, _MASTER),
        (_COLUMNS, _MASTER_COLUMN),
    ),
    nn.ModuleList: ((_POOLS,), ()),
}


class Kinds(NamedTuple):
    """The kinds of a set of nodes, with those of the first kind first.

    Attributes:
        kind_JJ: Number of nodes of the second kind in each pair, 0 to 2.
        is_JJ3: Whether this number is 0, 1 and 2.
        rank_J1: Rank of each node's kind, -1 for the second kind, in float64: added to numbers
            between 0 and 1, it sorts the first kind first.
    """

    first: int
    second: int
    kind_JJ: Tensor
    is_JJ3: Tensor
    rank_J1: Tensor

    @classmethod
    def between(cls, first_BNC: Tensor, second_BMC: Tensor) -> Kinds:
        """Return the kinds of two graphs' nodes, cached for graphs in training."""
        sizes = (first_BNC.shape[1], second_BMC.shape[1], first_BNC.device)
        return _recall(cls.of, first_BNC, *sizes)

    @classmethod
    def of(cls, first: int, second: int, device: torch.device) -> Kinds:
        """Return the kinds for these numbers of nodes."""
        kind_J = torch.zeros(first + second, dtype=torch.long, device=device)
        kind_J[first:] = 1
        kind_JJ = kind_J[:, None] + kind_J
        is_JJ3 = kind_JJ[:, :, None] == torch.arange(3, device=device)
        rank_J1 = -kind_J.double().unsqueeze(1)
        return cls(first, second, kind_JJ, is_JJ3, rank_J1)

    def retain(self, first: int, second: int) -> Kinds:
        """Return the kinds of fewer nodes, without an operation on the device."""
        around = slice(self.first - first, self.first + second)
        kind_JJ = self.kind_JJ[around, around]
        is_JJ3 = self.is_JJ3[around, around]
        return Kinds(first, second, kind_JJ, is_JJ3, self.rank_J1[around])

    def pick_of_nodes(self, values: Tensor) -> Tensor:
        """Select each node's kind from (..., nodes, 2, C), giving (..., nodes, C)."""
        # A node's kind is that of its pair with the first node.
        index_J11 = self.kind_JJ[:, :1, None]
        shape = (*values.shape[:-2], 1, values.shape[-1])
        return values.gather(-2, index_J11.expand(shape)).squeeze(-2)

    def find_best(self, scores_GBJ1: Tensor, first: int, second: int) -> Tensor:
        """Return the indices of the best-scored nodes of each kind, (..., K, 1).

        Args:
            scores_GBJ1: Scores between 0 and 1.
        """
        # In float64, adding the rank does not round a score.
        ranked_GBJ1 = scores_GBJ1 + self.rank_J1
        order_GBJ1 = ranked_GBJ1.topk(self.first + second, dim=2).indices
        best_first = order_GBJ1[:, :, :first]
        best_second = order_GBJ1[:, :, self.first :]
        return torch.cat([best_first, best_second], dim=2)


# Tensors that depend only on sizes. Never cleared: a captured CUDA graph reads them in each replay.
_REMEMBERED: dict[tuple[Any, ...], Any] = {}


def _recall(make: Callable[..., Any], x: Tensor, *sizes: Any) -> Any:
    """Return `make(*sizes)`, cached, since it is the same in each step of training."""
    # Not for scored recordings, whose sizes vary, or a tracer's tensors, which belong to it alone.
    if not x.requires_grad or type(x) is not Tensor or torch.compiler.is_compiling():
        return make(*sizes)
    key = (make, *sizes)
    if key not in _REMEMBERED:
        # Tensors created for inference could not be used in training later.
        with torch.inference_mode(False):
            _REMEMBERED[key] = make(*sizes)
    return _REMEMBERED[key]


def can_join(layers: Sequence[nn.Module]) -> bool:
    """Return whether all parts of attentions and pools are as published and have no hooks.

    Norms may be of any class, since they are called.
    """
    for layer in layers:
        for name, part in layer.named_modules():
            is_known = type(part) in _KNOWN and is_plain(part)
            if name != "bn" and not is_known:
                return False
    return True


def attend_apart(maps: Maps, graphs: Sequence[Tensor]) -> Tensor:
    """Compute an attention over each of two graphs, with the smaller one padded by zero nodes.

    Args:
        maps: Maps of the layers, which have equal temperatures.
        graphs: Nodes of each graph, (batch, nodes, values).

    Returns:
        Nodes of the first graph, then of the second, (batch, nodes, dim_out).
    """
    layers = maps.layers
    sizes = tuple(graph.shape[1] for graph in graphs)
    padded = [F.pad(x_BNC, (0, 0, 0, max(sizes) - x_BNC.shape[1])) for x_BNC in graphs]
    x_GBJC = F.dropout(torch.stack(padded), INPUT_DROPOUT, layers[0].training)
    hidden_G11J = _recall(_hide, x_GBJC, sizes, x_GBJC.device)
    edges = Edges(layers[0].temperature, hidden_G11J=hidden_G11J)
    weights = NodeWeights(*maps.of(_EDGES), *maps.of(_NODES_APART), maps.columns(_COLUMN))
    x_GBJD: Tensor = Attention.apply(edges, x_GBJC, *weights)
    normed = []
    for layer, x_BJD, size in zip(layers, x_GBJD.unbind(), sizes, strict=True):
        rows_XD = layer.bn(x_BJD[:, :size].flatten(0, 1))
        normed.append(rows_XD.unflatten(0, (-1, size)))
    return F.selu(torch.cat(normed, dim=1))


def _hide(sizes: Sequence[int], device: torch.device) -> Tensor | None:
    """Return a term (graphs, 1, 1, nodes) that masks padding nodes when added to scores."""
    if len(set(sizes)) == 1:
        return None
    hidden_G11J = torch.zeros(len(sizes), 1, 1, max(sizes), device=device)
    for hidden_11J, size in zip(hidden_G11J, sizes, strict=True):
        hidden_11J[..., size:] = -torch.inf
    return hidden_G11J


def attend(
    maps: Maps, nodes_GBJC: Tensor, master_GBC: Tensor, kinds: Kinds
) -> tuple[Tensor, Tensor]:
    """Compute an attention for each branch.

    Args:
        nodes_GBJC: Nodes of each branch, or shared by all (G = 1).
        master_GBC: Master node of each branch and utterance, or of each branch (B = 1).

    Returns:
        Nodes (branches, batch, nodes, dim_out), and master nodes (branches, batch, dim_out).
    """
    layers = maps.layers
    x_GBJC = kinds.pick_of_nodes(maps.apply(_KINDS, nodes_GBJC).unflatten(-1, (2, -1)))
    x_GBJC = F.dropout(x_GBJC, INPUT_DROPOUT, layers[0].training)
    edges = Edges(layers[0].temperature, kinds.kind_JJ[:, :, None], kinds.is_JJ3)
    weights = NodeWeights(*maps.of(_EDGES), *maps.of(_NODES), maps.columns(_COLUMNS))
    master_GB1C = master_GBC.expand(*x_GBJC.shape[:2], -1).unsqueeze(2)
    of_master = MasterWeights(
        *maps.of(_MASTER_EDGES), *maps.of(_MASTER), maps.columns(_MASTER_COLUMN)
    )
    x_GBJD, master_GB1D = Attention.apply(edges, x_GBJC, *weights, master_GB1C, *of_master)
    return _normalize(layers, x_GBJD), master_GB1D.squeeze(2)


def pool(maps: Maps, nodes_GBJC: Tensor, kinds: Kinds) -> tuple[Tensor, Kinds]:
    """Keep the best-scored proportion of nodes of each kind, with the two pools of each branch."""
    first, second = maps.layers[0]
    dropped_GBJC = F.dropout(nodes_GBJC, POOL_DROPOUT, first.training)
    either_GBJ2 = maps.apply(_POOLS, dropped_GBJC).sigmoid()
    scores_GBJ1 = kinds.pick_of_nodes(either_GBJ2.unsqueeze(-1))
    counts = (_count_best(kinds.first, first.ratio), _count_best(kinds.second, second.ratio))
    # The selection of the best nodes has no gradient.
    best_GBK1 = kinds.find_best(scores_GBJ1.detach(), *counts)
    best_GBKC = best_GBK1.expand(-1, -1, -1, nodes_GBJC.shape[-1])
    return (nodes_GBJC * scores_GBJ1).gather(2, best_GBKC), kinds.retain(*counts)


class Maps:
    """Linear maps and columns of equal layers in a stage; see `copy_maps`.

    Attributes:
        layers: The layers.
    """

    def __init__(self, layers: Sequence[Any], copies: Sequence[Tensor]) -> None:
        """Store the copies: weights of each group of maps, their biases, groups of columns."""
        groups, columns = _NAMES[type(layers[0])]
        parts = [copy.view(len(layers), -1) for copy in copies]
        self.layers = layers
        self._weights = dict(zip(groups, parts, strict=False))
        self._biases = dict(zip(groups, parts[len(groups) :], strict=False))
        self._columns = dict(zip(columns, parts[2 * len(groups) :], strict=True))

    def of(self, group: tuple[str, ...]) -> tuple[Tensor, Tensor]:
        """Return the weights (branches, R, C) of a group's maps, and their biases (..., 1, R)."""
        bias_G1R = self._biases[group].unsqueeze(1)
        return self._weights[group].unflatten(1, (bias_G1R.shape[2], -1)), bias_G1R

    def columns(self, group: tuple[str, ...]) -> Tensor:
        """Return the columns of a group as rows, (branches, columns, D)."""
        return self._columns[group].unflatten(1, (len(group), -1))

    def apply(self, group: tuple[str, ...], x: Tensor) -> Tensor:
        """Map (branches or 1, ..., C) to (branches, ..., R), the results of the group's maps."""
        weight_GRC, bias_G1R = self.of(group)
        x = x.expand(len(weight_GRC), *x.shape[1:])
        rows_GXR = torch.baddbmm(bias_G1R, x.flatten(1, -2), weight_GRC.mT)
        return rows_GXR.unflatten(1, x.shape[1:-1])


def copy_maps(stages: Sequence[Sequence[nn.Module]]) -> list[Maps]:
    """Copy the parameters of all stages in one operation; return the maps of each stage.

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
        stage_sizes = []
        for attributes in (*names, *columns):
            flat = [attrgetter(name)(layer).flatten() for layer in layers for name in attributes]
            parts += flat
            stage_sizes.append(sum(part.numel() for part in flat))
        sizes.append(stage_sizes)
    flat_sizes = [size for each in sizes for size in each]
    copies = iter(torch.cat(parts).split(flat_sizes))
    maps = []
    for layers, each in zip(stages, sizes, strict=True):
        maps.append(Maps(layers, list(islice(copies, len(each)))))
    return maps


def _count_best(nodes: int, ratio: float) -> int:
    return at_least(share(nodes, ratio), 1)


def _normalize(layers: Sequence[HeterogeneousGraphAttention], x_GBJD: Tensor) -> Tensor:
    """Apply each branch's own batch norm, over all nodes of all utterances, and SELU."""
    normed = []
    for layer, x_BJD in zip(layers, x_GBJD.unbind(), strict=True):
        normed.append(layer.bn(x_BJD.flatten(0, 1)))
    normed_GXD = torch.stack(normed)
    return F.selu(normed_GXD).view_as(x_GBJD)

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
from operator import attrgetter
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.graph_attention import (
    INPUT_DROPOUT,
    POOL_DROPOUT,
    GraphPool,
    HeterogeneousGraphAttention,
)
from asdf.networks.cpu_gradients import LearningSELU, LearningTanh
from asdf.networks.traced_sizes import at_least, share
from asdf.networks.watched import is_plain

_KNOWN = (HeterogeneousGraphAttention, GraphPool, nn.Linear, nn.Dropout, LearningTanh, LearningSELU)
# Maps of the same nodes, which one product computes.
_KINDS = ("proj_type1", "proj_type2")
_EDGES = ("att_proj",)
_MASTER_EDGES = ("att_projM",)
_NODES = ("proj_with_att", "proj_without_att", "proj_with_attM")
_MASTER = ("proj_without_attM",)
_POOLS = ("0.proj", "1.proj")
# By how many of a pair's nodes are of the second kind; the master's is the last.
_COLUMNS = ("att_weight11", "att_weight12", "att_weight22", "att_weightM")


class Kinds(NamedTuple):
    """How many nodes there are of two kinds, those of the first kind first.

    Attributes:
        kind_J: 0 for nodes of the first kind, 1 for those of the second.
        kind_JJ: Number of nodes of the second kind in each pair, 0 to 2.
    """

    first: int
    second: int
    kind_J: Tensor
    kind_JJ: Tensor

    @classmethod
    def of(cls, first: int, second: int, device: torch.device) -> Kinds:
        """Note the kinds of so many nodes."""
        kind_J = torch.zeros(first + second, dtype=torch.long, device=device)
        kind_J[first:] = 1
        return cls(first, second, kind_J, kind_J[:, None] + kind_J)

    def retain(self, first: int, second: int) -> Kinds:
        """Return the kinds of fewer nodes, without an operation of the device."""
        around = slice(self.first - first, self.first + second)
        return Kinds(first, second, self.kind_J[around], self.kind_JJ[around, around])


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


def attend(
    layers: Sequence[HeterogeneousGraphAttention],
    nodes_GBJC: Tensor,
    master_GBC: Tensor,
    kinds: Kinds,
) -> tuple[Tensor, Tensor]:
    """Compute an attention of each branch.

    Args:
        nodes_GBJC: Nodes of each branch, or of one (G = 1) that all share.
        master_GBC: Master node of each branch and utterance, or of a branch (B = 1).

    Returns:
        Nodes (branches, batch, nodes, dim_out), and master nodes (branches, batch, dim_out).
    """
    maps = _Maps(layers, [_KINDS, _EDGES, _MASTER_EDGES, _NODES, _MASTER], _COLUMNS)
    either_GBJ2C = maps.apply(_KINDS, nodes_GBJC).unflatten(-1, (2, -1))
    x_GBJC = _pick(either_GBJ2C, kinds.kind_J[:, None, None]).squeeze(-2)
    x_GBJC = F.dropout(x_GBJC, INPUT_DROPOUT, layers[0].training)
    columns_GRD = maps.columns_GRD / layers[0].temperature
    pairs_GRD, master_GRD = columns_GRD.split([len(_COLUMNS) - 1, 1], dim=1)

    edges_GBJJC = x_GBJC.unsqueeze(3) * x_GBJC.unsqueeze(2)
    scores_GBJJR = _product(maps.apply(_EDGES, edges_GBJJC).tanh(), pairs_GRD)
    scores_GBJJ = _pick(scores_GBJJR, kinds.kind_JJ.unsqueeze(-1)).squeeze(-1)
    # Mapped before they are gathered, which is the same: the attention of a node adds up to 1.
    attending, own, for_master = maps.apply(_NODES, x_GBJC).chunk(len(_NODES), dim=-1)
    attended_XJD = scores_GBJJ.softmax(dim=-1).flatten(0, 1) @ attending.flatten(0, 1)
    x_GBJD = attended_XJD.view_as(own) + own

    master_GB1C = master_GBC.expand(*x_GBJC.shape[:2], -1).unsqueeze(2)
    edges_GBJD = maps.apply(_MASTER_EDGES, x_GBJC * master_GB1C).tanh()
    # No matrix products, for the reason that `HeterogeneousGraphAttention` has.
    scores_GBJ1 = (edges_GBJD * master_GRD.unsqueeze(1)).sum(dim=-1, keepdim=True)
    gathered_GBD = (scores_GBJ1.softmax(dim=2) * for_master).sum(dim=2)
    master_GBD = maps.apply(_MASTER, master_GB1C).squeeze(2) + gathered_GBD
    return _normalize(layers, x_GBJD), master_GBD


def pool(
    pools: Sequence[tuple[GraphPool, GraphPool]], nodes_GBJC: Tensor, kinds: Kinds
) -> tuple[Tensor, Kinds]:
    """Retain the best-scored share of each kind's nodes, by the two pools of each branch."""
    maps = _Maps([nn.ModuleList(pair) for pair in pools], [_POOLS])
    first, second = pools[0]
    dropped_GBJC = F.dropout(nodes_GBJC, POOL_DROPOUT, first.training)
    either_GBJ2 = maps.apply(_POOLS, dropped_GBJC).sigmoid()
    scores_GBJ1 = _pick(either_GBJ2, kinds.kind_J.unsqueeze(1))
    # Which nodes are best has no gradient.
    parts = scores_GBJ1.detach().split([kinds.first, kinds.second], dim=2)
    best_first = _find_best(parts[0], first.ratio)
    best_second = _find_best(parts[1], second.ratio)
    best_GBK1 = torch.cat([best_first, best_second + kinds.first], dim=2)
    best_GBKC = best_GBK1.expand(-1, -1, -1, nodes_GBJC.shape[-1])
    pooled_GBKC = (nodes_GBJC * scores_GBJ1).gather(2, best_GBKC)
    return pooled_GBKC, kinds.retain(best_first.shape[2], best_second.shape[2])


class _Maps:
    """Linear maps and columns of equal layers, copied together.

    Attributes:
        columns_GRD: the columns as rows.
    """

    def __init__(
        self,
        layers: Sequence[nn.Module],
        groups: Sequence[tuple[str, ...]],
        columns: Sequence[str] = (),
    ) -> None:
        """Copy parameters.

        Args:
            groups: Names of linear maps; those of a group stand one below the other.
        """
        parts: list[Tensor] = []
        sizes = []
        for kind in ("weight", "bias"):
            for group in groups:
                names = [f"{name}.{kind}" for name in group]
                sizes.append(_append_flat(parts, layers, names))
        sizes.append(_append_flat(parts, layers, columns))
        copies = [copy.view(len(layers), -1) for copy in torch.cat(parts).split(sizes)]
        self._weights = dict(zip(groups, copies, strict=False))
        self._biases = dict(zip(groups, copies[len(groups) :], strict=False))
        self.columns_GRD = copies[-1].unflatten(1, (max(1, len(columns)), -1))

    def apply(self, group: tuple[str, ...], x: Tensor) -> Tensor:
        """Map (branches or 1, ..., C) to (branches, ..., R), the results of the group's maps."""
        weight_GRC = self._weights[group].unflatten(1, (-1, x.shape[-1]))
        return _product(x, weight_GRC, self._biases[group].unsqueeze(1))


def _append_flat(parts: list[Tensor], layers: Sequence[nn.Module], names: Sequence[str]) -> int:
    """Append the named parameters of each layer to `parts`; return how many numbers they have."""
    size = 0
    for layer in layers:
        for name in names:
            part = attrgetter(name)(layer).flatten()
            parts.append(part)
            size += part.numel()
    return size


def _product(x: Tensor, weight_GRC: Tensor, added_GXR: Tensor | None = None) -> Tensor:
    """Map (G or 1, ..., C) to (G, ..., R) by the weight of each branch."""
    x = x.expand(len(weight_GRC), *x.shape[1:])
    rows_GXC = x.flatten(1, -2)
    if rows_GXC.shape[1] == 1:
        # The gradient of a product of one row is an outer product of batches, which torch 2.14
        # computes with Triton: that needs a C compiler on the machine.
        rows_GXR = (rows_GXC * weight_GRC).sum(dim=-1).unsqueeze(1)
        rows_GXR = rows_GXR if added_GXR is None else rows_GXR + added_GXR
    elif added_GXR is None:
        rows_GXR = torch.bmm(rows_GXC, weight_GRC.mT)
    else:
        rows_GXR = torch.baddbmm(added_GXR, rows_GXC, weight_GRC.mT)
    result: Tensor = rows_GXR.unflatten(1, x.shape[1:-1])
    return result


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """Return those of `values` that `index` names, in the dimension in which `index` has size 1.

    Args:
        index: Indices into one of the last dimensions of `values`.
    """
    dim = -index.dim() + list(index.shape).index(1, 1)
    shape = list(values.shape)
    shape[dim] = 1
    return values.gather(dim, index.expand(shape))


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

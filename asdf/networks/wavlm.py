"""WavLM's layers: where torchaudio keeps what other programs name otherwise.

Invariant: numbers are moved, none is changed, and a layer that is not WavLM's is left as it is.

Source: Chen et al., "WavLM", JSTSP 2022, for the gated relative position bias; torchaudio's network for the names.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_GATE = ".gru_rel_pos_const"
_JOINED = ("q_proj", "k_proj", "v_proj")


def joined(layers: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`layers` with the query, key and value projections of WavLM's attention as the one matrix that torch uses."""
    result = dict(layers)
    for gate in [name for name in layers if name.endswith(_GATE)]:
        attention = gate.removesuffix(_GATE)
        for kind in ("weight", "bias"):
            names = [f"{attention}.{part}.{kind}" for part in _JOINED]
            if all(name in result for name in names):
                result[f"{attention}.attention.in_proj_{kind}"] = torch.cat([result.pop(name) for name in names])
            if f"{attention}.out_proj.{kind}" in result:
                result[f"{attention}.attention.out_proj.{kind}"] = result.pop(f"{attention}.out_proj.{kind}")
    return result

"""What official code computed with drawn weights, and the same weights for a network of ours."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "networks"


@dataclass(frozen=True)
class OfficialCase:
    """A case that official code computed.

    Attributes:
        state: weights by their published names.
        inputs: waveforms (batch, samples) or features (batch, frames, values).
        outputs: by name.
    """

    state: dict[str, Tensor]
    inputs: Tensor
    outputs: dict[str, Tensor]


def official_case(name: str) -> OfficialCase:
    """Read a case; its weights are drawn again, since they are many and their names are few."""
    with np.load(FOLDER / f"{name}.npz") as case:
        arrays = {key: case[key] for key in case.files}
    names = arrays.pop("names").tolist()
    shapes = arrays.pop("shapes").tolist()
    state = {}
    for number, (layer, shape) in enumerate(zip(names, shapes, strict=True)):
        sizes = tuple(int(size) for size in shape.split(","))
        state[layer] = _draw_weights(layer, sizes, number)
    inputs = torch.from_numpy(arrays.pop("inputs"))
    outputs = {key: torch.from_numpy(array) for key, array in arrays.items()}
    return OfficialCase(state, inputs, outputs)


def load_drawn(module: torch.nn.Module, state: dict[str, Tensor]) -> None:
    """Load a state; it has to have every layer but the counts of batches."""
    missing, unexpected = module.load_state_dict(state, strict=False)
    assert [name for name in missing if not name.endswith("num_batches_tracked")] == []
    assert unexpected == []


def _draw_weights(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    # numpy promises that the numbers of RandomState stay the same in all versions.
    numbers = np.random.RandomState(seed).standard_normal(shape)
    if name.endswith("running_var"):
        numbers = 1 + 0.5 * np.abs(numbers)
    elif len(shape) > 1:
        numbers = numbers * (2 / np.prod(shape[1:])) ** 0.5
    else:
        numbers = 0.3 * numbers + (1 if name.endswith("weight") else 0)
    return torch.from_numpy(numbers).float()

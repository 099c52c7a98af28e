"""What training a network takes, from an outline of it: no weights are loaded, no memory is taken, nothing is computed.

Invariant: the network is built and run on torch's fake tensors, which have a shape and no numbers.
What its backward pass needs is counted as torch's autograd keeps it, not by a formula that somebody
has to keep up to date.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from asdf.networks.build import build_network, summary
from asdf.settings.sections import Sections

# Batch norm refuses to train on one utterance.
_OUTLINED = 2


@dataclass(frozen=True)
class Outline:
    """Numbers of parameters, and the bytes that the backward pass of one training example needs, in float32."""

    parameters: int
    trainable: int
    example_bytes: int


def outline(settings: Sections, architecture: str, folder: Path | None = None) -> Outline:
    """Outline the training of the network that `settings` describe.

    Args:
        architecture: of the front end, as in `front_end.architecture`: that of the weights where
            there are any.
        folder: the recipe's folder, where a user's own modules lie.

    Raises:
        AsdfError: as `build_network`.
        Exception: whatever a network raises that looks at its numbers.
    """
    front_end = replace(settings.front_end, architecture=architecture, weights=None)
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage
        return tensor

    with torch.random.fork_rng(devices=[]), FakeTensorMode():
        network = build_network(replace(settings, front_end=front_end), folder).train()
        waveforms_BT = torch.empty(_OUTLINED, settings.network.train_clip_size)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            network(waveforms_BT)
    for parameter in network.parameters():
        kept.pop(parameter.untyped_storage()._cdata, None)
    sizes = summary(network)
    saved = sum(storage.nbytes() for storage in kept.values())
    return Outline(sizes.total, sizes.trainable, saved // _OUTLINED)

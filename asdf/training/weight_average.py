"""An exponential moving average of the trained weights (`network.ema_decay`).

Invariants: the average starts at the weights before the first step, and after each optimiser step
it is `decay * average + (1 - decay) * weights`. The average is validated, saved as the network and
scored. Training continues with the weights themselves, which a checkpoint holds in a separate
entry. The host never waits for any of this.

Buffers, such as the running statistics of batch norm, are not averaged: those of the latest step
belong to both, and are moving averages themselves.

Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992; with
exponential weights as in Tarvainen and Valpola, "Mean teachers", NeurIPS 2017.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.errors import AsdfError


class WeightAverage:
    """The averages of the parameters of `network` that are trained when this is created."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self._network = network
        self._decay = decay
        self._averages: dict[nn.Parameter, Tensor] = {}
        for parameter in network.parameters():
            if parameter.requires_grad:
                self._averages[parameter] = parameter.detach().clone()

    @torch.no_grad()
    def update(self) -> None:
        """Move the averages towards the weights, after an optimiser step."""
        weights = [parameter.detach() for parameter in self._averages]
        # A few kernels for all of them. The average of a frozen weight equals it and stays.
        torch._foreach_lerp_(list(self._averages.values()), weights, 1 - self._decay)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Return a block in which the network has the averages as its weights."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, average in self._averages.items():
            # In place, since CUDA graphs and other processes' views expect the same addresses.
            before = parameter.detach().clone()
            parameter.copy_(average)
            average.copy_(before)

    def save_in(self, file: NetworkFile) -> None:
        """Store the averages as the weights of `file`, and the weights in a separate entry."""
        unaveraged: dict[str, Any] = {}
        # A state dict has a shared parameter under each of its names.
        for name, parameter in self._network.named_parameters(remove_duplicate=False):
            average = self._averages.get(parameter)
            if average is not None and name in file.state:
                unaveraged[name] = file.state[name]
                file.state[name] = average
        file.unaveraged_state = unaveraged

    @torch.no_grad()
    def restart(self) -> None:
        """Reset the averages to the network's current weights."""
        for parameter, average in self._averages.items():
            average.copy_(parameter)


@torch.no_grad()
def load_unaveraged(network: nn.Module, weights: Mapping[str, Any]) -> None:
    """Load the entry written by `WeightAverage.save_in` into the network.

    Raises:
        AsdfError: the entry is of another network; `network` is then unchanged.
    """
    parameters = dict(network.named_parameters(remove_duplicate=False))
    for name, value in weights.items():
        fits = isinstance(value, Tensor) and name in parameters
        if not fits or parameters[name].shape != value.shape:
            raise AsdfError(
                f"the checkpoint's entry of weights before averaging has {name!r}, which does not "
                "fit the network. The file is damaged: resume from another (network.resume_epoch)."
            )
    for name, value in weights.items():
        parameters[name].copy_(value)

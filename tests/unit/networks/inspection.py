"""What tests look up in a network: names and numbers of parameters, what learns, what trains."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn


def trainable_names(network: nn.Module) -> list[str]:
    return [name for name, weight in network.named_parameters() if weight.requires_grad]


def frozen_names(network: nn.Module) -> list[str]:
    return [name for name, weight in network.named_parameters() if not weight.requires_grad]


def names_with_gradient(network: nn.Module) -> list[str]:
    return [name for name, weight in network.named_parameters() if weight.grad is not None]


def names_without_gradient(network: nn.Module) -> list[str]:
    return [name for name, weight in network.named_parameters() if weight.grad is None]


def gradients_by_name(network: nn.Module) -> dict[str, torch.Tensor | None]:
    return {name: weight.grad for name, weight in network.named_parameters()}


def max_gradient(gradients: Iterable[torch.Tensor | None]) -> float:
    """The largest absolute value of any gradient; all of them have to exist."""
    largest = 0.0
    for gradient in gradients:
        assert gradient is not None
        largest = max(largest, float(gradient.abs().max()))
    return largest


def count_parameters(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def copy_state(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def any_learns(parameters: Iterable[nn.Parameter]) -> bool:
    return any(weight.requires_grad for weight in parameters)


def any_in_training(module: nn.Module) -> bool:
    return any(inner.training for inner in module.modules())


def ids(parameters: Iterable[nn.Parameter]) -> set[int]:
    return {id(weight) for weight in parameters}


def first_norm_names(prefix: str = "") -> list[str]:
    """The parameters of the batch norms that AASIST's residual blocks have and do not compute."""
    names = []
    for block in range(1, 6):
        norm = f"{prefix}encoder.{block}.0.bn1"
        names += [f"{norm}.weight", f"{norm}.bias"]
    return names


def loss_of_training(network: nn.Module, level: float, rate: float, steps: int) -> float:
    """Train a network on noise, half of it with a faint tone; return its last loss."""
    learns = [weight for weight in network.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(learns, lr=rate)
    tone_T = level * torch.sin(2 * torch.pi * 3000 / 16000 * torch.arange(4000))
    labels_B = torch.arange(8) % 2
    for _ in range(steps):
        noise_BT = level * torch.randn(8, 4000)
        _, logits_B2 = network(noise_BT + labels_B[:, None] * tone_T)
        loss = torch.nn.functional.cross_entropy(logits_B2, labels_B)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()

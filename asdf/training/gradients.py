"""The size of a step's gradient: limited by `network.gradient_clip_norm`, or only measured.

Invariant: the host does not wait; the result stays on the device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from asdf.distributed.sharding import local_part


def clip_and_measure(
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    network: nn.Module,
    limit: float | None,
) -> Tensor | None:
    """Scale the gradient down to the 2-norm `limit`; None: leave it as it is.

    Returns:
        A norm of the gradient before clipping, 0-dimensional, NaN or infinite if a number in it is.
        None with fp16's scaler and no limit: the scaler examines the gradient by itself.
    """
    if limit is not None:
        # The limit is one of the true gradient, not of that times the loss scale.
        scaler.unscale_(optimiser)
        return local_part(nn.utils.clip_grad_norm_(network.parameters(), limit))
    if scaler.is_enabled():
        return None
    return _largest_value(optimiser)


def gradient_norm(optimiser: torch.optim.Optimizer, scaler: torch.amp.GradScaler) -> Tensor:
    """Return the 2-norm of the gradient without the loss scale; 0-dimensional, on the device.

    All ranks call this together: of a divided network each has a part.
    """
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return torch.zeros((), device=parameters[0].device)
    norm = local_part(nn.utils.get_total_norm(gradients))
    if scaler.is_enabled():
        norm = norm / scaler.scale(torch.ones_like(norm))
    return norm


def _largest_value(optimiser: torch.optim.Optimizer) -> Tensor:
    """Return the largest absolute value in this rank's part of the gradient, or NaN."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    parts = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        gradient = local_part(parameter.grad)
        # A rank may hold nothing of a small parameter that is divided, which has no largest value.
        if gradient.numel():
            parts.append(gradient)
    if not parts:
        parts.append(torch.zeros(1, device=parameters[0].device))
    # Unlike a 2-norm it cannot overflow where every value is finite.
    return nn.utils.get_total_norm(parts, math.inf)

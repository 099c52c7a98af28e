"""Whether a layer may be computed in another way than by calling it."""

from __future__ import annotations

from torch import nn


def is_plain(module: nn.Module) -> bool:
    """Return whether nobody watches or changes what a module computes."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    return not any(hooks) and "forward" not in vars(module)

"""Whether a layer may be computed by other means than calling it."""

from __future__ import annotations

from torch import nn


def is_plain(module: nn.Module) -> bool:
    """Return whether a module has no hooks that watch or change its computation."""
    hooks = (module._forward_hooks, module._forward_pre_hooks)
    # A method set on the object, as by `weights_cast_together`, replaces that of the class.
    return not any(hooks) and "forward" not in vars(module)

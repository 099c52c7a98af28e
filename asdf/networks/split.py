"""A detector in two parts: the output of a frozen front end, which may be cached, and the rest.

Invariant: `FromFeatures(network)(features)` equals `network(waveforms)` for the features of these
waveforms, up to the number format of the cache. Networks for which this is not known are refused.

Shapes: B utterances.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.attached import completed
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.ssl_detector import SSLDetector


class FromFeatures(nn.Module):
    """A detector that takes cached features, for training without the front end.

    It is a module because DistributedDataParallel only handles gradients of computations in the
    `forward` of the module that it wraps.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        check_split(type(network), type(getattr(network, "front_end", None)))
        self.network = cast(SSLDetector, network)

    def forward(self, features: Tensor) -> Any:
        """Return embeddings and logits (batch, 2), or `Outputs`.

        Args:
            features: Features (batch, frames, dimension), or (batch, layers, frames, dimension).
        """
        whole: Tensor | list[Tensor] = features.float()
        if features.dim() == 4:
            whole = list(features.float().unbind(1))
        return completed(self.network, self.network.forward_features(whole))


def check_split(network_class: type[nn.Module], front_end_class: type | None = None) -> None:
    """Check that the front end's features may be cached and are the only input of the rest.

    Args:
        front_end_class: Class of the front end that the settings name; None for that of the
            network's class.

    Raises:
        UsageError: this is not the case, or not known.
    """
    name = f"front_end.cache_features = True: {network_class.__name__}"
    advice = "Set front_end.cache_features = False"
    if not issubclass(network_class, SSLDetector):
        raise UsageError(
            f"{name} has no front end of ASDF whose features could be cached. {advice}, choose "
            "another network.network_class, or derive your own from asdf.networks.SSLDetector."
        )
    front_end_class = front_end_class or network_class.front_end_class
    if not _is_cacheable(front_end_class):
        raise UsageError(
            f"{name} has the front end {front_end_class.__name__}, whose class does not set "
            f"cacheable = True: its features may change. {advice}."
        )
    for method in ("forward", "front_end_features"):
        if getattr(network_class, method) is not getattr(SSLDetector, method):
            raise UsageError(
                f"{name} overrides {method}, which training on cached features would skip. "
                f"{advice}, or move its work into the back end, or into forward_features."
            )


def feature_identity(network: SSLDetector) -> dict[str, Any]:
    """Return everything besides the waveforms that `network.front_end_features` depends on.

    Returns:
        Plain values, with digests of the weights and of the code of a user's front end.

    Raises:
        UsageError: the front end is trained, or its features may not be cached.
    """
    front_end = network.front_end
    is_known = isinstance(front_end, FrontEnd) and _is_cacheable(type(front_end))
    if not is_known or not front_end.frozen:
        raise UsageError(
            f"front_end.cache_features = True: the front end of {type(network).__name__} is not "
            "frozen, or its class does not set cacheable = True: its features may change. Set "
            "front_end.cache_features = False."
        )
    return {
        "weights": state_digest(front_end.model),
        **front_end.feature_settings(),
        **_describe_code(type(front_end)),
        # The key that caches of earlier versions use.
        "given": network.feature_kind,
        "shortest_input": network.shortest_input,
        "fixed_samples": network.fixed_samples,
    }


def state_digest(module: nn.Module) -> str:
    """Return a digest of a module's state: names, types, shapes and values."""
    return tensors_digest(module.state_dict())


def tensors_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a digest of tensors, in this order."""
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        kind = f"{name} {tensor.dtype} {tuple(tensor.shape)}\n"
        digest.update(kind.encode())
        numbers = tensor.detach().cpu().contiguous().flatten()
        # As bytes, since numpy has no bfloat16.
        digest.update(numbers.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _is_cacheable(front_end_class: type) -> bool:
    # Not inherited, since a derived class may compute something else from the same weights.
    return bool(vars(front_end_class).get("cacheable", False))


def _describe_code(front_end_class: type[FrontEnd]) -> dict[str, str]:
    """Return a digest of the module of a user's front end, which may change between two runs.

    The project's own front ends compute the same in all versions.
    """
    module = sys.modules[front_end_class.__module__]
    if module.__name__.startswith("asdf.networks."):
        return {}
    source = inspect.getsource(module)
    return {
        "front_end_class": f"{module.__name__}.{front_end_class.__qualname__}",
        "code": hashlib.sha256(source.encode()).hexdigest(),
    }

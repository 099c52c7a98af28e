"""A detector in two parts: what a frozen front end computes, which can be kept, and the rest, which learns.

Invariant: `FromFeatures(network)(features)` is `network(waveforms)` for the features of these waveforms, up to the
number format that they were kept in; networks of which this is not known are refused.

Shapes: B utterances.
"""

from __future__ import annotations

import hashlib
from typing import Any, cast

import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.front_end import Wav2Vec2FrontEnd
from asdf.networks.ssl_detector import SSLDetector


class FromFeatures(nn.Module):
    """A detector as a module that takes what `front_end_features` gave, kept: for training without the front end.

    DistributedDataParallel sees gradients only of what runs in the `forward` of the module that it wraps.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        check_split(type(network))
        self.network = cast(SSLDetector, network)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings and logits (batch, 2) of (batch, frames, dimension), or (batch, layers, frames, dimension)."""
        features = features.float()
        outputs: tuple[Tensor, Tensor] = self.network.forward_features(
            features if features.dim() == 3 else list(features.unbind(1))
        )
        return outputs


def check_split(network_class: type[nn.Module]) -> None:
    """Make sure that the class computes features with ASDF's front end, and all the rest from these alone.

    Raises:
        UsageError: it does not, or that is not known of it.
    """
    name = f"front_end.cache_features = True: {network_class.__name__}"
    advice = "Set front_end.cache_features = False"
    if not issubclass(network_class, SSLDetector):
        raise UsageError(
            f"{name} is not known to have a front end of ASDF's whose features could be kept. {advice}, choose "
            "another network.network_class, or derive your own from asdf.networks.SSLDetector."
        )
    for method in ("forward", "front_end_features"):
        if getattr(network_class, method) is not getattr(SSLDetector, method):
            raise UsageError(
                f"{name} has a {method} of its own, which training on kept features would leave out. {advice}, or "
                "move what it does into the back end, or into forward_features."
            )


def feature_identity(network: SSLDetector) -> dict[str, Any]:
    """All that `network.front_end_features` depends on beside the waveforms: plain values, weights by their digest.

    Raises:
        UsageError: the front end learns, or is another than ASDF's.
    """
    front_end: nn.Module = network.front_end
    if type(front_end) is not Wav2Vec2FrontEnd or not front_end.frozen:
        raise UsageError(
            f"front_end.cache_features = True: the front end of {type(network).__name__} is not frozen, or not ASDF's: "
            "nothing makes sure that its features stay the same. Set front_end.cache_features = False."
        )
    return {
        "weights": state_digest(front_end.model),
        "architecture": front_end.architecture.to_text(),
        "layers": front_end.layers,
        "given": network.given,
        "normalize_waveforms": front_end.normalize_waveforms,
        "shortest_input": network.shortest_input,
        "fixed_samples": network.fixed_samples,
    }


def state_digest(module: nn.Module) -> str:
    """A name for the content of the module's state: names, types, shapes and numbers."""
    digest = hashlib.sha256()
    for name, tensor in module.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()

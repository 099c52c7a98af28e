"""AntiDeepfake's detectors: a self-supervised network, mean pooling and a layer, `proj_fc`.

Invariant: the two directions are exact inverses. `proj_fc` is a linear layer for (fake, real); in
the one-class variant it is a vector for real speech, whose cosine is the score. That corresponds to
our OC-softmax loss after a linear layer whose output is not used.

Source: nii-yamagishilab/AntiDeepfake, `models/W2V.py`, `models/HBT.py`, `models/oc_softmax.py`
(layers and their names) and `models/*_configs.py` (sizes); facebookresearch/fairseq (layers of
pretraining).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from asdf.checkpoint.attached_parts import describe_loss
from asdf.checkpoint.base_weights import ANTIDEEPFAKE_FRONT_END
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.published import Layout, front_end_of, name_layers
from asdf.networks.attached import PREFIX
from asdf.networks.back_ends.linear import LinearBackEnd
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.networks.ssl_detector import SSLDetector

KIND = "SSL_Linear"
"""Our class of these detectors."""

ONE_CLASS_LOSS = "oc_softmax"
ONE_CLASS_PATH = "asdf.training.losses.OCSoftmax"
_LAYOUT = Layout("AntiDeepfake", ANTIDEEPFAKE_FRONT_END)
_WEIGHT = "proj_fc.weight"
_OUR_WEIGHT = f"back_end.{_WEIGHT}"
_OUR_BIAS = "back_end.proj_fc.bias"
_VECTOR = f"{PREFIX}weight_1E"


@dataclass(frozen=True)
class _Pretraining:
    """Sizes of pretraining layers in fairseq's network that scores do not depend on.

    Attributes:
        width: Width of the space in which targets are compared (`final_dim`).
        targets: Number of HuBERT's targets, the classes in its dictionary; None for wav2vec 2.0.
    """

    width: int
    targets: int | None = None

    def shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the layers by fairseq's names."""
        shapes: dict[str, tuple[int, ...]] = {
            "mask_emb": (architecture.dimension,),
            "final_proj.weight": (self.width, architecture.dimension),
            "final_proj.bias": (self.width,),
        }
        if self.targets is not None:
            return shapes | {"label_embs_concat": (self.targets, self.width)}
        channels = architecture.conv_layers[-1][0]
        # Two groups of 320 entries, as in all of these networks.
        return shapes | {
            "quantizer.vars": (1, 640, self.width // 2),
            "quantizer.weight_proj.weight": (640, channels),
            "quantizer.weight_proj.bias": (640,),
            "project_q.weight": (self.width, self.width),
            "project_q.bias": (self.width,),
        }


# HuBERT's dictionary has 500 clusters and four special symbols.
_PRETRAINING = {
    "wav2vec2_base": _Pretraining(256),
    "wav2vec2_xlsr_300m": _Pretraining(768),
    "wav2vec2_xlsr_1b": _Pretraining(1024),
    "wav2vec2_xlsr_2b": _Pretraining(1024),
    "hubert_large": _Pretraining(768, 504),
    "hubert_xlarge": _Pretraining(1024, 504),
}


def is_one_class(state: Mapping[str, Tensor]) -> bool:
    """Whether layers under our names have a vector for one class instead of the linear layer."""
    weight = state.get(_OUR_WEIGHT)
    return weight is not None and weight.shape[1:] == (1,) and _OUR_BIAS not in state


def split_one_class(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Split off the vector of a one-class detector as the loss's; return names of zero layers.

    The zeros are our linear layer, whose output the loss replaces.
    """
    layers = dict(state)
    vector_E1 = layers.pop(_OUR_WEIGHT)
    dimension = len(vector_E1)
    layers[_VECTOR] = vector_E1.T  # (1, E), as the loss holds it
    layers[_OUR_WEIGHT] = torch.zeros(2, dimension)
    layers[_OUR_BIAS] = torch.zeros(2)
    return layers, [_OUR_WEIGHT, _OUR_BIAS]


def one_class_entry(dimension: int) -> dict[str, object]:
    """Return the entry of a network file about the loss of a one-class detector."""
    return {"class": ONE_CLASS_PATH, "dimension": dimension, "gives_logits": True}


def has_one_class(network: nn.Module) -> bool:
    """Whether OC-softmax gives the scores of a network."""
    entry = describe_loss(network)
    return entry is not None and entry["class"] == ONE_CLASS_PATH


def antideepfake_state(network: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """Return the state dict of a network in AntiDeepfake's layout, and names of zero layers.

    Zeros replace the layers of pretraining if the front end has a size of AntiDeepfake.

    Raises:
        AsdfError: the network does not fit this layout, or their program would score it
            differently.
    """
    if not isinstance(network, SSLDetector) or not isinstance(network.back_end, LinearBackEnd):
        raise AsdfError(
            f"{type(network).__name__} cannot be written in AntiDeepfake's layout: a front end, "
            f"the mean over time and a linear layer: {KIND}."
        )
    front_end = front_end_of(network, _LAYOUT)
    if not front_end.normalize_waveforms:
        raise AsdfError(
            "AntiDeepfake's program scales every recording to zero mean and unit variance, but "
            "this network was trained with front_end.normalize_waveforms = False: its scores would "
            "differ. Choose another format of `python -m asdf export`."
        )
    layers = network.state_dict()
    if has_one_class(network):
        layers[_OUR_WEIGHT] = layers.pop(_VECTOR).T.contiguous()
        del layers[_OUR_BIAS]
    named = name_layers(layers, front_end.architecture, _LAYOUT)
    zeros = {}
    for known, pretraining in _PRETRAINING.items():
        if KNOWN[known] == front_end.architecture:
            for name, shape in pretraining.shapes(front_end.architecture).items():
                zeros[ANTIDEEPFAKE_FRONT_END + name] = torch.zeros(shape)
    filled = [name for name in zeros if name not in named]
    # The network's own layers take precedence: one that masks frames has a mask_emb.
    return zeros | named, filled

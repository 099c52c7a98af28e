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

import torch
from torch import Tensor, nn

from asdf.checkpoint.attached_parts import describe_loss
from asdf.checkpoint.base_weights import ANTIDEEPFAKE_FRONT_END
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.published import Layout, fill_pretraining, front_end_of, name_layers
from asdf.networks.attached import PREFIX
from asdf.networks.back_ends.linear import LinearBackEnd
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
    return fill_pretraining(named, front_end.architecture, ANTIDEEPFAKE_FRONT_END)

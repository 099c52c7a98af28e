"""Published detectors: what SSL_Anti-spoofing and those who built on it call the layers of our networks.

Invariant: the two directions undo each other, number by number. What a published file holds beside the network's own
layers is the front end's pretraining, which features do not depend on, and in some files a norm that is not used.

Source: the state dicts that TakHemlata/SSL_Anti-spoofing, QiShanZhang/SLSforASVspoof-2021-DF and
Liu-Tianchi/Nes2Net publish.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError
from asdf.interchange.fairseq_names import fairseq_names
from asdf.interchange.fitting import PUBLISHED_FRONT_END, groups, load_layers
from asdf.interchange.front_end_weights import MASK_EMBEDDING, standard_names
from asdf.interchange.weights_file import read_weights_file, state_dict_in
from asdf.networks.aasist import AASIST
from asdf.networks.architectures import KNOWN
from asdf.networks.nes2net import SSL_Nes2NetX
from asdf.networks.ssl_detector import SSLDetector
from asdf.networks.wav2vec2 import Wav2Vec2FrontEnd

PUBLISHED = ("SSL_AASIST", "SSL_AASIST_L", "SSL_SLS", "SSL_Nes2NetX")
_FRONT_END = "front_end.model."
_BACK_END = "back_end."
_NES2NET = "Nested_Res2Net_TDNN."
_MASK = "front_end.masking.embedding"
# The published code computes the first norm of a residual block, and then the convolution of the block's input. The
# first block has that norm only in some of its versions.
_UNUSED = "encoder.0.0.bn1."

# The layers of pretraining that the published files of this front end hold, for loaders that ask for every one.
_PRETRAINING = {
    "mask_emb": (1024,),
    "quantizer.vars": (1, 640, 384),
    "quantizer.weight_proj.weight": (640, 512),
    "quantizer.weight_proj.bias": (640,),
    "project_q.weight": (768, 768),
    "project_q.bias": (768,),
    "final_proj.weight": (768, 1024),
    "final_proj.bias": (768,),
}

_log = logging.getLogger(__name__)


def is_published(state: Mapping[str, Tensor]) -> bool:
    """Whether layers go by the names that SSL_Anti-spoofing gave them."""
    return any(name.startswith(PUBLISHED_FRONT_END) for name in state)


def without_unused(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """A published state dict without the norm whose output is thrown away, and the names of its layers."""
    used = {name: tensor for name, tensor in state.items() if not name.startswith(_UNUSED)}
    return used, [name for name in state if name.startswith(_UNUSED)]


def own_names(
    state: Mapping[str, Tensor], masked: bool = False
) -> tuple[dict[str, Tensor], list[str]]:
    """A published state dict under our names, and the names of layers that were left out.

    `ssl_model.model.*` becomes `front_end.model.*`, and all others `back_end.*`.

    Args:
        masked: whether the network masks frames in training, and so has a place for the vector of masked frames.
    """
    published = {
        name: tensor for name, tensor in state.items() if name.startswith(PUBLISHED_FRONT_END)
    }
    layers, not_used = standard_names(
        {name[len(PUBLISHED_FRONT_END) :]: t for name, t in published.items()}
    )
    left_out = [PUBLISHED_FRONT_END + name for name in not_used]
    own = {f"{_FRONT_END}{name}": tensor for name, tensor in layers.items()}
    own |= {
        _BACK_END + name.removeprefix(_NES2NET): tensor
        for name, tensor in state.items()
        if name not in published
    }
    mask = next((name for name in left_out if name.endswith(MASK_EMBEDDING)), None)
    if masked and mask:
        own[_MASK] = state[mask]
        left_out.remove(mask)
    return own, left_out


def published_state(network: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """The state dict of a network under its published names, and the names of layers that were put in as zeros.

    The published programs load strictly, so the layers of XLS-R's pretraining are put in where it is the front end.

    Raises:
        AsdfError: the network, or one of its layers, has no published name.
    """
    if not isinstance(network, SSLDetector) or type(network).__name__ not in PUBLISHED:
        kinds = ", ".join(PUBLISHED)
        raise AsdfError(
            f"{type(network).__name__} has no layout of SSL_Anti-spoofing; those that have are {kinds}."
        )
    if not isinstance(network.front_end, Wav2Vec2FrontEnd):
        raise AsdfError(
            f"{type(network.front_end).__name__} has no layout of SSL_Anti-spoofing, which is of "
            "front ends of the wav2vec 2.0 family."
        )
    state = network.state_dict()
    architecture = network.front_end.architecture
    front_end = {
        name[len(_FRONT_END) :]: tensor
        for name, tensor in state.items()
        if name.startswith(_FRONT_END)
    }
    published = {
        PUBLISHED_FRONT_END + name: tensor
        for name, tensor in fairseq_names(front_end, architecture).items()
    }
    begin = _NES2NET if isinstance(network, SSL_Nes2NetX) else ""
    for name, tensor in state.items():
        if name == _MASK:
            published[f"{PUBLISHED_FRONT_END}mask_emb"] = tensor
        elif name.startswith(_BACK_END):
            published[begin + name.removeprefix(_BACK_END)] = tensor
        elif not name.startswith(_FRONT_END):
            raise AsdfError(
                f"the layout of SSL_Anti-spoofing has no place for {name}: no learned sum of layers."
            )
    filled: list[str] = []
    if architecture == KNOWN["wav2vec2_xlsr_300m"]:
        zeros = {
            PUBLISHED_FRONT_END + name: torch.zeros(shape) for name, shape in _PRETRAINING.items()
        }
        filled = [name for name in zeros if name not in published]
        published = {**zeros, **published}
    return published, filled


def aasist_state(network: nn.Module) -> dict[str, Tensor]:
    """The state dict of raw-waveform AASIST or AASIST-L, which goes by the published names.

    Raises:
        AsdfError: it is another network.
    """
    if not isinstance(network, AASIST):
        raise AsdfError(
            f"{type(network).__name__} is not raw-waveform AASIST, so it has no layout of it."
        )
    return network.state_dict()


def load_detector_weights(network: nn.Module, path: str | Path) -> tuple[str, ...]:
    """Load a whole network's weights: its own state dict, or one of AASIST, SSL_Anti-spoofing, SLS or Nes2Net.

    Names that begin with `module.`, as DataParallel saves them, are understood. What SSL_Anti-spoofing, and SLS and
    Nes2Net after it, call `ssl_model.model.*` becomes `front_end.model.*`, and their other layers `back_end.*`.

    Returns:
        The names of layers that the file holds and the network has no use for.

    Raises:
        AsdfError: the file cannot be read, or does not fit the network layer by layer.
    """
    state, left_out = without_unused(state_dict_in(read_weights_file(path), path))
    if is_published(state):
        state, not_used = own_names(state, masked=_MASK in network.state_dict())
        left_out += not_used
    load_layers(network, state, str(path))
    if left_out:
        _log.info("left out of %s: %s", path, groups(left_out))
    return tuple(left_out)

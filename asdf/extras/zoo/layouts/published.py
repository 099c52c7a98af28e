"""Published detectors: layer names of SSL_Anti-spoofing and later programs.

Invariant: the two directions are exact inverses. Besides the network's layers, a published file
holds the front end's pretraining layers, which features do not depend on, and in some files an
unused norm.

Source: the state dicts that TakHemlata/SSL_Anti-spoofing, QiShanZhang/SLSforASVspoof-2021-DF,
Liu-Tianchi/Nes2Net, ErosRos/conformer-based-classifier-for-anti-spoofing, ductuantruong/tcm_add,
swagshaw/XLSR-Mamba, asvspoof-challenge/2021 and, on the hub, lab260 publish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from asdf.checkpoint.base_weights import (
    PUBLISHED_FRONT_END,
    PUBLISHED_FRONT_ENDS,
    SPECTRA_FRONT_END,
)
from asdf.errors import AsdfError
from asdf.extras.zoo.layouts.name_maps.known import POSITIONS, POSITIONS_HELD
from asdf.interchange.fairseq import fairseq_names
from asdf.interchange.front_end_weights import MASK_EMBEDDING, rename_front_end
from asdf.interchange.hugging_face import hugging_face_names
from asdf.networks.back_ends.conformer import TCMBackEnd, sinusoids
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
from asdf.networks.ssl_detector import SSLDetector
from asdf.networks.tuning import updated_modules

PUBLISHED = (
    "SSL_AASIST",
    "SSL_AASIST_L",
    "SSL_SLS",
    "SSL_Nes2NetX",
    "SSL_Conformer",
    "SSL_ConformerTCM",
    "SSL_Mamba",
    "SSL_SpectraAASIST",
    "SSL_SpectraAASIST3",
    "SSL_SpectraECAPA",
)
_FRONT_END = "front_end.model."
_BACK_END = "back_end."
_NES2NET = "Nested_Res2Net_TDNN."
_MASK = "front_end.masking.embedding"
# The published code computes the first norm of a residual block, and then convolves the block's
# input instead. Only some versions of the code have that norm in the first block.
UNUSED_NORM = "encoder.0.0.bn1."


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


def fill_pretraining(
    named: Mapping[str, Tensor], architecture: Architecture, prefix: str
) -> tuple[dict[str, Tensor], list[str]]:
    """Add zeros for layers of pretraining, which programs that load strictly require.

    Args:
        prefix: Prefix of the names of the front end's layers.

    Returns:
        All layers, and the names of the added ones.
    """
    zeros = {}
    for known, pretraining in _PRETRAINING.items():
        if KNOWN[known] == architecture:
            for name, shape in pretraining.shapes(architecture).items():
                zeros[prefix + name] = torch.zeros(shape)
    # The network's own layers take precedence: one that masks frames has a mask_emb.
    return {**zeros, **named}, [name for name in zeros if name not in named]


FrontEndNames = Callable[[Mapping[str, Tensor], Architecture], dict[str, Tensor]]


@dataclass(frozen=True)
class Layout:
    """Names of the parts of a detector in a published layout.

    Attributes:
        name: Name of the layout's author or program.
        front_end, back_end: Prefixes of the names of their layers.
        mask: Name of the vector of masked frames.
        front_end_names: Function that returns a front end's layers under the names after the
            prefix.
    """

    name: str
    front_end: str
    back_end: str = ""
    front_end_names: FrontEndNames = fairseq_names
    mask: str = "mask_emb"


_ANTI_SPOOFING = Layout("SSL_Anti-spoofing", PUBLISHED_FRONT_END)
# Only Nes2Net-X has the back end in a separate module.
_OF_NES2NET = Layout("SSL_Anti-spoofing", PUBLISHED_FRONT_END, _NES2NET)
_OF_SPECTRA = Layout(
    "Spectra",
    SPECTRA_FRONT_END,
    front_end_names=lambda layers, _: hugging_face_names(layers),
    mask="masked_spec_embed",
)
_LAYOUTS = {
    "SSL_Nes2NetX": _OF_NES2NET,
    "SSL_SpectraAASIST": _OF_SPECTRA,
    "SSL_SpectraAASIST3": _OF_SPECTRA,
    "SSL_SpectraECAPA": _OF_SPECTRA,
}


def layout_of(kind: str) -> Layout:
    """Return the layout in which detectors of the class `kind` are published."""
    return _LAYOUTS.get(kind, _ANTI_SPOOFING)


def front_end_prefix(state: Mapping[str, Tensor]) -> str:
    """Return what the names of a published front end's layers begin with; '' without them."""
    for prefix in PUBLISHED_FRONT_ENDS:
        if any(name.startswith(prefix) for name in state):
            return prefix
    return ""


def without(state: Mapping[str, Tensor], prefix: str) -> tuple[dict[str, Tensor], list[str]]:
    """Return a state dict without the layers with a prefix, and their names."""
    others = {name: tensor for name, tensor in state.items() if not name.startswith(prefix)}
    return others, [name for name in state if name not in others]


def rename_published(
    state: Mapping[str, Tensor], masked: bool = False
) -> tuple[dict[str, Tensor], list[str]]:
    """Return a published state dict under our names, and the names of layers left out.

    `ssl_model.model.*` or `m_ssl.model.*` becomes `front_end.model.*`, and all others `back_end.*`.

    Args:
        masked: Whether the network masks frames in training, and so has a mask vector.
    """
    front_end = {}
    back_end = {}
    prefix = front_end_prefix(state)
    for name, tensor in state.items():
        if name.startswith(prefix):
            front_end[name.removeprefix(prefix)] = tensor
        else:
            back_end[_BACK_END + name.removeprefix(_NES2NET)] = tensor
    layers, not_used = rename_front_end(front_end)
    renamed = {_FRONT_END + name: tensor for name, tensor in layers.items()}
    renamed |= back_end
    left_out = []
    for name in not_used:
        # The only layer of pretraining that training with masks uses.
        if masked and name.endswith(MASK_EMBEDDING) and _MASK not in renamed:
            renamed[_MASK] = front_end[name]
        else:
            left_out.append(prefix + name)
    return renamed, left_out


def published_state(network: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """Return the state dict of a network under its published names, and names of zero layers.

    The published programs load strictly, so layers of pretraining are filled with zeros if the
    front end is XLS-R. TCM's positions are computed.

    Raises:
        AsdfError: the network, or one of its layers, has no published name.
    """
    assert isinstance(network, SSLDetector)
    layout = layout_of(type(network).__name__)
    front_end = front_end_of(network, layout)
    named = name_layers(network.state_dict(), front_end.architecture, layout)
    if isinstance(network.back_end, TCMBackEnd):
        dimension = network.back_end.conformer.fc5.in_features
        named[POSITIONS] = sinusoids(POSITIONS_HELD, dimension).unsqueeze(0)
    if layout.front_end != PUBLISHED_FRONT_END:
        return named, []
    return fill_pretraining(named, front_end.architecture, PUBLISHED_FRONT_END)


def front_end_of(network: SSLDetector, layout: Layout) -> Wav2Vec2FrontEnd:
    """Return the front end of a network that fits `layout`.

    Raises:
        AsdfError: it is of another kind, or has layers that published programs do not have.
    """
    front_end = network.front_end
    if not isinstance(front_end, Wav2Vec2FrontEnd):
        raise AsdfError(
            f"{type(front_end).__name__} cannot be written in the layout of {layout.name}, which "
            "needs a front end of the wav2vec 2.0 family."
        )
    check_nothing_added(network, layout.name)
    if front_end.layers < front_end.encoder_layers:
        raise AsdfError(
            f"programs for the layout of {layout.name} read the last layer of the front end, but "
            f"this network reads layer {front_end.layers} of {front_end.encoder_layers} "
            "(front_end.layer): its scores would differ."
        )
    return front_end


def check_nothing_added(network: nn.Module, layout: str) -> None:
    """Refuse a network with parts that a layout does not have.

    Raises:
        AsdfError: it has updates that are not merged.
    """
    if next(updated_modules(network), None) is not None:
        raise AsdfError(
            f"the layout of {layout} has no layers for the network's updates (lora.rank), which "
            "are not merged into its weights: without them its scores would differ. Choose "
            "another format of `python -m asdf export`."
        )


def name_layers(
    state: Mapping[str, Tensor], architecture: Architecture, layout: Layout
) -> dict[str, Tensor]:
    """Return layers under the names of `layout`, from ours.

    Raises:
        AsdfError: a layer has no name in it.
    """
    front_end = {}
    others = {}
    for name, tensor in state.items():
        if name.startswith(_FRONT_END):
            front_end[name.removeprefix(_FRONT_END)] = tensor
        elif name == _MASK:
            others[layout.front_end + layout.mask] = tensor
        elif name.startswith(_BACK_END):
            others[layout.back_end + name.removeprefix(_BACK_END)] = tensor
        else:
            raise AsdfError(
                f"the layout of {layout.name} has no layer for {name}: it has no learned sum "
                "of layers."
            )
    layers = layout.front_end_names(front_end, architecture)
    published = {layout.front_end + name: tensor for name, tensor in layers.items()}
    return published | others

"""Names of layers in published detectors, in both directions, and their files as `export` writes.

Invariant: the two directions are exact inverses. Besides the network's layers, a published file
holds the front end's pretraining layers, which features do not depend on, and in some files an
unused norm. AntiDeepfake's `proj_fc` is a linear layer for (fake, real); in the one-class variant
it is a vector for real speech, whose cosine is the score. That corresponds to our OC-softmax loss
after a linear layer whose output is not used.

Source: the state dicts that TakHemlata/SSL_Anti-spoofing, QiShanZhang/SLSforASVspoof-2021-DF,
Liu-Tianchi/Nes2Net, ErosRos/conformer-based-classifier-for-anti-spoofing, ductuantruong/tcm_add,
swagshaw/XLSR-Mamba, asvspoof-challenge/2021 and, on the hub, lab260 publish;
nii-yamagishilab/AntiDeepfake, `models/W2V.py`, `models/HBT.py`, `models/oc_softmax.py` (layers and
their names) and `models/*_configs.py` (sizes); facebookresearch/fairseq (layers of pretraining).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from asdf.checkpoint.attached_parts import describe_loss
from asdf.checkpoint.base_weights import (
    ANTIDEEPFAKE_FRONT_END,
    PUBLISHED_FRONT_END,
    PUBLISHED_FRONT_ENDS,
    SPECTRA_FRONT_END,
)
from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import write_safetensors
from asdf.checkpoint.weights_file import write_weights_file
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.classifier_writing import write_classifier
from asdf.extras.zoo.layouts.name_maps import (
    DF_ARENA,
    POSITIONS,
    NameMap,
    name_maps_by_kind,
    stored_positions,
)
from asdf.extras.zoo.networks.classes import ClassSizes
from asdf.interchange.fairseq import fairseq_names
from asdf.interchange.front_end_weights import MASK_EMBEDDING, rename_front_end
from asdf.interchange.hugging_face import hugging_face_names
from asdf.networks.aasist import AASIST
from asdf.networks.attached import PREFIX, describe_heads, loss_of
from asdf.networks.back_ends.conformer import TCMBackEnd
from asdf.networks.back_ends.linear import LinearBackEnd
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.networks.front_ends.encoder_layers import split_attention_layers
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.spectral import SpectralFrontEnd, choose_sizes
from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
from asdf.networks.rawnet2 import RawNet2
from asdf.networks.ssl_detector import SSLDetector
from asdf.networks.tuning import updated_modules
from asdf.settings.sections import FRONT_ENDS, Sections, Spectrum, assign

PUBLISHED = (
    *("SSL_AASIST", "SSL_AASIST_L", "SSL_SLS", "SSL_Nes2NetX", "SSL_Conformer"),
    *("SSL_ConformerTCM", "SSL_Mamba"),
    *("SSL_SpectraAASIST", "SSL_SpectraAASIST3", "SSL_SpectraECAPA"),
)
KIND = "SSL_Linear"
"""Our class of AntiDeepfake's detectors."""

ONE_CLASS_LOSS = "oc_softmax"
ONE_CLASS_PATH = "asdf.training.losses.OCSoftmax"
_FRONT_END = "front_end.model."
_BACK_END = "back_end."
_NES2NET = "Nested_Res2Net_TDNN."
_MASK = "front_end.masking.embedding"
_WEIGHT, _BIAS = "back_end.proj_fc.weight", "back_end.proj_fc.bias"
_VECTOR = f"{PREFIX}weight_1E"
# The published code computes the first norm of a residual block, and then convolves the block's
# input instead. Only some versions of the code have that norm in the first block.
UNUSED_NORM = "encoder.0.0.bn1."
# Networks whose layers have the published names.
_NAMED_AS_PUBLISHED = (AASIST, RawNet2)
# Networks of the layouts of single programs.
_KINDS: dict[str, tuple[str, ...]] = {
    "ssl_anti_spoofing": PUBLISHED,
    "aasist": ("AASIST", "AASIST_L"),
    "rawnet2": ("RawNet2",),
    "antideepfake": (KIND,),
    "df_arena": (DF_ARENA.kind,),
}
# Width of the space in which targets of pretraining are compared (`final_dim`), and the number of
# HuBERT's targets: 500 clusters and four special symbols.
_PRETRAINING = {
    "wav2vec2_base": (256, None),
    "wav2vec2_xlsr_300m": (768, None),
    "wav2vec2_xlsr_1b": (1024, None),
    "wav2vec2_xlsr_2b": (1024, None),
    "hubert_large": (768, 504),
    "hubert_xlarge": (1024, 504),
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
    shapes: dict[str, tuple[int, ...]] = {}
    for known, (width, targets) in _PRETRAINING.items():
        if KNOWN[known] != architecture:
            continue
        shapes |= {
            "mask_emb": (architecture.dimension,),
            "final_proj.weight": (width, architecture.dimension),
            "final_proj.bias": (width,),
        }
        if targets is not None:
            shapes["label_embs_concat"] = (targets, width)
            continue
        # Two groups of 320 entries, as in all of these networks.
        shapes |= {
            "quantizer.vars": (1, 640, width // 2),
            "quantizer.weight_proj.weight": (640, architecture.conv_layers[-1][0]),
            "quantizer.weight_proj.bias": (640,),
            "project_q.weight": (width, width),
            "project_q.bias": (width,),
        }
    zeros = {prefix + name: torch.zeros(shape) for name, shape in shapes.items()}
    # The network's own layers take precedence: one that masks frames has a mask_emb.
    return {**zeros, **named}, [name for name in zeros if name not in named]


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
    front_end_names: Callable[[Mapping[str, Tensor], Architecture], dict[str, Tensor]] = (
        fairseq_names
    )
    mask: str = "mask_emb"


_ANTI_SPOOFING = Layout("SSL_Anti-spoofing", PUBLISHED_FRONT_END)
_ANTIDEEPFAKE = Layout("AntiDeepfake", ANTIDEEPFAKE_FRONT_END)
_OF_SPECTRA = Layout(
    "Spectra",
    SPECTRA_FRONT_END,
    front_end_names=lambda layers, _: hugging_face_names(layers),
    mask="masked_spec_embed",
)
_LAYOUTS = {
    # Only Nes2Net-X has the back end in a separate module.
    "SSL_Nes2NetX": Layout("SSL_Anti-spoofing", PUBLISHED_FRONT_END, _NES2NET),
    **{kind: _OF_SPECTRA for kind in PUBLISHED if kind.startswith("SSL_Spectra")},
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
    renamed = {**{_FRONT_END + name: tensor for name, tensor in layers.items()}, **back_end}
    left_out = []
    for name in not_used:
        # The only layer of pretraining that training with masks uses.
        if masked and name.endswith(MASK_EMBEDDING) and _MASK not in renamed:
            renamed[_MASK] = front_end[name]
        else:
            left_out.append(prefix + name)
    return renamed, left_out


def is_one_class(state: Mapping[str, Tensor]) -> bool:
    """Whether layers under our names have a vector for one class instead of the linear layer."""
    weight = state.get(_WEIGHT)
    return weight is not None and weight.shape[1:] == (1,) and _BIAS not in state


def split_one_class(state: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
    """Split off the vector of a one-class detector as the loss's; return names of zero layers.

    The zeros are our linear layer, whose output the loss replaces.
    """
    layers = dict(state)
    vector_E1 = layers.pop(_WEIGHT)
    layers[_VECTOR] = vector_E1.T  # (1, E), as the loss holds it
    layers[_WEIGHT] = torch.zeros(2, len(vector_E1))
    layers[_BIAS] = torch.zeros(2)
    return layers, [_WEIGHT, _BIAS]


def one_class_entry(dimension: int) -> dict[str, object]:
    """Return the entry of a network file about the loss of a one-class detector."""
    return {"class": ONE_CLASS_PATH, "dimension": dimension, "gives_logits": True}


def has_one_class(network: nn.Module) -> bool:
    """Whether OC-softmax gives the scores of a network."""
    entry = describe_loss(network)
    return entry is not None and entry["class"] == ONE_CLASS_PATH


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
    """Refuse a network with updates that are not merged, which no layout has."""
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
    return {**{layout.front_end + name: tensor for name, tensor in layers.items()}, **others}


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
        named[POSITIONS] = stored_positions(network.back_end.frame_dimension)
    if layout.front_end != PUBLISHED_FRONT_END:
        return named, []
    return fill_pretraining(named, front_end.architecture, PUBLISHED_FRONT_END)


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
    front_end = front_end_of(network, _ANTIDEEPFAKE)
    if not front_end.normalize_waveforms:
        raise AsdfError(
            "AntiDeepfake's program scales every recording to zero mean and unit variance, but "
            "this network was trained with front_end.normalize_waveforms = False: its scores would "
            "differ. Choose another format of `python -m asdf export`."
        )
    layers = network.state_dict()
    if has_one_class(network):
        layers[_WEIGHT] = layers.pop(_VECTOR).T.contiguous()
        del layers[_BIAS]
    named = name_layers(layers, front_end.architecture, _ANTIDEEPFAKE)
    return fill_pretraining(named, front_end.architecture, ANTIDEEPFAKE_FRONT_END)


def named_state(network: nn.Module) -> dict[str, Tensor] | None:
    """Return the state dict of a network in its layout; None without a map of names.

    Raises:
        AsdfError: the network has parts, or settings, that its authors' program does not support.
    """
    name_map = name_maps_by_kind().get(type(network).__name__)
    if name_map is None:
        return None
    _check_features(name_map, network)
    named: dict[str, Tensor] = {}
    encoder = {}
    for name, tensor in network.state_dict().items():
        if name_map.front_end and name.startswith(_FRONT_END):
            encoder[name.removeprefix(_FRONT_END)] = tensor
            continue
        if name_map.front_end and name == _MASK:
            named[name_map.front_end + MASK_EMBEDDING[0]] = tensor
            continue
        theirs = name_map.their_name(name)
        if theirs is None:
            raise AsdfError(f"the layout of {name_map.name} has no layer for {name}.")
        conversion = name_map.conversions.get(name)
        named[theirs] = conversion.to_theirs(tensor) if conversion else tensor
    if name_map.front_end:
        assert isinstance(network, SSLDetector)
        named |= _encoder_layers(name_map, network, encoder)
        if name_map.computed is not None:
            # The network's own layers take precedence: one that masks frames has the mask vector.
            named = {**name_map.computed(network), **named}
    layers = {**named, **name_map.constants()}
    return {name_map.wrapped_in + name: tensor for name, tensor in layers.items()}


def _check_features(name_map: NameMap, network: nn.Module) -> None:
    """Refuse a network with other features than the program computes."""
    kind = name_map.settings.get("front_end.front_end_class")
    kinds = (kind,) if kind else name_map.front_ends
    if not kinds:
        return
    front_end = getattr(network, "front_end", None)
    assert isinstance(front_end, FrontEnd)
    check_nothing_added(network, name_map.name)
    published = Sections()
    assign(published, name_map.settings)
    is_kind = type(front_end).__name__ in [FRONT_ENDS[each].rpartition(".")[2] for each in kinds]
    if is_kind and _is_as(front_end, published.spectrum):
        return
    raise AsdfError(
        f"{name_map.name}'s program computes features as with front_end.front_end_class = "
        f"{' or '.join(map(repr, kinds))} and the settings of features as `import` sets them, but "
        "this network's differ. Choose another format of `python -m asdf export`."
    )


def _is_as(front_end: FrontEnd, published: Spectrum) -> bool:
    """Whether features are those of the `published` settings."""
    if front_end.normalize_waveforms or front_end.layers < front_end.encoder_layers:
        return False
    if not isinstance(front_end, SpectralFrontEnd):
        return not front_end.repeats_last_frame
    sizes = asdict(front_end.sizes)
    theirs, ours = asdict(published), asdict(front_end.sections.spectrum)
    is_same = all(theirs[name] == value for name, value in ours.items() if name not in sizes)
    return is_same and front_end.sizes == choose_sizes(published, front_end.usual)


def _encoder_layers(
    name_map: NameMap, network: SSLDetector, encoder: dict[str, Tensor]
) -> dict[str, Tensor]:
    front_end = front_end_of(network, Layout(name_map.name, name_map.front_end))
    architecture = front_end.architecture
    repeats = bool(name_map.settings.get("front_end.repeat_last_frame"))
    for setting, is_so, has_to in (
        ("front_end.repeat_last_frame", front_end.repeats_last_frame, repeats),
        (
            "front_end.normalize_waveforms",
            front_end.normalize_waveforms,
            name_map.scales(architecture),
        ),
    ):
        if is_so != has_to:
            raise AsdfError(
                f"programs for the layout of {name_map.name} compute as with {setting} = {has_to}, "
                f"but this network was built with {is_so}: its scores would differ. Choose another "
                "format of `python -m asdf export`."
            )
    return name_map.encoder_names(split_attention_layers(encoder), architecture)


def authors_state(network: nn.Module) -> tuple[dict[str, Tensor], list[str]]:
    """Return the state dict for the authors' program, and names of zero layers in it.

    Raises:
        AsdfError: the network was not published, or has parts that the authors' does not have.
    """
    kind = type(network).__name__
    if isinstance(network, _NAMED_AS_PUBLISHED):
        return network.state_dict(), []
    if kind == KIND:
        return antideepfake_state(network)
    # A user's class may have such a name.
    if kind in PUBLISHED and isinstance(network, SSLDetector):
        return published_state(network)
    named = named_state(network)
    if named is not None:
        return named, []
    classes = [each.__name__ for each in _NAMED_AS_PUBLISHED]
    known = ", ".join([*classes, *PUBLISHED, KIND, *name_maps_by_kind()])
    raise AsdfError(
        f"{kind} has no published layout. Networks with one: {known}. The formats safetensors and "
        "hub support any network."
    )


def write_published(layout: str, out: Path, network: nn.Module, file: NetworkFile) -> str:
    """Write a network in the layout of a published program; return notes for the user, or ''.

    Raises:
        UsageError: the layout has no place for a part of the network.
        AsdfError: the network is of another kind, or the file cannot be written.
    """
    loss = loss_of(network)
    has_layer = layout in ("antideepfake", "published") and has_one_class(network)
    if loss is not None and not has_layer:
        raise UsageError(
            f"the network was trained with {type(loss).__name__}, whose layers compute its scores, "
            f"and the format {layout} cannot store them. Export it as onnx, torchscript, "
            "safetensors or hub."
        )
    for head in describe_heads(network):
        raise UsageError(
            f"the network has {head}, which the format {layout} cannot store. Export it as "
            "safetensors or hub, or as onnx or torchscript for utterance scores only."
        )
    if layout == "transformers_classifier":
        settings = file.to_sections()
        write_classifier(out, network, settings)
        sizes = ClassSizes.of(settings)
        named = [sizes.classifier_classes[number] for number in sizes.classifier_bona_fide]
        return f"its classes keep their order and names; bona fide: {', '.join(named)}"
    kind = type(network).__name__
    kinds = _KINDS.get(layout, (kind,))
    # A class derived from one of them has its layers.
    if not any(base.__name__ in kinds for base in type(network).__mro__):
        raise AsdfError(f"{kind} has no layout {layout}. Networks with it: {', '.join(kinds)}.")
    state, filled = authors_state(network)
    name_map = name_maps_by_kind().get(kind)
    # A safetensors file cannot store a key.
    key = name_map.nested_in if name_map else ""
    if out.suffix == ".safetensors":
        write_safetensors(out, state, {"format": "pt"})
    else:
        write_weights_file(out, {key: state} if key else state)
    if layout == "df_arena":
        return (
            "the file does not include DF-Arena's config.json and code: put it in a copy of their "
            "repository"
        )
    if filled:
        return (
            f"filled with zeros, for programs that load strictly: {len(filled)} layers used only "
            "in pretraining the front end"
        )
    # Scores do not depend on them, but a program that loads strictly requires them.
    lacks_layers = name_map is not None and name_map.front_end and name_map.computed is None
    if lacks_layers or layout in ("ssl_anti_spoofing", "antideepfake"):
        return "layers used only in pretraining the front end are missing: load with strict=False"
    return ""

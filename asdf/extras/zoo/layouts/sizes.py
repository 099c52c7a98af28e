"""Settings of a detector that follow from the shapes of its layers.

Invariant: what shapes do not determine is the published value, or an error that names the setting
to choose; nothing is guessed silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.errors import AsdfError
from asdf.extras.zoo.networks.spectra import has_even_knots
from asdf.extras.zoo.settings import sizes_of
from asdf.interchange.front_end_weights import matching_architecture
from asdf.networks.aasist import AASIST_L
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.networks.front_ends.transformers_config import config_text
from asdf.networks.interface import NetworkSections

ARCHITECTURE = "front_end.architecture"
SHAPES = "by the shapes of the layers"
FRONT_END = "front_end.model."
_BACK_END = "back_end."
_CLASS = "front_end.front_end_class"
_BLOCK = "back_end.Build_in_Res2Nets."
_MAMBA_BLOCK = "conformer.forward_layers."
_CONFORMER_BLOCK = "conformer.encoder_blocks."
# Layers that identify a class, more specific classes first.
_MARKS: dict[str, set[str]] = {
    "AASIST": {"GAT_layer_S.att_proj.weight", "master1"},
    "SSL_SLS": {"fc0.weight", "fc1.weight", "fc3.weight"},
    "SSL_Nes2NetX": {"Build_in_Res2Nets.0.conv1.weight"},
    "SSL_ConformerTCM": {
        "conformer.class_token",
        f"{_CONFORMER_BLOCK}0.post_norm.weight",
        f"{_CONFORMER_BLOCK}0.attn.fn.pos_embed",
    },
    "SSL_Conformer": {"conformer.class_token", f"{_CONFORMER_BLOCK}0.post_norm.weight"},
    "SSL_Mamba": {"conformer.norm_f.weight", f"{_MAMBA_BLOCK}0.mixer.A_log"},
    "SSL_SpectraAASIST3": {"aasist.branch4.master", "aasist.out_layer.spline_weight"},
    "SSL_SpectraAASIST": {"aasist.branch4.master", "aasist.out_layer.weight"},
    "SSL_SpectraECAPA": {"bridge.mlp.0.weight", "ecapa_tdnn.fc6.weight"},
    "RawNet2": {"bn_before_gru.weight", "fc_attention0.0.weight", "fc2_gru.weight"},
    "SSL_Linear": {"proj_fc.weight"},
}
# As in all base and large networks; larger ones have more, and are identified by their shapes.
_HEAD_SIZE = 64


@dataclass(frozen=True)
class SettingFromFile:
    """The value of a setting that follows from a file's layers, and its origin.

    Attributes:
        name: Full name of the setting, such as 'back_end.sls_hidden'.
    """

    name: str
    value: Any
    reason: str

    def describe(self) -> str:
        return f"{self.name} = {self.value!r}, {self.reason}"


Sizes = list[SettingFromFile]


def class_of_layers(state: Mapping[str, Tensor]) -> str | None:
    """Return our class with these layers, by its back end's; None if there is none."""
    names = {name.removeprefix(_BACK_END): name for name in state}
    kinds = (kind for kind, marks in _MARKS.items() if names.keys() >= marks)
    kind = next(kinds, None)
    if kind == "AASIST":
        # AASIST and AASIST-L have the same layer names but different widths.
        width = state[names["master1"]].shape[-1:]
        kind = "AASIST_L" if width == AASIST_L.sizes.gat_dims[:1] else "AASIST"
        # LL maps a front end's features to AASIST's width; raw-waveform AASIST has a sinc filter.
        return f"SSL_{kind}" if "LL.weight" in names else kind
    return kind


def find_architecture(path: Path, state: Mapping[str, Tensor]) -> str:
    """Return the known architecture whose layers have the shapes of the front end's.

    Raises:
        AsdfError: there is none; the message proposes one.
    """
    layers = {}
    for name, tensor in state.items():
        if name.startswith(FRONT_END):
            layers[name.removeprefix(FRONT_END)] = tensor
    architecture = matching_architecture(layers, KNOWN["wav2vec2_xlsr_300m"])
    shapes = {name: tensor.shape for name, tensor in layers.items()}
    if architecture.shapes() == shapes:
        return architecture.to_text()
    proposal = _guess_architecture(layers).to_text()
    raise AsdfError(
        f"{path} has a front end of unknown sizes; shapes show neither the number of attention "
        f"heads nor the order of norms. Set {ARCHITECTURE} to a name or a literal. The shapes "
        f'suggest:\n{ARCHITECTURE}="{proposal}"'
    )


def back_end_sizes(kind: str, state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    """Return settings of the back end of the class `kind`.

    Args:
        settings: Settings with the front end's architecture, and the user's choices.

    Raises:
        ValueError, KeyError, IndexError: the layers have impossible shapes for this back end.
    """
    return _SIZES[kind](state, settings) if kind in _SIZES else []


def _sls_sizes(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    architecture = Architecture.from_text(settings.front_end.architecture)
    hidden, inputs = state["back_end.fc1.weight"].shape
    # SLS uses the maxima of squares of 3 frames and 3 features.
    pooled = inputs // max(architecture.dimension // 3, 1)
    # The user's own or the published length is used if it gives the number of frames of fc1.
    samples = settings.back_end.sls_samples
    reason = "as published"
    if architecture.frames(samples) // 3 != pooled:
        # 960 lengths in samples are pooled to the same number of frames; the shortest is used.
        samples = architecture.min_samples(3 * max(pooled, 1))
        reason = f"the shortest length that gives the {pooled} times it reads"
    return [
        SettingFromFile("back_end.sls_samples", samples, reason),
        SettingFromFile("back_end.sls_hidden", hidden, SHAPES),
    ]


def _nes2net_sizes(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    blocks = set()
    convolutions = 0
    for name in state:
        if name.startswith(_BLOCK):
            blocks.add(name.removeprefix(_BLOCK).partition(".")[0])
        if name.startswith(f"{_BLOCK}0.convs.") and name.endswith(".weight"):
            convolutions += 1
    # The last part of each split is passed on without a layer.
    splits = (len(blocks) + 1, convolutions + 1)
    width = state[f"{_BLOCK}0.conv1.weight"].shape[0]
    squeezed = state[f"{_BLOCK}0.se.se.1.weight"].shape[0]
    # A damaged file may have a size of 0.
    squeeze = max(1, width // max(squeezed, 1))
    has_attention = "back_end.pooling.linear1.weight" in state
    pooling = "attentive" if has_attention else "mean"
    dilation = settings.back_end.nes2net_dilation
    return [
        SettingFromFile("back_end.nes2net_splits", splits, SHAPES),
        SettingFromFile("back_end.nes2net_squeeze", squeeze, SHAPES),
        SettingFromFile("back_end.nes2net_pooling", pooling, SHAPES),
        SettingFromFile("back_end.nes2net_dilation", dilation, "as published; no shape shows it"),
    ]


def _conformer_sizes(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    block = f"{_BACK_END}{_CONFORMER_BLOCK}"
    attention = f"{block}0.attn.fn."
    dimension = state["back_end.conformer.class_token"].shape[1]
    if f"{attention}pos_embed" in state:
        heads = state[f"{attention}pos_embed"].shape[1]
    else:
        # Its embeddings of distances have the width of a head.
        heads = dimension // max(state[f"{attention}rel_pos_emb.weight"].shape[1], 1)
    blocks = set()
    for name in state:
        if name.startswith(block):
            blocks.add(name.removeprefix(block).partition(".")[0])
    kernel = state[f"{block}0.conv.net.4.conv.weight"].shape[2]
    return [
        SettingFromFile("back_end.conformer_dimension", dimension, SHAPES),
        SettingFromFile("back_end.conformer_blocks", len(blocks), SHAPES),
        SettingFromFile("back_end.conformer_heads", heads, SHAPES),
        SettingFromFile("back_end.conformer_kernel", kernel, SHAPES),
    ]


def _mamba_sizes(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    column = f"{_BACK_END}{_MAMBA_BLOCK}"
    blocks = set()
    for name in state:
        if name.startswith(column):
            blocks.add(name.removeprefix(column).partition(".")[0])
    states = state[f"{column}0.mixer.A_log"].shape[1]
    dimension = len(state["back_end.conformer.norm_f.weight"])
    return [
        SettingFromFile("back_end.mamba_dimension", dimension, SHAPES),
        SettingFromFile("back_end.mamba_blocks", len(blocks), SHAPES),
        SettingFromFile("back_end.mamba_states", states, SHAPES),
    ]


def _check_knots(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    """Refuse splines whose knots were moved, as in no published file.

    Raises:
        AsdfError: a layer has such knots.
    """
    for name, tensor in state.items():
        if name.endswith(".grid") and not (tensor.dim() == 2 and has_even_knots(tensor)):
            raise AsdfError(
                f"the layer {name.removeprefix(_BACK_END)} has splines whose knots are not evenly "
                "spaced. Its network cannot be rebuilt: only the authors' knots are supported."
            )
    return []


def _mhfa_sizes(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    heads = state["back_end.att_head.weight"].shape[0]
    compression = state["back_end.cmp_linear_k.weight"].shape[0]
    embedding = state["back_end.pooling_fc.weight"].shape[0]
    return [
        SettingFromFile("back_end.mhfa_heads", heads, SHAPES),
        SettingFromFile("back_end.mhfa_compression", compression, SHAPES),
        SettingFromFile("back_end.mhfa_embedding", embedding, SHAPES),
    ]


def _superb_sizes(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    projection = state["back_end.projector.weight"].shape[0]
    return [SettingFromFile("back_end.classifier_projection", projection, SHAPES)]


def _mlp_sizes(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    """Return the layers of DeepFense's MLP; each has an activation without parameters."""
    block = f"{_BACK_END}projection_block."
    widths = []
    for name, tensor in state.items():
        # Linear maps; norms have weights of one dimension.
        if name.startswith(block) and name.endswith(".weight") and tensor.dim() == 2:
            widths.append(tensor.shape[0])
    norms = {f"{block}1.bn.weight": "batch", f"{block}1.weight": "layer"}
    present = [norm for name, norm in norms.items() if name in state and state[name].dim() == 1]
    activation = sizes_of(settings.back_end).deepfense_activation
    return [
        SettingFromFile("back_end.deepfense_layers", tuple(widths), SHAPES),
        SettingFromFile("back_end.deepfense_norm", (*present, "none")[0], SHAPES),
        SettingFromFile(
            "back_end.deepfense_activation", activation, "as published; no shape shows it"
        ),
    ]


def _rawgat_fusion(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    width = state["GAT_layer3.att_proj.weight"].shape[1]
    name = "back_end.rawgat_fusion"
    if width == 2 * len(state["GAT_layer1.bn.weight"]):
        return [SettingFromFile(name, "cat", SHAPES)]
    others = f"as published; no shape shows it: for the sum of graphs, {name}=add"
    return [SettingFromFile(name, "mul", others)]


# The first layer that processes the maps, by our classes.
_MAP_LAYERS = {
    "SSL_MesoNet": "Incption1_conv1.weight",
    "SSL_SpecRNet": "block0.0.conv1.weight",
    "SSL_MapLCNN": "m_transform.0.weight",
}


def _map_sizes(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    """Return the settings of the maps for a network of Whisper-MesoNet's program."""
    kind = settings.network.network_class.rpartition(".")[2]
    maps = state[_BACK_END + _MAP_LAYERS[kind]].shape[1]
    has_encoder = any(name.startswith(FRONT_END) for name in state)
    sizes = [_cepstra_of(kind, has_encoder, maps, settings)]
    if kind == "SSL_MesoNet":
        pooled = state["back_end.fc1.weight"].shape[1]
        sizes.append(SettingFromFile("back_end.mesonet_pooled", pooled, SHAPES))
    if has_encoder:
        sizes.append(SettingFromFile(ARCHITECTURE, _whisper_config(state), SHAPES))
    return sizes


def _cepstra_of(
    kind: str, has_encoder: bool, maps: int, settings: NetworkSections
) -> SettingFromFile:
    """Return the front end of a network of Whisper-MesoNet's program.

    Raises:
        KeyError: no front end has so many maps.
        AsdfError: the layers do not determine which cepstra it computes.
    """
    ends = {(True, 1): "transformers", (True, 2): "whisper", (False, 1): "decibel"}
    end = ends[has_encoder, maps]
    if end == "transformers":
        return SettingFromFile(_CLASS, end, SHAPES)
    known = [f"{end}_{cepstra}" for cepstra in ("lfcc", "mfcc")]
    chosen = settings.front_end.front_end_class
    if chosen in known:
        return SettingFromFile(_CLASS, chosen, "as chosen")
    if kind == "SSL_MesoNet" and has_encoder:
        reason = f"as of the one on the hub; no layer shows it: for LFCCs, {_CLASS}={known[0]}"
        return SettingFromFile(_CLASS, known[1], reason)
    raise AsdfError(
        "its layers do not show whether it uses LFCCs or MFCCs; its authors published both. State "
        f"it after the command: {_CLASS}={known[0]} or {_CLASS}={known[1]}. Its training "
        "configuration calls it frontend_algorithm."
    )


def _whisper_config(state: Mapping[str, Tensor]) -> str:
    """Return the configuration of a Whisper encoder, whose heads all have 64 values."""
    dimension, bands, _ = state[f"{FRONT_END}conv1.weight"].shape
    feed_forward = [name for name in state if name.endswith(".fc1.bias") and "layers" in name]
    return config_text(
        {
            "model_type": "whisper",
            "d_model": dimension,
            "encoder_attention_heads": dimension // _HEAD_SIZE,
            "encoder_ffn_dim": len(state[feed_forward[0]]),
            "encoder_layers": len(feed_forward),
            "max_source_positions": len(state[f"{FRONT_END}embed_positions.weight"]),
            "num_mel_bins": bands,
        }
    )


def _rawnet2_sizes(state: Mapping[str, Tensor], settings: NetworkSections) -> Sizes:
    layers = [name for name in state if name.startswith("gru.weight_hh_l")]
    embedding, units = state["fc1_gru.weight"].shape
    taps = settings.back_end.rawnet2_taps
    return [
        SettingFromFile("back_end.rawnet2_filters", state["first_bn.weight"].shape[0], SHAPES),
        SettingFromFile("back_end.rawnet2_channels", state["bn_before_gru.bias"].shape[0], SHAPES),
        SettingFromFile("back_end.rawnet2_layers", len(layers), SHAPES),
        SettingFromFile("back_end.rawnet2_recurrent", units, SHAPES),
        SettingFromFile("back_end.rawnet2_embedding", embedding, SHAPES),
        SettingFromFile("back_end.rawnet2_taps", taps, "as published; no shape shows it"),
    ]


_SIZES: dict[str, Callable[[Mapping[str, Tensor], NetworkSections], Sizes]] = {
    "SSL_SLS": _sls_sizes,
    "SSL_Nes2NetX": _nes2net_sizes,
    "SSL_Conformer": _conformer_sizes,
    "SSL_ConformerTCM": _conformer_sizes,
    "SSL_Mamba": _mamba_sizes,
    "SSL_SpectraAASIST3": _check_knots,
    "SSL_WeDefenseMHFA": _mhfa_sizes,
    "SSL_SUPERB": _superb_sizes,
    "RawGAT_ST": _rawgat_fusion,
    "SSL_DeepFenseNes2Net": _nes2net_sizes,
    "SSL_DeepFenseMLP": _mlp_sizes,
    "SSL_DeepFenseTCM": _conformer_sizes,
    "SSL_MesoNet": _map_sizes,
    "SSL_SpecRNet": _map_sizes,
    "SSL_MapLCNN": _map_sizes,
    "RawNet2": _rawnet2_sizes,
}


def _guess_architecture(layers: Mapping[str, Tensor]) -> Architecture:
    """Guess an architecture with the usual strides, heads of 64 values and order of norms."""
    convolutions = _guess_convolutions(layers)
    feed_forward = [name for name in layers if name.endswith("intermediate_dense.bias")]
    position = layers.get(
        "encoder.transformer.pos_conv_embed.conv.parametrizations.weight.original1"
    )
    if not convolutions or not feed_forward or position is None or position.dim() != 3:
        # A guess is impossible: return a literal whose numbers the user replaces.
        return KNOWN["tiny"]
    dimension, channels, kernel = position.shape
    layer_norm = "feature_extractor.conv_layers.1.layer_norm.weight" in layers
    return Architecture(
        conv_layers=tuple(convolutions),
        extractor_mode="layer_norm" if layer_norm else "group_norm",
        conv_bias="feature_extractor.conv_layers.0.conv.bias" in layers,
        dimension=dimension,
        layers=len(feed_forward),
        heads=_first_divisor(dimension, (dimension // _HEAD_SIZE, 4, 2, 1)),
        feed_forward=layers[feed_forward[0]].shape[0],
        # In most published networks the norms of stem and encoder correspond like this.
        layer_norm_first=layer_norm,
        pos_conv_kernel=kernel,
        pos_conv_groups=_first_divisor(dimension, (dimension // max(channels, 1), 1)),
    )


def _guess_convolutions(layers: Mapping[str, Tensor]) -> list[tuple[int, int, int]]:
    """Return channels, kernel and usual stride of each convolution of the stem."""
    convolutions: list[tuple[int, int, int]] = []
    name = "feature_extractor.conv_layers.0.conv.weight"
    while name in layers:
        channels, _, kernel = layers[name].shape
        # Strides of every published network; shapes do not determine them.
        stride = 2 if convolutions else 5
        convolutions.append((channels, kernel, stride))
        name = f"feature_extractor.conv_layers.{len(convolutions)}.conv.weight"
    return convolutions


def _first_divisor(number: int, candidates: tuple[int, ...]) -> int:
    for candidate in candidates:
        if candidate and number % candidate == 0:
            return candidate
    return 1

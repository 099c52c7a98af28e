"""Settings of a published detector that follow from the shapes of its layers, and its scoring.

Invariant: what shapes do not determine is the published value, or an error that names the setting
to choose; nothing is guessed silently. A published detector is scored as its authors score it,
unless the user chooses lengths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.errors import AsdfError
from asdf.extras.zoo.networks.deepfense import DeepFenseSizes
from asdf.extras.zoo.networks.spectra import has_even_knots
from asdf.interchange.front_end_weights import matching_architecture
from asdf.networks.aasist import AASIST_L
from asdf.networks.back_ends.nes2net import Nes2NetSizes
from asdf.networks.back_ends.sls import SLSSizes
from asdf.networks.front_ends.architectures import KNOWN, Architecture
from asdf.networks.front_ends.transformers_config import config_text
from asdf.networks.rawnet2 import RawNet2Sizes
from asdf.settings.sections import FRAME_SAMPLES, Sections, assign
from asdf.trials.how_scored import PUBLISHED, ScoredLength

ARCHITECTURE = "front_end.architecture"
SHAPES = "by the shapes of the layers"
_NOT_SHOWN = "as published; no shape shows it"
FRONT_END = "front_end.model."
_BACK_END = "back_end."
_CLASS = "front_end.front_end_class"
_BLOCK = "back_end.Build_in_Res2Nets."
_MAMBA_BLOCK = "conformer.forward_layers."
_CONFORMER_BLOCK = "conformer.encoder_blocks."
_MIN_SCORED = "network.min_evaluation_utterance_length_in_samples"
_MAX_SCORED = "network.max_evaluation_utterance_length_in_samples"
# Their data sets use another length than all others.
_CONFORMER_SAMPLES = 66800
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


# Values of settings by their names, each with its origin in words.
Sizes = dict[str, tuple[Any, str]]


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
    names = [name for name in state if name.startswith(FRONT_END)]
    layers = {name.removeprefix(FRONT_END): state[name] for name in names}
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


def set_sizes(
    kind: str,
    state: Mapping[str, Tensor],
    settings: Sections,
    chosen: Mapping[str, Any],
    path: Path,
    whose: str,
) -> list[str]:
    """Set the sizes of the back end of the class `kind` by its layers; return notes.

    Args:
        settings: Settings with the front end's architecture, and the user's choices.
        chosen: The user's choices, which stay.
        whose: Layout in messages.

    Raises:
        AsdfError: the layers have impossible shapes, or do not show a setting.
    """
    try:
        sizes: Sizes = {}
        for name, (layer, axis) in _BY_SHAPE.get(kind, {}).items():
            sizes[f"back_end.{name}"] = (state[layer].shape[axis], SHAPES)
        for name, stem in _BY_COUNT.get(kind, {}).items():
            sizes[f"back_end.{name}"] = (_count_blocks(state, stem), SHAPES)
        if kind in _SIZES:
            sizes |= _SIZES[kind](state, settings)
    except AsdfError as error:
        raise AsdfError(f"{path}: {error}") from error
    except (ValueError, KeyError, IndexError) as error:
        raise AsdfError(f"{path} has layer names of {whose}, but impossible shapes.") from error
    notes = []
    for name, (value, reason) in sizes.items():
        if name not in chosen:
            assign(settings, {name: value})
            notes.append(f"{name} = {value!r}, {reason}")
    return notes


def _count_blocks(state: Mapping[str, Tensor], stem: str) -> int:
    """Return the number of blocks of layers whose names begin with `stem` and a number."""
    names = (name.removeprefix(stem) for name in state if name.startswith(stem))
    return len({name.partition(".")[0] for name in names})


def _sls_sizes(state: Mapping[str, Tensor], settings: Sections) -> Sizes:
    architecture = Architecture.from_text(settings.front_end.architecture)
    hidden, inputs = state["back_end.fc1.weight"].shape
    # SLS uses the maxima of squares of 3 frames and 3 features.
    pooled = inputs // max(architecture.dimension // 3, 1)
    # The user's own or the published length is used if it gives the number of frames of fc1.
    samples = SLSSizes.of(settings).sls_samples
    reason = "as published"
    if architecture.frames(samples) // 3 != pooled:
        # 960 lengths in samples are pooled to the same number of frames; the shortest is used.
        samples = architecture.min_samples(3 * max(pooled, 1))
        reason = f"the shortest length that gives the {pooled} times it reads"
    return {"back_end.sls_samples": (samples, reason), "back_end.sls_hidden": (hidden, SHAPES)}


def _nes2net_sizes(state: Mapping[str, Tensor], settings: Sections) -> Sizes:
    convolutions = _count_blocks(state, f"{_BLOCK}0.convs.")
    # The last part of each split is passed on without a layer.
    splits = (_count_blocks(state, _BLOCK) + 1, convolutions + 1)
    width = state[f"{_BLOCK}0.conv1.weight"].shape[0]
    squeezed = state[f"{_BLOCK}0.se.se.1.weight"].shape[0]
    pooling = "attentive" if "back_end.pooling.linear1.weight" in state else "mean"
    return {
        "back_end.nes2net_splits": (splits, SHAPES),
        # A damaged file may have a size of 0.
        "back_end.nes2net_squeeze": (max(1, width // max(squeezed, 1)), SHAPES),
        "back_end.nes2net_pooling": (pooling, SHAPES),
        "back_end.nes2net_dilation": (Nes2NetSizes.of(settings).nes2net_dilation, _NOT_SHOWN),
    }


def _conformer_sizes(state: Mapping[str, Tensor], settings: Sections) -> Sizes:
    block = f"{_BACK_END}{_CONFORMER_BLOCK}"
    attention = f"{block}0.attn.fn."
    dimension = state["back_end.conformer.class_token"].shape[1]
    if f"{attention}pos_embed" in state:
        heads = state[f"{attention}pos_embed"].shape[1]
    else:
        # Its embeddings of distances have the width of a head.
        heads = dimension // max(state[f"{attention}rel_pos_emb.weight"].shape[1], 1)
    sizes: Sizes = {
        "back_end.conformer_blocks": (_count_blocks(state, block), SHAPES),
        "back_end.conformer_heads": (heads, SHAPES),
        "back_end.conformer_kernel": (state[f"{block}0.conv.net.4.conv.weight"].shape[2], SHAPES),
    }
    # DF-Arena's is as wide as the front end.
    if not settings.network.network_class.endswith("SSL_GatedConformer"):
        sizes = {"back_end.conformer_dimension": (dimension, SHAPES), **sizes}
    return sizes


def _check_knots(state: Mapping[str, Tensor], settings: Sections) -> Sizes:
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
    return {}


def _mlp_sizes(state: Mapping[str, Tensor], settings: Sections) -> Sizes:
    """Return the layers of DeepFense's MLP; each has an activation without parameters."""
    block = f"{_BACK_END}projection_block."
    weights = [state[name] for name in state if name.startswith(block) and name.endswith(".weight")]
    # Of linear maps; norms have weights of one dimension.
    widths = [weight.shape[0] for weight in weights if weight.dim() == 2]
    norms = {f"{block}1.bn.weight": "batch", f"{block}1.weight": "layer"}
    present = [norm for name, norm in norms.items() if name in state and state[name].dim() == 1]
    activation = DeepFenseSizes.of(settings).deepfense_activation
    return {
        "back_end.deepfense_layers": (tuple(widths), SHAPES),
        "back_end.deepfense_norm": ((*present, "none")[0], SHAPES),
        "back_end.deepfense_activation": (activation, _NOT_SHOWN),
    }


def _rawgat_fusion(state: Mapping[str, Tensor], settings: Sections) -> Sizes:
    name = "back_end.rawgat_fusion"
    if state["GAT_layer3.att_proj.weight"].shape[1] == 2 * len(state["GAT_layer1.bn.weight"]):
        return {name: ("cat", SHAPES)}
    return {name: ("mul", f"{_NOT_SHOWN}: for the sum of graphs, {name}=add")}


# The first layer that processes the maps, by our classes.
_MAP_LAYERS = {
    "SSL_MesoNet": "Incption1_conv1.weight",
    "SSL_SpecRNet": "block0.0.conv1.weight",
    "SSL_MapLCNN": "m_transform.0.weight",
}


def _map_sizes(state: Mapping[str, Tensor], settings: Sections) -> Sizes:
    """Return the settings of the maps for a network of Whisper-MesoNet's program."""
    kind = settings.network.network_class.rpartition(".")[2]
    maps = state[_BACK_END + _MAP_LAYERS[kind]].shape[1]
    has_encoder = any(name.startswith(FRONT_END) for name in state)
    sizes: Sizes = {_CLASS: _cepstra_of(kind, has_encoder, maps, settings)}
    if kind == "SSL_MesoNet":
        sizes["back_end.mesonet_pooled"] = (state["back_end.fc1.weight"].shape[1], SHAPES)
    if has_encoder:
        sizes[ARCHITECTURE] = (_whisper_config(state), SHAPES)
    return sizes


def _cepstra_of(kind: str, has_encoder: bool, maps: int, settings: Sections) -> tuple[str, str]:
    """Return the front end, and how it is known, of a network of Whisper-MesoNet's program.

    Raises:
        KeyError: no front end has so many maps.
        AsdfError: the layers do not determine which cepstra it computes.
    """
    ends = {(True, 1): "transformers", (True, 2): "whisper", (False, 1): "decibel"}
    end = ends[has_encoder, maps]
    if end == "transformers":
        return end, SHAPES
    known = [f"{end}_{cepstra}" for cepstra in ("lfcc", "mfcc")]
    chosen = settings.front_end.front_end_class
    if chosen in known:
        return chosen, "as chosen"
    if kind == "SSL_MesoNet" and has_encoder:
        reason = f"as of the one on the hub; no layer shows it: for LFCCs, {_CLASS}={known[0]}"
        return known[1], reason
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


# Sizes that are a dimension of a layer: the layer, and the dimension's number.
_BY_SHAPE: dict[str, dict[str, tuple[str, int]]] = {
    "SSL_Mamba": {
        "mamba_dimension": ("back_end.conformer.norm_f.weight", 0),
        "mamba_states": (f"back_end.{_MAMBA_BLOCK}0.mixer.A_log", 1),
    },
    "SSL_WeDefenseMHFA": {
        "mhfa_heads": ("back_end.att_head.weight", 0),
        "mhfa_compression": ("back_end.cmp_linear_k.weight", 0),
        "mhfa_embedding": ("back_end.pooling_fc.weight", 0),
    },
    "SSL_SUPERB": {"classifier_projection": ("back_end.projector.weight", 0)},
    "RawNet2": {
        "rawnet2_filters": ("first_bn.weight", 0),
        "rawnet2_channels": ("bn_before_gru.bias", 0),
        "rawnet2_recurrent": ("fc1_gru.weight", 1),
        "rawnet2_embedding": ("fc1_gru.weight", 0),
    },
}
# Sizes that count blocks: the beginning of their names, before a number.
_BY_COUNT: dict[str, dict[str, str]] = {
    "SSL_Mamba": {"mamba_blocks": f"{_BACK_END}{_MAMBA_BLOCK}"},
    "RawNet2": {"rawnet2_layers": "gru.weight_hh_l"},
}
_SIZES: dict[str, Callable[[Mapping[str, Tensor], Sections], Sizes]] = {
    "SSL_SLS": _sls_sizes,
    "SSL_Nes2NetX": _nes2net_sizes,
    "SSL_Conformer": _conformer_sizes,
    "SSL_ConformerTCM": _conformer_sizes,
    "SSL_GatedConformer": _conformer_sizes,
    "SSL_SpectraAASIST3": _check_knots,
    "RawGAT_ST": _rawgat_fusion,
    "SSL_DeepFenseNes2Net": _nes2net_sizes,
    "SSL_DeepFenseMLP": _mlp_sizes,
    "SSL_DeepFenseTCM": _conformer_sizes,
    "SSL_MesoNet": _map_sizes,
    "SSL_SpecRNet": _map_sizes,
    "SSL_MapLCNN": _map_sizes,
    "RawNet2": lambda _, settings: {
        "back_end.rawnet2_taps": (RawNet2Sizes.of(settings).rawnet2_taps, _NOT_SHOWN)
    },
}


def _guess_architecture(layers: Mapping[str, Tensor]) -> Architecture:
    """Guess an architecture with the usual strides, heads of 64 values and order of norms."""
    convolutions: list[tuple[int, int, int]] = []
    name = "feature_extractor.conv_layers.0.conv.weight"
    while name in layers:
        channels, _, kernel = layers[name].shape
        # Strides of every published network; shapes do not determine them.
        convolutions.append((channels, kernel, 2 if convolutions else 5))
        name = f"feature_extractor.conv_layers.{len(convolutions)}.conv.weight"
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


def _first_divisor(number: int, candidates: tuple[int, ...]) -> int:
    return next((each for each in candidates if each and number % each == 0), 1)


def published_length(
    settings: Sections, kind: str, chosen: Mapping[str, Any], samples: int | None = None
) -> list[str]:
    """Set the scored length of recordings to that of the published programs; return notes.

    The data sets of AASIST, SSL_Anti-spoofing, SLS and Nes2Net-X (`data_utils.py`,
    `data_utils_SSL.py`) and RawNet2 return the first 64,600 samples of a trial, and repeat a
    shorter one from its start; those of the Conformers and of XLSR-Mamba (`data_utils.py`) the
    first 66,800. An SLS of another size takes its own length.

    Args:
        kind: Name of the network's class.
        chosen: Settings that the user chose, by full name.
        samples: Number of samples that its program scores; None: as above.
    """
    published = samples or PUBLISHED.min_samples
    if kind == "SSL_SLS":
        published = SLSSizes.of(settings).sls_samples
    elif kind in ("SSL_Conformer", "SSL_ConformerTCM", "SSL_Mamba"):
        published = _CONFORMER_SAMPLES
    # lab260's programs repeat shorter recordings after the pre-emphasis, as the network does.
    repeats = kind.startswith("SSL_Spectra")
    shortest = FRAME_SAMPLES if repeats else published
    # Limits that the user did not choose are made consistent with the chosen one.
    lengths = {}
    if _MIN_SCORED not in chosen:
        lengths[_MIN_SCORED] = min(shortest, chosen.get(_MAX_SCORED, published))
    if _MAX_SCORED not in chosen:
        lengths[_MAX_SCORED] = max(published, chosen.get(_MIN_SCORED, published))
    if not lengths:
        return []
    assign(settings, lengths)
    scored = ScoredLength(
        settings.network.min_evaluation_utterance_length_in_samples,
        settings.network.max_evaluation_utterance_length_in_samples,
    )
    words = scored.describe()
    if repeats:
        words = f"first {published:,} samples, shorter ones repeated after the pre-emphasis"
    is_published = (scored.min_samples, scored.max_samples) == (shortest, published)
    reason = ", as published" if is_published else ""
    names = " and ".join(f"{name} = {value}" for name, value in lengths.items())
    return [f"scored{reason}: {words} ({names})"]


def antideepfake_scoring(
    settings: Sections, one_class: str | None, chosen: Mapping[str, Any]
) -> list[str]:
    """Set the processing and the score of AntiDeepfake's program; return notes.

    Its `dataio.py` tests whole recordings, each scaled to zero mean and unit variance, and its
    `evaluation.py` uses the probability of real speech: the sigmoid of the difference of the two
    logits. A one-class detector gives a cosine.

    Args:
        one_class: Loss of a one-class detector; None for two logits.
        chosen: Settings that the user chose, by full name.
    """
    values: dict[str, Any] = {"front_end.normalize_waveforms": True, "network.score": "difference"}
    if one_class is not None:
        values |= {"network.score": "bona_fide", "network.loss": one_class}
    values = {name: value for name, value in values.items() if name not in chosen}
    assign(settings, values)
    notes = [f"{name} = {value!r}, as published" for name, value in values.items()]
    return notes + whole_recordings(settings, chosen)


def whole_recordings(settings: Sections, chosen: Mapping[str, Any]) -> list[str]:
    """Set that recordings are scored as a whole; return notes.

    Args:
        chosen: Settings that the user chose, by full name.
    """
    # Networks need at least one frame. Our limit of a minute exceeds the tested lengths.
    if _MIN_SCORED in chosen:
        return []
    assign(settings, {_MIN_SCORED: FRAME_SAMPLES})
    scored = ScoredLength(
        FRAME_SAMPLES, settings.network.max_evaluation_utterance_length_in_samples
    )
    reason = "" if _MAX_SCORED in chosen else ", as published"
    return [f"scored{reason}: {scored.describe()} ({_MIN_SCORED} = {FRAME_SAMPLES})"]

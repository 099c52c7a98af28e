"""Maps of toolkits' and challenges' layer names to ours, with facts about their programs.

Invariant: a map is one to one. Other tensors in a file are computed by the network and compared, or
are irrelevant for scores; both are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from asdf.interchange.fairseq import original_names
from asdf.interchange.hugging_face import hugging_face_name
from asdf.networks.back_ends.conformer import TCMBackEnd, sinusoids
from asdf.networks.filters import cosine_transform, linear_filters
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.front_ends.spectral import LFCCFrontEnd
from asdf.networks.ssl_detector import SSLDetector

POSITIONS = "conformer.positional_emb"
"""Sines and cosines of positions, which files of Conformers hold and the network computes."""

_ENCODER = "front_end.model."
T = TypeVar("T")


def stored_positions(dimension: int) -> Tensor:
    """Return the positions that published files store, (1, 10000 frames, dimension)."""
    return sinusoids(10_000, dimension).unsqueeze(0)


@dataclass(frozen=True)
class Conversion:
    """Conversion of an output layer to ours, which has spoof first and bona fide second.

    Attributes:
        outputs: Number of outputs in the layout.
        to_ours, to_theirs: Functions of a weight or bias, which are inverses.
    """

    outputs: int
    to_ours: Callable[[Tensor], Tensor]
    to_theirs: Callable[[Tensor], Tensor]


FLIPPED = Conversion(2, lambda rows: rows.flip(0), lambda rows: rows.flip(0))
"""Two outputs with bona fide first."""


# Only the difference of our two logits matters to their softmax.
SINGLE = Conversion(
    1, lambda rows: torch.cat([torch.zeros_like(rows), rows]), lambda rows: rows[1:] - rows[:1]
)
"""A single output, the logit of bona fide speech: ours are then 0 and that logit."""


@dataclass(frozen=True)
class NameMap:
    """A layout described by a map of names.

    Attributes:
        name: Name of the layout's author or toolkit.
        kind: Name of our class.
        layout: Name of the layout, with its parts, as printed by `import`.
        marks: Names of layers that together identify the layout.
        parts: Pairs of prefixes, theirs and ours; the first pair that matches applies.
        front_end: Prefix of the layers of a front end of the wav2vec 2.0 family; '' without one.
        front_ends: Short names of the possible front ends of a layout without such layers; the
            first one that fits the layers is used.
        words: Words in names of an encoder of transformers, theirs and ours.
        may_lack_front_end: Whether published files may hold only trained weights.
        conversions: Conversions of output layers, by our names.
        constants: Function that returns layers that the network computes but files contain.
        unused: Prefixes of layers that scores do not depend on, by reason.
        settings: Settings that its program implies, by full name.
        bona_fide: Sentence on which output is bona fide.
        samples: Number of samples that its program scores; None: whole recordings.
        normalizes: Whether its program scales waveforms; None: as in s3prl.
        computed: Function of a network that returns layers of its sizes that files contain but it
            computes.
        has_config: Whether a configuration next to a checkpoint states how it is scored.
        nested_in: Key of the layers in its program's files; '' if they are at the top level.
        wrapped_in: Prefix of all names in its program's files, which others may lack.
        of_transformers: Whether the front end's layers have transformers' names, not fairseq's.
        remarks: Sentences on further processing in its program, which is not done here.
    """

    name: str
    kind: str
    layout: str
    marks: frozenset[str]
    parts: tuple[tuple[str, str], ...]
    bona_fide: str
    front_end: str = ""
    front_ends: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    may_lack_front_end: bool = False
    conversions: Mapping[str, Conversion] = field(default_factory=dict)
    constants: Callable[[], Mapping[str, Tensor]] = dict
    unused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    samples: int | None = None
    normalizes: bool | None = None
    computed: Callable[[SSLDetector], Mapping[str, Tensor]] | None = None
    has_config: bool = False
    nested_in: str = ""
    wrapped_in: str = ""
    of_transformers: bool = False
    remarks: tuple[str, ...] = ()

    def scales(self, architecture: Architecture) -> bool:
        """Return whether its program scales the waveforms of a front end."""
        if self.normalizes is not None:
            return self.normalizes
        return architecture.extractor_mode == "layer_norm"

    def encoder_names(self, layers: Mapping[str, T], architecture: Architecture) -> dict[str, T]:
        """Return the front end's layers, with separate maps in attention, under its names."""
        if self.of_transformers:
            named = {hugging_face_name(name): layer for name, layer in layers.items()}
        else:
            named = original_names(layers, architecture)
        return {self.front_end + name: layer for name, layer in named.items()}

    def our_name(self, name: str) -> str | None:
        """Return our name of a layer; None if it has none."""
        ours = _replace_start(name, self.parts)
        if ours is not None and ours.startswith(_ENCODER):
            for old, new in self.words:
                ours = ours.replace(old, new)
        return ours

    def their_name(self, name: str) -> str | None:
        """Return the layout's name of our layer; None if it has none."""
        if name.startswith(_ENCODER):
            for new, old in self.words:
                name = name.replace(old, new)
        return _replace_start(name, [(ours, theirs) for theirs, ours in self.parts])


def _replace_start(name: str, pairs: Sequence[tuple[str, str]]) -> str | None:
    for old, new in pairs:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return None


_BACK_END = "back_end."
_S3PRL = {"front_end.repeat_last_frame": True}

WEDEFENSE_MHFA = NameMap(
    name="WeDefense",
    kind="SSL_WeDefenseMHFA",
    layout="WeDefense: a self-supervised front end and MHFA on centred frames",
    marks=frozenset({"weights_k", "cmp_linear_k.weight", "projection.trans.2.weight"}),
    parts=(("", _BACK_END),),
    front_end="frontend.upstream.upstream.model.",
    conversions={
        "back_end.projection.trans.2.weight": FLIPPED,
        "back_end.projection.trans.2.bias": FLIPPED,
    },
    settings={**_S3PRL, "network.score": "difference"},
    bona_fide="the first output: its program sorts labels by name",
)


def _lfcc_numbers() -> dict[str, Tensor]:
    """Return the filters and cosines of the baseline's LFCCs, and its identity scaling.

    Its program reserves the scaling for other projects.
    """
    sizes = LFCCFrontEnd.usual
    filters_FN = linear_filters(sizes.n_fft, sizes.filters, sizes.low_hz, sizes.high_hz)
    cosines_NC = cosine_transform(sizes.filters, sizes.coefficients)
    numbers = {
        "m_frontend.0.lfcc_fb": torch.from_numpy(filters_FN).float(),
        "m_frontend.0.l_dct.weight": torch.from_numpy(cosines_NC.T).float().contiguous(),
    }
    for end in ("input", "output"):
        numbers |= {f"{end}_mean": torch.zeros(1), f"{end}_std": torch.ones(1)}
    return numbers


LFCC_LCNN = NameMap(
    name="ASVspoof 2021's LFCC-LCNN",
    kind="SSL_LCNN",
    layout="ASVspoof 2021's baseline: LFCC and LCNN with LSTM layers",
    marks=frozenset({"m_transform.0.0.weight", "m_output_act.0.weight"}),
    # The baseline could have several front ends with a network each, and has one.
    parts=(
        ("m_transform.0.", "back_end.m_transform."),
        ("m_before_pooling.0.", "back_end.m_before_pooling."),
        ("m_output_act.0.", "back_end.m_output_act."),
    ),
    conversions={"back_end.m_output_act.weight": SINGLE, "back_end.m_output_act.bias": SINGLE},
    constants=_lfcc_numbers,
    settings={
        "front_end.front_end_class": "lfcc",
        "spectrum.centred": True,
        "network.score": "difference",
    },
    bona_fide="its one output, the logit of bona fide speech",
)

RAWGAT_ST = NameMap(
    name="RawGAT-ST",
    kind="RawGAT_ST",
    layout="RawGAT-ST: raw waveforms, and graphs of frequencies and of times",
    marks=frozenset({"encoder1.0.0.conv_1.weight", "GAT_layer3.att_weight", "proj_node.weight"}),
    parts=(("", ""),),
    bona_fide="the second output, as its program has it",
    samples=64600,
)

SPOOF_SUPERB = NameMap(
    name="spoof_SUPERB",
    kind="SSL_SUPERB",
    layout="spoof_SUPERB: a sum of a front end's layers, a projection, the mean over time",
    marks=frozenset({"ssl_model.featurizer.weights", "projector.weight", "post_net.linear.weight"}),
    parts=(
        ("ssl_model.featurizer.", "front_end.layer_sum."),
        ("projector.", "back_end.projector."),
        ("post_net.linear.", "back_end.classifier."),
    ),
    front_end="ssl_model.model.upstream.model.",
    may_lack_front_end=True,
    settings={**_S3PRL, "front_end.layer": "weighted"},
    bona_fide="the second output, as its program has it",
    samples=64600,
)

SPOOF_SUPERB_AASIST = replace(
    SPOOF_SUPERB,
    kind="SSL_SUPERBAASIST",
    layout="spoof_SUPERB: a sum of a front end's layers and AASIST",
    marks=frozenset({"ssl_model.featurizer.weights", "GAT_layer_S.att_proj.weight", "LL.weight"}),
    parts=(("ssl_model.featurizer.", "front_end.layer_sum."), ("", _BACK_END)),
)

# Names of OpenAI's encoder, and of transformers'.
_WHISPER_WORDS = (
    (".attn.query.", ".self_attn.q_proj."),
    (".attn.key.", ".self_attn.k_proj."),
    (".attn.value.", ".self_attn.v_proj."),
    (".attn.out.", ".self_attn.out_proj."),
    (".attn_ln.", ".self_attn_layer_norm."),
    (".mlp.0.", ".fc1."),
    (".mlp.2.", ".fc2."),
    (".mlp_ln.", ".final_layer_norm."),
    ("front_end.model.blocks.", "front_end.model.layers."),
    ("front_end.model.ln_post.", "front_end.model.layer_norm."),
    ("front_end.model.positional_embedding", "front_end.model.embed_positions.weight"),
)


def _of_whisper_features(
    kind: str, network: str, output: str, marks: frozenset[str], layout: str
) -> NameMap:
    """Return a layout of the program of Whisper-MesoNet.

    Args:
        network: Name of the network after the features.
        output: Name of its output layer.
    """
    conversions = {f"back_end.{output}.{part}": SINGLE for part in ("weight", "bias")}
    return NameMap(
        name=f"Whisper-{network}",
        kind=kind,
        layout=layout,
        marks=marks,
        parts=(("whisper_model.encoder.", "front_end.model."), ("", _BACK_END)),
        front_ends=(
            *("transformers", "whisper_lfcc", "whisper_mfcc"),
            *("decibel_lfcc", "decibel_mfcc"),
        ),
        words=_WHISPER_WORDS,
        conversions=conversions,
        settings={"network.score": "difference"},
        bona_fide="its one output, the logit of bona fide speech",
        samples=480_000,
        remarks=(
            "not as published: its program first shortens silences to 0.2 s with sox, which ASDF "
            "does not; recordings without such silences score the same",
        ),
    )


WHISPER_MESONET = _of_whisper_features(
    "SSL_MesoNet",
    "MesoNet",
    "fc2",
    frozenset({"Incption1_conv1.weight", "Incption2_bn.weight", "fc2.weight"}),
    "Whisper-MesoNet's program: features as maps and MesoInception-4",
)
WHISPER_SPECRNET = _of_whisper_features(
    "SSL_SpecRNet",
    "SpecRNet",
    "fc2_gru",
    # RawNet2 has layers with these names too, except those of the backward direction.
    frozenset({"fc_attention4.0.weight", "fc2_gru.weight", "gru.weight_ih_l0_reverse"}),
    "Whisper-MesoNet's program: features as maps and SpecRNet",
)
WHISPER_LCNN = _of_whisper_features(
    "SSL_MapLCNN",
    "LCNN",
    "m_output_act",
    frozenset({"m_transform.0.weight", "m_before_pooling.0.l_blstm.weight_ih_l0"}),
    "Whisper-MesoNet's program: features as maps and LCNN",
)


# Speech-Arena-2025/DF_Arena_1B_V_1 and _500M_V_1: their layers, and their feature extractor.
DF_ARENA = NameMap(
    name="DF-Arena",
    kind="SSL_GatedConformer",
    layout="DF-Arena: a front end, gates for its layers and a Conformer with class token",
    marks=frozenset({"attn_scores.weight", "fc0.weight", "conformer.class_token"}),
    parts=(("", _BACK_END),),
    front_end="ssl_model.",
    of_transformers=True,
    wrapped_in="backbone.",
    normalizes=False,
    unused={"of positions, which the network computes": (POSITIONS,)},
    computed=lambda network: {POSITIONS: stored_positions(network.front_end.dimension)},
    settings={"network.score": "difference"},
    bona_fide="the second output, as its program has it",
    samples=64_600,
)


def _deepfense_numbers(network: SSLDetector) -> dict[str, Tensor]:
    """Return further tensors in DeepFense's files: mask vector, and TCM's positions."""
    numbers = {"frontend.model.mask_emb": torch.zeros(network.front_end.dimension)}
    if isinstance(network.back_end, TCMBackEnd):
        numbers[_POSITIONS] = stored_positions(network.back_end.frame_dimension)
    return numbers


def _of_deepfense(
    network: str, mark: str, output: str = "back_end.fc.", parts: tuple[tuple[str, str], ...] = ()
) -> NameMap:
    """Return the layout of a network of DeepFense with cross entropy.

    Args:
        mark: Name of a layer that only this network has.
        output: Prefix of our names of the output layer.
        parts: Additional pairs of prefixes, of the toolkit and ours.
    """
    return NameMap(
        name="DeepFense",
        kind=f"SSL_DeepFense{network}",
        layout=f"DeepFense: a self-supervised front end and {network}",
        marks=frozenset({"losses.0.fc.weight", mark}),
        parts=(("losses.0.fc.", output), *parts, ("backend.", _BACK_END)),
        front_end="frontend.model.",
        normalizes=False,
        unused={
            "of positions, which the network computes": (_POSITIONS,),
            "of the training that made it": (
                *("losses.0.criterion.", "losses.1.", "losses.2.", "losses.3."),
            ),
        },
        computed=_deepfense_numbers,
        has_config=True,
        nested_in="model_state",
        settings={"network.score": "bona_fide"},
        bona_fide="the second output, whose logit is the score, as its program has it",
        samples=64_000,
    )


_POSITIONS = "backend.positional_emb"
DEEPFENSE = (
    _of_deepfense("AASIST", "backend.GAT_layer_S.att_proj.weight", "back_end.out_layer."),
    _of_deepfense("Nes2Net", "backend.Build_in_Res2Nets.0.conv1.weight"),
    _of_deepfense("MLP", "backend.projection_block.0.weight"),
    _of_deepfense(
        "TCM",
        "backend.encoder_blocks.0.post_norm.weight",
        "back_end.conformer.fc5.",
        (
            ("backend.LL.", "back_end.LL."),
            ("backend.first_bn.", "back_end.first_bn."),
            ("backend.", "back_end.conformer."),
        ),
    ),
)

NAME_MAPS = (
    *DEEPFENSE,
    DF_ARENA,
    WEDEFENSE_MHFA,
    LFCC_LCNN,
    RAWGAT_ST,
    SPOOF_SUPERB,
    SPOOF_SUPERB_AASIST,
    WHISPER_MESONET,
    WHISPER_SPECRNET,
    WHISPER_LCNN,
)


def name_map_of(names: Collection[str]) -> NameMap | None:
    """Return the map of the layout with these layer names; None for other layouts."""
    names = {*names, *(name.removeprefix(DF_ARENA.wrapped_in) for name in names)}
    return next((each for each in NAME_MAPS if names >= each.marks), None)


def name_maps_by_kind() -> Mapping[str, NameMap]:
    """Return the maps by the names of our classes."""
    return {each.kind: each for each in NAME_MAPS}

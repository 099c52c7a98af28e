"""The layouts that are known by a map of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from asdf.interchange.name_maps.name_map import FLIPPED, SINGLE, NameMap
from asdf.networks.front_ends.spectral import LFCCFrontEnd
from asdf.networks.front_ends.spectral_matrices import cosine_transform, linear_filters

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
    """Return filters and cosines of the baseline's LFCCs, and the scaling of waveforms by nothing.

    Its program reserves that for other projects.
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
    # The baseline could hold several front ends, each with a network, and has one.
    parts=(
        ("m_transform.0.", "back_end.m_transform."),
        ("m_before_pooling.0.", "back_end.m_before_pooling."),
        ("m_output_act.0.", "back_end.m_output_act."),
    ),
    conversions={
        "back_end.m_output_act.weight": SINGLE,
        "back_end.m_output_act.bias": SINGLE,
    },
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

NAME_MAPS = (WEDEFENSE_MHFA, LFCC_LCNN, RAWGAT_ST, SPOOF_SUPERB)


def name_map_of(names: Iterable[str]) -> NameMap | None:
    """Return the map whose layout these names of layers show; None of others."""
    names = set(names)
    matching = (each for each in NAME_MAPS if names >= each.marks)
    return next(matching, None)


def name_maps_by_kind() -> Mapping[str, NameMap]:
    """Return the maps by the names of our classes."""
    return {each.kind: each for each in NAME_MAPS}

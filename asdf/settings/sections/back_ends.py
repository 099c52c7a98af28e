"""The section of the back ends: the choice of one, and the sizes of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from asdf.ports import provided
from asdf.settings.mistakes import KnownNames
from asdf.settings.sections.fields import (
    FRAME_SAMPLES,
    MAX_BLOCKS,
    MAX_CLIP_SAMPLES,
    MAX_LAYER_WIDTH,
    count,
    proportion,
    setting,
    width,
    with_extras,
)

# Short names of back ends (classes derived from asdf.networks.BackEnd) that
# `back_end.back_end_class` takes.
BACK_ENDS = {
    "aasist": "asdf.networks.AASISTBackEnd",
    "aasist_l": "asdf.networks.AASISTLBackEnd",
    "asp": "asdf.networks.ASPBackEnd",
    "mhfa": "asdf.networks.MHFABackEnd",
    "sls": "asdf.networks.SLSBackEnd",
    "nes2net_x": "asdf.networks.Nes2NetXBackEnd",
    "linear": "asdf.networks.LinearBackEnd",
    "mlp": "asdf.networks.MLPBackEnd",
    "conformer": "asdf.networks.ConformerBackEnd",
    "conformer_tcm": "asdf.networks.TCMBackEnd",
    "lcnn": "asdf.networks.LCNNBackEnd",
    "resnet18": "asdf.networks.ResNet18BackEnd",
    "ecapa": "asdf.networks.ECAPABackEnd",
    "wedefense_mhfa": "asdf.networks.WeDefenseMHFABackEnd",
    "map_lcnn": "asdf.networks.MapLCNNBackEnd",
    **provided("BACK_ENDS"),
}


@with_extras
@dataclass
class BackEnd(KnownNames):
    """Back end and its sizes, and RawNet2's; AASIST has its published sizes."""

    back_end_class: str | None = setting(
        None,
        "the back end of asdf.networks.ComposedDetector; other network classes have their own",
        check="class_path",
        names=BACK_ENDS,
    )
    asp_hidden: int = width(128, "SSL_ASP: hidden units of the attention")
    mhfa_heads: int = count(64, "SSL_MHFA, SSL_WeDefenseMHFA: attention heads")
    mhfa_compression: int = width(
        128, "SSL_MHFA, SSL_WeDefenseMHFA: values that keys and values are compressed to"
    )
    mhfa_embedding: int = width(256, "SSL_MHFA, SSL_WeDefenseMHFA: size of the embedding")
    sls_samples: int = setting(
        64600,  # as published, about four seconds
        "SSL_SLS: the only length it takes; network.train_clip_size has to equal it",
        unit="samples",
        at_least=FRAME_SAMPLES,
        at_most=MAX_CLIP_SAMPLES,
    )
    sls_hidden: int = width(1024, "SSL_SLS: size of the embedding")
    nes2net_splits: tuple[int, int] = setting(
        (8, 8),
        "SSL_Nes2NetX, SSL_DeepFenseNes2Net: number of parts of the features, and of parts of "
        "each of these",
        at_least=2,
        at_most=MAX_LAYER_WIDTH,
    )
    nes2net_dilation: int = setting(
        2,
        "SSL_Nes2NetX: dilation of its convolutions",
        unit="frames",
        at_least=1,
        at_most=MAX_CLIP_SAMPLES,
    )
    nes2net_squeeze: int = count(
        1, "SSL_Nes2NetX: how many times narrower the squeeze-and-excitation layers are inside"
    )
    nes2net_pooling: Literal["mean", "attentive"] = setting(
        "mean", "SSL_Nes2NetX: pooling over time; attentive: attentive statistics"
    )
    conformer_dimension: int = width(
        144, "SSL_Conformer, SSL_ConformerTCM: size of the frames and of the embedding"
    )
    conformer_blocks: int = setting(
        4, "SSL_Conformer, SSL_ConformerTCM: number of blocks", at_least=1, at_most=MAX_BLOCKS
    )
    conformer_heads: int = count(4, "SSL_Conformer, SSL_ConformerTCM: attention heads")
    conformer_kernel: int = setting(
        31,
        "SSL_Conformer, SSL_ConformerTCM: what a block's convolution looks at",
        unit="frames",
        at_least=1,
        at_most=MAX_LAYER_WIDTH,
    )
    conformer_dropout: float = proportion(
        0.0, "SSL_Conformer, SSL_ConformerTCM: dropout after each part of a block"
    )
    mlp_hidden: int = width(64, "mlp: units of its hidden layer, which is the embedding")
    mlp_dropout: float = proportion(0.3, "mlp: dropout of the features and of the hidden layer")
    rawnet2_filters: int = setting(
        20,
        "RawNet2: band-pass filters, and channels of the first two blocks; 128 in the paper",
        at_least=1,
        at_most=1000,
    )
    rawnet2_taps: int = setting(
        1024,
        "RawNet2: length of the filters; 1 is added to an even one",
        unit="samples",
        at_least=1,
        at_most=16000,
    )
    rawnet2_channels: int = count(
        128, "RawNet2: channels of the other four blocks; 512 in the paper"
    )
    rawnet2_layers: int = setting(
        3, "RawNet2: gated recurrent layers", at_least=1, at_most=MAX_BLOCKS
    )
    rawnet2_recurrent: int = count(1024, "RawNet2: units of each of them")
    rawnet2_embedding: int = width(1024, "RawNet2: size of the embedding")
    lcnn_projection: int = setting(
        0,
        "SSL_LCNN: values that features are projected to first; 0: not",
        unit="values",
        at_least=0,
        at_most=MAX_LAYER_WIDTH,
    )
    lcnn_dropout: float = proportion(0.7, "SSL_LCNN, SSL_MapLCNN: dropout after the convolutions")
    resnet_projection: int = setting(
        0,
        "SSL_ResNet18: values that features are projected to first; 0: not",
        unit="values",
        at_least=0,
        at_most=MAX_LAYER_WIDTH,
    )
    resnet_embedding: int = width(256, "SSL_ResNet18: size of the embedding")
    ecapa_channels: int = count(
        512, "SSL_ECAPA: channels of its blocks; 1024 is the larger published size"
    )
    ecapa_splits: int = setting(
        8, "SSL_ECAPA: parts of the channels of a Res2Net", at_least=2, at_most=MAX_BLOCKS
    )
    ecapa_attention: int = width(128, "SSL_ECAPA: hidden units of the attention")
    ecapa_embedding: int = width(192, "SSL_ECAPA: size of the embedding")

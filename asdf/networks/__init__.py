"""Networks: front ends, back ends, and building by class path.

The names imported below are for configs and recipes. Each is imported only when it is first used,
so that `import asdf.networks` does not load torch.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door

if TYPE_CHECKING:
    from asdf.networks.aasist import AASIST, AASIST_L
    from asdf.networks.back_ends.back_end import BackEnd
    from asdf.networks.back_ends.classes import SSL_SUPERB, ClassesBackEnd, SSL_Classifier
    from asdf.networks.back_ends.conformer import (
        ConformerBackEnd,
        SSL_Conformer,
        SSL_ConformerTCM,
        TCMBackEnd,
    )
    from asdf.networks.back_ends.deepfense import (
        DeepFenseAASISTBackEnd,
        DeepFenseMLPBackEnd,
        DeepFenseNes2NetBackEnd,
        SSL_DeepFenseAASIST,
        SSL_DeepFenseMLP,
        SSL_DeepFenseNes2Net,
        SSL_DeepFenseTCM,
    )
    from asdf.networks.back_ends.ecapa import SSL_ECAPA, ECAPABackEnd
    from asdf.networks.back_ends.gated_conformer import GatedConformerBackEnd, SSL_GatedConformer
    from asdf.networks.back_ends.lcnn import (
        SSL_LCNN,
        LCNNBackEnd,
        MapLCNNBackEnd,
        SSL_MapLCNN,
    )
    from asdf.networks.back_ends.linear import LinearBackEnd, SSL_Linear
    from asdf.networks.back_ends.mamba import MambaBackEnd, SSL_Mamba
    from asdf.networks.back_ends.mesonet import MesoNetBackEnd, SSL_MesoNet
    from asdf.networks.back_ends.mhfa import (
        SSL_MHFA,
        MHFABackEnd,
        SSL_WeDefenseMHFA,
        WeDefenseMHFABackEnd,
    )
    from asdf.networks.back_ends.mlp import MLPBackEnd
    from asdf.networks.back_ends.nes2net import Nes2NetXBackEnd, SSL_Nes2NetX
    from asdf.networks.back_ends.pooling import SSL_ASP, ASPBackEnd
    from asdf.networks.back_ends.resnet import ResNet18BackEnd, SSL_ResNet18
    from asdf.networks.back_ends.sls import SSL_SLS, SLSBackEnd
    from asdf.networks.back_ends.specrnet import SpecRNetBackEnd, SSL_SpecRNet
    from asdf.networks.back_ends.spectra import (
        SpectraAASIST3BackEnd,
        SpectraAASISTBackEnd,
        SpectraECAPABackEnd,
        SSL_SpectraAASIST,
        SSL_SpectraAASIST3,
        SSL_SpectraECAPA,
    )
    from asdf.networks.back_ends.ssl_aasist import (
        SSL_AASIST,
        SSL_AASIST_L,
        SSL_SUPERBAASIST,
        AASISTBackEnd,
        AASISTLBackEnd,
    )
    from asdf.networks.back_ends.timed_back_end import TimedBackEnd
    from asdf.networks.build import build_network, summary
    from asdf.networks.composed import ComposedDetector
    from asdf.networks.front_ends.beats import BEATsFrontEnd
    from asdf.networks.front_ends.constant_q import CQCCFrontEnd, CQTFrontEnd
    from asdf.networks.front_ends.dasheng import DashengFrontEnd
    from asdf.networks.front_ends.decibel_cepstra import (
        DecibelLFCCFrontEnd,
        DecibelMFCCFrontEnd,
        WhisperLFCCFrontEnd,
        WhisperMFCCFrontEnd,
    )
    from asdf.networks.front_ends.eat import EATFrontEnd
    from asdf.networks.front_ends.encoder_output import EncoderOutputFrontEnd
    from asdf.networks.front_ends.front_end import FrontEnd
    from asdf.networks.front_ends.learned_bands import SincFrontEnd
    from asdf.networks.front_ends.moments import MomentsFrontEnd
    from asdf.networks.front_ends.raw_samples import RawFrontEnd
    from asdf.networks.front_ends.spectral import (
        FilterBankFrontEnd,
        LFCCFrontEnd,
        LogMelFrontEnd,
        MFCCFrontEnd,
        SpectrogramFrontEnd,
    )
    from asdf.networks.front_ends.transformers_front_end import TransformersFrontEnd
    from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
    from asdf.networks.interface import (
        DetectorNetwork,
        Outputs,
        fixed_samples,
        frame_hop,
        front_end_parameters,
        scoring_length,
    )
    from asdf.networks.rawgat_st import RawGAT_ST
    from asdf.networks.rawnet2 import RawNet2
    from asdf.networks.ssl_detector import SSLDetector

_HEADS = "asdf.tasks.tracing.heads"
__all__, __getattr__ = open_door(
    __name__,
    load_detector_weights="asdf.interchange",
    ClassHead=_HEADS,
    CosineClassHead=_HEADS,
    LinearClassHead=_HEADS,
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

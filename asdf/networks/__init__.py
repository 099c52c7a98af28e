"""Networks: front ends, back ends, and building by class path.

The names imported below are for configs and recipes. Each is imported only when it is first used,
so that `import asdf.networks` does not load torch.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door
from asdf.ports import provided

if TYPE_CHECKING:
    from asdf.networks.aasist import AASIST, AASIST_L
    from asdf.networks.back_ends.back_end import BackEnd, TimedBackEnd
    from asdf.networks.back_ends.conformer import (
        ConformerBackEnd,
        SSL_Conformer,
        SSL_ConformerTCM,
        TCMBackEnd,
    )
    from asdf.networks.back_ends.ecapa import SSL_ECAPA, ECAPABackEnd
    from asdf.networks.back_ends.lcnn import SSL_LCNN, LCNNBackEnd, MapLCNNBackEnd, SSL_MapLCNN
    from asdf.networks.back_ends.linear import LinearBackEnd, SSL_Linear
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
    from asdf.networks.back_ends.ssl_aasist import (
        SSL_AASIST,
        SSL_AASIST_L,
        SSL_SUPERBAASIST,
        AASISTBackEnd,
        AASISTLBackEnd,
    )
    from asdf.networks.build import build_network, summary
    from asdf.networks.front_ends.front_end import FrontEnd
    from asdf.networks.front_ends.spectral import (
        FilterBankFrontEnd,
        LFCCFrontEnd,
        LogMelFrontEnd,
        MFCCFrontEnd,
        RawFrontEnd,
        SpectrogramFrontEnd,
    )
    from asdf.networks.front_ends.transformers_front_end import (
        EncoderOutputFrontEnd,
        TransformersFrontEnd,
    )
    from asdf.networks.front_ends.wav2vec2 import Wav2Vec2FrontEnd
    from asdf.networks.interface import (
        DetectorNetwork,
        Outputs,
        fixed_samples,
        frame_hop,
        front_end_parameters,
        scoring_length,
    )
    from asdf.networks.rawnet2 import RawNet2
    from asdf.networks.ssl_detector import ComposedDetector, SSLDetector

_HEADS = "asdf.tasks.tracing.task"
__all__, __getattr__ = open_door(
    __name__,
    ClassHead=_HEADS,
    CosineClassHead=_HEADS,
    LinearClassHead=_HEADS,
    **provided("NETWORKS"),
)
__all__ = [*__all__, *provided("NETWORKS")]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

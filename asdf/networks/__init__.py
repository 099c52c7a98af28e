"""Networks: front ends, back ends, building by class path, and the weights of other systems.

The names below are what configs and recipes use; they are imported when first asked for, so that
`import asdf.networks` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asdf.networks.aasist import AASIST, AASIST_L
    from asdf.networks.build import build_network, summary
    from asdf.networks.front_end import FrontEnd
    from asdf.networks.interface import (
        DetectorNetwork,
        fixed_samples,
        front_end_parameters,
        scoring_length,
    )
    from asdf.networks.mhfa import SSL_MHFA, MHFABackEnd
    from asdf.networks.nes2net import Nes2NetXBackEnd, SSL_Nes2NetX
    from asdf.networks.pooling import SSL_ASP, ASPBackEnd
    from asdf.networks.sls import SSL_SLS, SLSBackEnd
    from asdf.networks.ssl_aasist import SSL_AASIST, SSL_AASIST_L, AASISTBackEnd, AASISTLBackEnd
    from asdf.networks.ssl_detector import BackEnd, SSLDetector
    from asdf.networks.wav2vec2 import Wav2Vec2FrontEnd

__all__ = [
    "AASIST",
    "AASIST_L",
    "SSL_AASIST",
    "SSL_AASIST_L",
    "SSL_ASP",
    "SSL_MHFA",
    "SSL_SLS",
    "AASISTBackEnd",
    "AASISTLBackEnd",
    "ASPBackEnd",
    "BackEnd",
    "DetectorNetwork",
    "FrontEnd",
    "MHFABackEnd",
    "Nes2NetXBackEnd",
    "SLSBackEnd",
    "SSLDetector",
    "SSL_Nes2NetX",
    "Wav2Vec2FrontEnd",
    "build_network",
    "fixed_samples",
    "front_end_parameters",
    "scoring_length",
    "summary",
]

_HOMES = {
    "AASIST": "aasist",
    "AASIST_L": "aasist",
    "SSL_AASIST": "ssl_aasist",
    "SSL_AASIST_L": "ssl_aasist",
    "SSL_ASP": "pooling",
    "SSL_MHFA": "mhfa",
    "SSL_SLS": "sls",
    "SSL_Nes2NetX": "nes2net",
    "AASISTBackEnd": "ssl_aasist",
    "AASISTLBackEnd": "ssl_aasist",
    "ASPBackEnd": "pooling",
    "BackEnd": "ssl_detector",
    "DetectorNetwork": "interface",
    "FrontEnd": "front_end",
    "MHFABackEnd": "mhfa",
    "Nes2NetXBackEnd": "nes2net",
    "SLSBackEnd": "sls",
    "SSLDetector": "ssl_detector",
    "Wav2Vec2FrontEnd": "wav2vec2",
    "build_network": "build",
    "fixed_samples": "interface",
    "front_end_parameters": "interface",
    "scoring_length": "interface",
    "summary": "build",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

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
    from asdf.networks.front_end import Wav2Vec2FrontEnd
    from asdf.networks.interface import DetectorNetwork, front_end_parameters, scoring_length
    from asdf.networks.ssl_aasist import SSL_AASIST, AASISTBackEnd
    from asdf.networks.weights import load_detector_weights

__all__ = [
    "AASIST",
    "AASIST_L",
    "SSL_AASIST",
    "AASISTBackEnd",
    "DetectorNetwork",
    "Wav2Vec2FrontEnd",
    "build_network",
    "front_end_parameters",
    "load_detector_weights",
    "scoring_length",
    "summary",
]

_HOMES = {
    "AASIST": "aasist",
    "AASIST_L": "aasist",
    "SSL_AASIST": "ssl_aasist",
    "AASISTBackEnd": "ssl_aasist",
    "DetectorNetwork": "interface",
    "Wav2Vec2FrontEnd": "front_end",
    "build_network": "build",
    "front_end_parameters": "interface",
    "load_detector_weights": "weights",
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

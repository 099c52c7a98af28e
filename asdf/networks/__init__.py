"""Networks: front ends, back ends, and building by class path.

The names imported below are what configs and recipes use. None of them is imported before it is
used, so that `import asdf.networks` needs no torch.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asdf.networks.aasist import AASIST, AASIST_L
    from asdf.networks.back_ends.back_end import BackEnd
    from asdf.networks.back_ends.conformer import (
        ConformerBackEnd,
        SSL_Conformer,
        SSL_ConformerTCM,
        TCMBackEnd,
    )
    from asdf.networks.back_ends.ecapa import SSL_ECAPA, ECAPABackEnd
    from asdf.networks.back_ends.lcnn import SSL_LCNN, LCNNBackEnd
    from asdf.networks.back_ends.linear import LinearBackEnd, SSL_Linear
    from asdf.networks.back_ends.mhfa import SSL_MHFA, MHFABackEnd
    from asdf.networks.back_ends.mlp import MLPBackEnd
    from asdf.networks.back_ends.nes2net import Nes2NetXBackEnd, SSL_Nes2NetX
    from asdf.networks.back_ends.pooling import SSL_ASP, ASPBackEnd
    from asdf.networks.back_ends.resnet import ResNet18BackEnd, SSL_ResNet18
    from asdf.networks.back_ends.sls import SSL_SLS, SLSBackEnd
    from asdf.networks.back_ends.ssl_aasist import (
        SSL_AASIST,
        SSL_AASIST_L,
        AASISTBackEnd,
        AASISTLBackEnd,
    )
    from asdf.networks.back_ends.timed_back_end import TimedBackEnd
    from asdf.networks.build import build_network, summary
    from asdf.networks.class_heads import ClassHead, CosineClassHead, LinearClassHead
    from asdf.networks.composed import ComposedDetector
    from asdf.networks.front_ends.front_end import FrontEnd
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
        fixed_samples,
        frame_hop,
        front_end_parameters,
        scoring_length,
    )
    from asdf.networks.outputs import Outputs
    from asdf.networks.rawnet2 import RawNet2
    from asdf.networks.ssl_detector import SSLDetector


def _read_imports() -> dict[str, str]:
    """Read the module of each name from the imports above, which only type checkers make."""
    modules = {}
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module is None:
            continue
        if node.module.startswith(f"{__name__}."):
            for alias in node.names:
                modules[alias.name] = node.module
    return modules


_MODULES = _read_imports()
# Names in capitals first, as linters sort them.
__all__ = sorted(_MODULES, key=lambda name: (not name.isupper(), name))


def __getattr__(name: str) -> Any:
    if name == "load_detector_weights":
        # Scripts of the first version import it from here.
        return import_module("asdf.interchange").load_detector_weights
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

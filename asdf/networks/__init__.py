"""Networks: front ends, back ends, and building by class path.

The names imported below are for configs and recipes. Each is imported only when it is first used,
so that `import asdf.networks` does not load torch.
"""

# ruff: noqa: F401 (names for others)

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.doors import open_door
from asdf.settings.class_files import network_modules

if TYPE_CHECKING:
    from asdf.networks.aasist import AASIST, AASIST_L
    from asdf.networks.back_ends.back_end import BackEnd, TimedBackEnd
    from asdf.networks.build import build_network, summary
    from asdf.networks.front_ends.front_end import FrontEnd
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
    __name__, ClassHead=_HEADS, CosineClassHead=_HEADS, LinearClassHead=_HEADS, **network_modules()
)
__all__ = sorted({*__all__, *network_modules()})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

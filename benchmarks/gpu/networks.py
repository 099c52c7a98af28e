"""The networks of the checks: all of ASDF's, small if possible, with random weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from asdf.networks import build_network, fixed_samples
from asdf.settings.sections import Sections
from benchmarks.gpu.presence import apply
from benchmarks.nets import make_settings

_CLASSES = (
    "SSL_MHFA",
    "AASIST_L",
    "SSL_Nes2NetX",
    "SSL_AASIST",
    "SSL_AASIST_L",
    "AASIST",
    "SSL_ASP",
    "SSL_SLS",
)
_WAVLM = {"front_end.architecture": "wavlm_base", "front_end.layer": 2}
SAMPLES = 64600

# Settings that differ from those of `settings_of`, by name.
NETWORKS: dict[str, dict[str, Any]] = {
    **{name: {"network.network_class": f"asdf.networks.{name}"} for name in _CLASSES},
    "WavLM + MHFA": {"network.network_class": "asdf.networks.SSL_MHFA", **_WAVLM},
}


def settings_of(name: str, **more: Any) -> Sections:
    """Return settings of a network: tiny front end, minibatches of 2 clips of 4 s, and Adam."""
    settings = make_settings("tiny", 2, SAMPLES, "auto")
    settings.network.optimizer = "adam"
    return apply(settings, {**NETWORKS[name], **more})


def build(name: str) -> nn.Module:
    """Build the network on the CPU, with the same weights each time."""
    torch.manual_seed(0)
    return build_network(settings_of(name))


def clip_samples(network: nn.Module) -> int:
    """Return a length that the network accepts: short, unless its length is fixed."""
    return fixed_samples(network) or 32000

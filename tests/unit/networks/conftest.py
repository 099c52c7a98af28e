"""Networks of the tiny front end by their class."""

import torch
from torch import nn

from asdf.interchange import build_pretrained
from asdf.settings.sections import Sections


def build(settings: Sections, name: str) -> nn.Module:
    settings.network.network_class = f"asdf.networks.{name}"
    torch.manual_seed(0)
    return build_pretrained(settings)

"""Small back ends on the tiny front end."""

import pytest
import torch
from torch import nn

from asdf.interchange import build_pretrained
from asdf.settings.sections import Sections


@pytest.fixture
def small(tiny) -> Sections:
    tiny.back_end.mhfa_embedding = 24
    tiny.back_end.sls_hidden = 32
    tiny.back_end.sls_samples = 8000
    tiny.back_end.conformer_dimension = 16
    tiny.back_end.conformer_blocks = 2
    tiny.back_end.lcnn_projection = 32
    tiny.back_end.resnet_projection = 20
    tiny.back_end.resnet_embedding = 40
    tiny.back_end.ecapa_channels = 16
    tiny.back_end.mamba_dimension = 16
    tiny.back_end.mamba_blocks = 2
    tiny.back_end.spectra_samples = 8000
    return tiny


def build(settings: Sections, name: str) -> nn.Module:
    settings.network.network_class = f"asdf.networks.{name}"
    torch.manual_seed(0)
    return build_pretrained(settings)

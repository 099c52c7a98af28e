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
    return tiny


def build(settings: Sections, name: str) -> nn.Module:
    settings.network.network_class = f"asdf.networks.{name}"
    torch.manual_seed(0)
    return build_pretrained(settings)

"""A learnable front end: Gabor filters, Gaussian pooling, energies normalised per channel."""

import math
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import conv1d

from asdf.networks import FrontEnd
from asdf.settings import OwnSettings, setting

KERNEL = 201


@dataclass
class LeafSettings(OwnSettings, section_name="leaf"):
    """The learnable front end."""

    filters: int = setting(24, "filters", at_least=4, at_most=256)


class Leaf(nn.Module):
    def __init__(self, filters, window, hop):
        super().__init__()
        highest = 2595 * math.log10(1 + 7800 / 700)
        mels = torch.linspace(0, highest, filters + 2)[1:-1]
        self.centre = nn.Parameter(2 * math.pi * 700 * (10 ** (mels / 2595) - 1) / 16000)
        self.width = nn.Parameter(torch.full((filters,), 40.0))
        self.pool = nn.Parameter(torch.full((filters,), 0.4))
        self.smooth = nn.Parameter(torch.full((filters, 1), 0.04))
        self.taps = window - KERNEL + 1
        self.hop = hop

    def forward(self, waveforms_BT):
        filters = len(self.centre)
        times = torch.arange(-(KERNEL // 2), KERNEL // 2 + 1, device=waveforms_BT.device)
        width = self.width[:, None]
        bells = torch.exp(-(times**2) / (2 * width**2)) / (math.sqrt(2 * math.pi) * width)
        angles = self.centre[:, None] * times
        kernels = torch.cat([bells * angles.cos(), bells * angles.sin()])[:, None]
        parts = conv1d(waveforms_BT[:, None], kernels)
        energies = parts[:, :filters] ** 2 + parts[:, filters:] ** 2
        places = torch.linspace(-1, 1, self.taps, device=waveforms_BT.device)
        pools = torch.exp(-0.5 * (places / self.pool.clamp(0.05, 1)[:, None]) ** 2)
        pools = (pools / pools.sum(1, keepdim=True))[:, None]
        pooled = conv1d(energies, pools, stride=self.hop, groups=filters).clamp(min=1e-7)
        share = self.smooth.clamp(0, 1)
        mean = pooled[..., :1]
        means = []
        for frame in pooled.split(1, dim=2):
            mean = (1 - share) * mean + share * frame
            means.append(mean)
        normalised = pooled / (1e-6 + torch.cat(means, dim=2)) ** 0.96
        return ((normalised + 2) ** 0.5 - 2**0.5).transpose(1, 2)


class LeafFrontEnd(FrontEnd):
    own_settings = LeafSettings
    window = 600
    hop = 160

    def set_sizes(self, settings):
        self.dimension = self.sections.leaf.filters

    def make_model(self, settings):
        return Leaf(self.dimension, self.window, self.hop)

    def states(self, waveforms_BT):
        yield self.mask(self.model(waveforms_BT))

"""MesoInception-4 on maps of values and times: two inception blocks, two convolutions, two layers.

Invariant: layers, sizes and parameter names are those of the authors' code, except for the output,
which has one logit per class here and one value there. Both convolutions share one batch norm.

Source: Afchar et al., "MesoNet: a Compact Facial Video Forgery Detection Network", WIFS 2018; Kawa
et al., "Improved DeepFake Detection Using Whisper Features", Interspeech 2023;
piotrkawa/deepfake-whisper-features, `src/models/meso_net.py`.

Shapes: B utterances, M maps, C channels, F values, N times, E embedding values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.back_end import BackEnd, FrameMaps
from asdf.networks.casting import in_full_precision
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.functions import is_traced
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, setting
from asdf.settings.sections import Sections

CHANNELS = 16
POOL = 32
"""Number of values, and of times, pooled into one: three poolings by 2 and one by 4."""
# Output channels of the four paths of each block.
_FIRST = (1, 4, 4, 2)
_SECOND = (2, 4, 4, 2)


@dataclass
class MesoNetSizes(OwnSettings, section_name="back_end"):
    """Size of MesoNet."""

    mesonet_pooled: int = setting(1024, unit="values", at_least=1)
    """SSL_MesoNet: values that the output of its convolutions is averaged to"""


class MesoNetBackEnd(BackEnd):
    """MesoInception-4 on maps of at least 32 values and 32 times.

    Args:
        pooled: Number of values to which the final map is averaged.
    """

    short_name = "mesonet"
    shortest_frames = POOL

    def __init__(self, maps: FrameMaps, pooled: int) -> None:
        super().__init__()
        self.make_maps = maps
        # The published names, including the spelling.
        self._add_block("Incption1", maps.maps, _FIRST)
        self._add_block("Incption2", sum(_FIRST), _SECOND)
        self.conv1 = nn.Conv2d(sum(_SECOND), CHANNELS, kernel_size=5, padding=2, bias=False)
        self.bn1 = nn.BatchNorm2d(CHANNELS)
        self.conv2 = nn.Conv2d(CHANNELS, CHANNELS, kernel_size=5, padding=2, bias=False)
        self.dropout = nn.Dropout(0.5)
        self.pooled = pooled
        self.fc1 = nn.Linear(pooled, CHANNELS)
        self.fc2 = nn.Linear(CHANNELS, 2)

    @classmethod
    def from_settings(cls, settings: Sections, front_end: FrontEnd) -> BackEnd:
        return cls(FrameMaps(front_end, POOL), MesoNetSizes.of(settings).mesonet_pooled)

    def forward(self, features_BLC: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, 16) and logits (batch, 2)."""
        x_BMFN = self.make_maps(features_BLC)
        x_BCFN = self._run_block("Incption1", x_BMFN)
        x_BCFN = self._run_block("Incption2", x_BCFN)
        x_BCFN = self.bn1(self.conv1(x_BCFN).relu())
        x_BCFN = F.max_pool2d(x_BCFN, 2)
        x_BCFN = self.bn1(self.conv2(x_BCFN).relu())
        x_BCFN = F.max_pool2d(x_BCFN, 4)
        x_BV = self.dropout(x_BCFN.flatten(1))
        pooled_BP = average_shares(x_BV, self.pooled)
        embeddings_BE = F.leaky_relu(self.fc1(pooled_BP), 0.1)
        dropped_BE = self.dropout(embeddings_BE)
        return embeddings_BE, in_full_precision(self.fc2, dropped_BE)

    def _add_block(self, name: str, channels_in: int, ways: tuple[int, ...]) -> None:
        """Add the layers of a block: a 1x1 convolution, and further ones in each path."""
        first, *others = ways
        self.add_module(f"{name}_conv1", _look(channels_in, first))
        for reach, channels in enumerate(others, start=1):
            wide = nn.Conv2d(
                channels, channels, kernel_size=3, padding=reach, dilation=reach, bias=False
            )
            way = f"{name}_conv{reach + 1}"
            self.add_module(f"{way}_1", _look(channels_in, channels))
            self.add_module(f"{way}_2", wide)
        norm = nn.BatchNorm2d(sum(ways))
        self.add_module(f"{name}_bn", norm)

    def _run_block(self, name: str, x_BMFN: Tensor) -> Tensor:
        first = self.get_submodule(f"{name}_conv1")
        outputs = [first(x_BMFN)]
        for number in (2, 3, 4):
            narrow = self.get_submodule(f"{name}_conv{number}_1")
            wide = self.get_submodule(f"{name}_conv{number}_2")
            outputs.append(wide(narrow(x_BMFN)))
        norm = self.get_submodule(f"{name}_bn")
        normed_BCFN = norm(torch.cat(outputs, dim=1))
        return F.max_pool2d(normed_BCFN, 2)


def average_shares(x_BV: Tensor, shares: int) -> Tensor:
    """Return the means of equal parts of each row, as `adaptive_avg_pool1d`, which may overlap."""
    if not is_traced():
        means_B1P = F.adaptive_avg_pool1d(x_BV.unsqueeze(1), shares)
        return means_B1P.squeeze(1)
    # torch's pooling fixes the length in graphs. In float64, since cumulative sums are subtracted.
    values = x_BV.shape[1]
    numbers_P = torch.arange(shares, device=x_BV.device)
    starts_P = numbers_P * values // shares
    ends_P = (numbers_P * values + values + shares - 1) // shares
    sums_BV = F.pad(x_BV.double().cumsum(dim=1), (1, 0))
    of_shares_BP = sums_BV[:, ends_P] - sums_BV[:, starts_P]
    means_BP = of_shares_BP / (ends_P - starts_P)
    return means_BP.to(x_BV.dtype)


def _look(channels_in: int, channels_out: int) -> nn.Conv2d:
    """Return a 1x1 convolution."""
    return nn.Conv2d(channels_in, channels_out, kernel_size=1, bias=False)


class SSL_MesoNet(PairedDetector):
    """A front end and MesoInception-4: Whisper-MesoNet (Kawa et al., Interspeech 2023)."""

    back_end_class = MesoNetBackEnd
    paper = "Kawa et al., Interspeech 2023"

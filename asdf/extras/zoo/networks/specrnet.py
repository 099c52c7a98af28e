"""SpecRNet: residual blocks with attention on maps of values and times, then recurrent layers.

Invariant: layers, sizes and parameter names are those of the authors' code, except for the output,
which has one logit per class here and one value there. As in AASIST's blocks, the first batch norm
of later blocks is in the state dict but not computed.

Source: Kawa et al., "SpecRNet: Towards Faster and More Accessible Audio DeepFake Detection",
TrustCom 2022; piotrkawa/deepfake-whisper-features, `src/models/specrnet.py`.

Shapes: B utterances, M maps, C channels, F values, N times, E embedding values.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.back_end import BackEnd, FrameMaps
from asdf.networks.casting import in_full_precision
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.sections import Sections

CHANNELS = (20, 64, 64)
POOL = 64
"""Number of values, and of times, pooled into one: six poolings by 2."""
RECURRENT = 64
EMBEDDING = 128
# Indices of the blocks in the authors' names.
_BLOCKS = (0, 2, 4)
_SLOPE = 0.3


class SpecRNetBlock(nn.Module):
    """Two convolutions around a batch norm, plus their input, and pooling by 2."""

    def __init__(self, channels_in: int, channels_out: int, first: bool) -> None:
        super().__init__()
        if not first:
            # In published files; the authors' code computes it without using its output.
            self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, kernel_size=3, padding=1)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, kernel_size=3, padding=1)
        self.conv_downsample: nn.Module | None = None
        if channels_in != channels_out:
            self.conv_downsample = nn.Conv2d(channels_in, channels_out, kernel_size=1)

    def forward(self, x_BCFN: Tensor) -> Tensor:
        """Map (batch, channels_in, F, N) to (batch, channels_out, F // 2, N // 2)."""
        inside_BCFN = self.bn2(self.conv1(x_BCFN))
        inside_BCFN = F.leaky_relu(inside_BCFN, _SLOPE)
        out_BCFN: Tensor = self.conv2(inside_BCFN)
        if self.conv_downsample is not None:
            x_BCFN = self.conv_downsample(x_BCFN)
        return F.max_pool2d(out_BCFN + x_BCFN, 2)

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the first batch norm."""
        if hasattr(self, "bn1"):
            yield from self.bn1.parameters()


class SpecRNetBackEnd(BackEnd):
    """SpecRNet on maps of at least 64 values and 64 times."""

    short_name = "specrnet"
    shortest_frames = POOL

    def __init__(self, maps: FrameMaps) -> None:
        super().__init__()
        self.make_maps = maps
        self.first_bn = nn.BatchNorm2d(maps.maps)
        channels_in = maps.maps
        for number, channels in zip(_BLOCKS, CHANNELS, strict=True):
            block = SpecRNetBlock(channels_in, channels, first=number == 0)
            # In a Sequential, as in the published names.
            self.add_module(f"block{number}", nn.Sequential(block))
            attention = nn.Linear(channels, channels)
            self.add_module(f"fc_attention{number}", nn.Sequential(attention))
            channels_in = channels
        self.bn_before_gru = nn.BatchNorm2d(channels_in)
        self.gru = nn.GRU(
            channels_in, RECURRENT, num_layers=2, batch_first=True, bidirectional=True
        )
        self.fc1_gru = nn.Linear(2 * RECURRENT, EMBEDDING)
        self.fc2_gru = nn.Linear(EMBEDDING, 2)

    @classmethod
    def from_settings(cls, settings: Sections, front_end: FrontEnd) -> BackEnd:
        return cls(FrameMaps(front_end, POOL))

    def forward(self, features_BLC: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, 128) and logits (batch, 2)."""
        x_BMFN = self.make_maps(features_BLC)
        x_BCFN = F.selu(self.first_bn(x_BMFN))
        for number in _BLOCKS:
            block = self.get_submodule(f"block{number}")
            attention = self.get_submodule(f"fc_attention{number}")
            x_BCFN = block(x_BCFN)
            mean_BC = x_BCFN.mean(dim=(2, 3))
            weights_BC = attention(mean_BC).sigmoid()
            weights_BC11 = weights_BC[:, :, None, None]
            # Scaled and shifted by the same weights, as in RawNet2.
            weighted_BCFN = x_BCFN * weights_BC11 + weights_BC11
            x_BCFN = F.max_pool2d(weighted_BCFN, 2)
        x_BCFN = F.selu(self.bn_before_gru(x_BCFN))
        means_BCN = x_BCFN.mean(dim=2)
        times_BNC = means_BCN.transpose(1, 2)
        states_BNC = self.gru(times_BNC)[0]
        # The last time step, as in the authors' code, where the backward pass has read one step.
        embeddings_BE = self.fc1_gru(states_BNC[:, -1])
        return embeddings_BE, in_full_precision(self.fc2_gru, embeddings_BE)


class SSL_SpecRNet(PairedDetector):
    """A front end and SpecRNet (Kawa et al., TrustCom 2022)."""

    back_end_class = SpecRNetBackEnd
    paper = "Kawa et al., TrustCom 2022"

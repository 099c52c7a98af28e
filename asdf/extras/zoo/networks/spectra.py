"""lab260's Spectra: pre-emphasised speech, a front end, a small network, then AASIST or ECAPA-TDNN.

Invariant: parameter names and numbers are those of the published networks. Their AASIST has four
branches instead of two, positional encodings of frames, no SELU between the graphs of a branch, and
uses the first batch norm of its residual blocks; in Spectra-AASIST3, all maps are Kolmogorov-Arnold
layers.

Source: the model cards and `model.py` of lab260/Spectra-0, Spectra-AASIST and Spectra-AASIST3 on
the hub; Borodin et al., "AASIST3: KAN-Enhanced AASIST Speech Deepfake Detection", ASVspoof 2024
workshop; Desplanques et al., "ECAPA-TDNN", Interspeech 2020.

Shapes: B utterances, L frames, F feature values, P projected values, C channels, S spectral and N
temporal nodes, J nodes of both, D values of a node, E embedding values.

A Kolmogorov-Arnold layer: each output is a sum of learned functions of one input each.

Invariant: parameter names, knots and numbers are those of the layers in published detectors
(lab260's Spectra-AASIST3). A function is a B-spline plus a scaled PReLU.

Source: Liu et al., "KAN: Kolmogorov-Arnold Networks", ICLR 2025; de Boor, "A Practical Guide to
Splines", 1978 (B-splines of evenly spaced knots).

Shapes: X rows, C values coming in, D going out, K basis functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.back_end import SizedBackEnd
from asdf.networks.back_ends.ecapa import ContextualStatistics, NormOfPooled, Res2NetBlock
from asdf.networks.back_ends.graph_attention import (
    GraphAttention,
    GraphPool,
    HeterogeneousGraphAttention,
    MakeMap,
)
from asdf.networks.back_ends.graph_back_end import ResidualBlock
from asdf.networks.casting import in_full_precision, without_autocast
from asdf.networks.interface import repeat_short
from asdf.networks.ssl_detector import PairedDetector, SSLDetector
from asdf.settings.fields import FRAME_SAMPLES, MAX_CLIP_SAMPLES, OwnSettings, setting
from asdf.settings.sections import Sections

INTERVALS = 16
DEGREE = 4
# Initial values of the splines, small so that the PReLU dominates at first.
_FIRST_VALUES = 0.05 / INTERVALS


class SplineMap(nn.Module):
    """A layer from `dim_in` to `dim_out` values, for any leading shape."""

    grid: Tensor

    def __init__(self, dim_in: int, dim_out: int) -> None:
        super().__init__()
        steps = torch.arange(-DEGREE, INTERVALS + DEGREE + 1)
        # Knots on [-1, 1], and beyond them as the degree requires; equal for all inputs.
        knots = steps * (2 / INTERVALS) - 1
        self.register_buffer("grid", knots.expand(dim_in, -1).contiguous())
        self.base_weight = nn.Parameter(torch.empty(dim_out, dim_in))
        self.spline_weight = nn.Parameter(torch.empty(dim_out, dim_in, INTERVALS + DEGREE))
        self.spline_scaler = nn.Parameter(torch.empty(dim_out, dim_in))
        self.base_activation = nn.PReLU()
        nn.init.kaiming_uniform_(self.base_weight, a=math.sqrt(5))
        nn.init.kaiming_uniform_(self.spline_scaler, a=math.sqrt(5))
        nn.init.uniform_(self.spline_weight, -_FIRST_VALUES, _FIRST_VALUES)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., dim_in) to (..., dim_out)."""
        x_XC = x.reshape(-1, self.base_weight.shape[1])
        weights_DCK = self.spline_weight * self.spline_scaler.unsqueeze(2)
        bases_XCK = self.bases(x_XC)
        splines_XD = F.linear(bases_XCK.flatten(1), weights_DCK.flatten(1))
        activated_XC = self.base_activation(x_XC)
        base_XD = F.linear(activated_XC, self.base_weight)
        out_XD = base_XD + splines_XD
        return out_XD.reshape(*x.shape[:-1], -1)

    def bases(self, x_XC: Tensor) -> Tensor:
        """Return the values of the basis functions, (rows, dim_in, 20); zero beyond the knots.

        Between two knots, five of them are nonzero polynomials of the distance from the left knot.
        """
        width_C = self.grid[:, 1] - self.grid[:, 0]
        position_XC = (x_XC - self.grid[:, 0]) / width_C
        between_XC = position_XC.floor()
        intervals = self.grid.shape[1] - 1
        is_known = (between_XC >= 0) & (between_XC < intervals)
        # Beyond the knots any valid index will do, since the values there are multiplied by 0.
        between_XC = torch.where(is_known, between_XC, 0)
        way_XC = torch.where(is_known, position_XC - between_XC, 0)
        # The five quartic B-splines on integer knots.
        rest_XC = 1 - way_XC
        middle_XC = way_XC * rest_XC
        quartics = [
            *(rest_XC**4, _shoulder(way_XC), 11 + 12 * middle_XC + 6 * middle_XC**2),
            *(_shoulder(rest_XC), way_XC**4),
        ]
        values_XC5 = torch.stack(quartics, dim=-1) / 24 * is_known.unsqueeze(2)
        numbers_5 = torch.arange(DEGREE + 1, device=x_XC.device)
        places_XC5 = between_XC.long().unsqueeze(2) + numbers_5
        rows, values = x_XC.shape
        functions = self.grid.shape[1] - 1 + DEGREE
        room_XCK = x_XC.new_zeros(rows, values, functions)
        # Drop functions that begin before the first knot or end after the last.
        return room_XCK.scatter(2, places_XC5, values_XC5)[:, :, DEGREE:-DEGREE]


def _shoulder(way: Tensor) -> Tensor:
    """Return 24 times the spline next to the middle one: 11 at one knot, 1 at the other."""
    square = way**2
    falling = 12 * way + 6 * square
    rising = 12 * way**3 - 4 * way**4
    return 11 - falling + rising


def has_even_knots(grid_CK: Tensor) -> bool:
    """Whether the knots are evenly spaced, as the formulas assume."""
    steps = grid_CK.diff(dim=1)
    return bool((steps > 0).all()) and torch.allclose(steps, steps[:, :1].expand_as(steps))


PROJECTED = 128
POSITIONS = 400
PRE_EMPHASIS = 0.97
POOL = 3
_CHANNELS = (1, 32, 32, 64, 64, 64, 64)
_WIDE, _NARROW = 64, 32
_RATIO = 0.5
_TEMPERATURE, _JOINT_TEMPERATURE = 2.0, 100.0
_BRANCHES = 4
_ECAPA_CHANNELS = 128
_ECAPA_SPLITS = 8
_ECAPA_DILATIONS = (2, 3, 4, 5)
_ECAPA_AGGREGATED = 1536
_ECAPA_ATTENTION = 256


class Bridge(nn.Module):
    """Two linear layers from the front end's values to 128 values."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(dimension, PROJECTED),
            nn.SELU(),
            nn.Dropout(0.1),
            nn.Linear(PROJECTED, PROJECTED),
            nn.Dropout(0.1),
        )

    def forward(self, features_BLF: Tensor) -> Tensor:
        return self.mlp(features_BLF)


class Branch(nn.Module):
    """A branch: joint attention of both graphs, pooling, and a second residual attention."""

    def __init__(self, make_map: MakeMap) -> None:
        super().__init__()
        self.master = nn.Parameter(torch.randn(1, 1, _WIDE))
        self.HtrgGAT_layer_ST1 = HeterogeneousGraphAttention(
            _WIDE, _NARROW, _JOINT_TEMPERATURE, make_map
        )
        self.HtrgGAT_layer_ST2 = HeterogeneousGraphAttention(
            _NARROW, _NARROW, _JOINT_TEMPERATURE, make_map
        )
        for attention in (self.HtrgGAT_layer_ST1, self.HtrgGAT_layer_ST2):
            # The published networks have none here.
            attention.add_module("selu", nn.Identity())
        self.pool_hS = GraphPool(_RATIO, _NARROW, make_map)
        self.pool_hT = GraphPool(_RATIO, _NARROW, make_map)
        self.drop_way = nn.Dropout(0.2)

    def forward(self, temporal_BND: Tensor, spectral_BSD: Tensor) -> list[Tensor]:
        """Return temporal and spectral nodes and the master node."""
        parts = self.HtrgGAT_layer_ST1(temporal_BND, spectral_BSD, self.master)
        temporal_BND, spectral_BSD, master_B1D = parts
        spectral_BSD = self.pool_hS(spectral_BSD)
        temporal_BND = self.pool_hT(temporal_BND)
        before = [temporal_BND, spectral_BSD, master_B1D]
        refined = self.HtrgGAT_layer_ST2(*before)
        return [self.drop_way(first + more) for first, more in zip(before, refined, strict=True)]


class PreactivatedBlock(ResidualBlock):
    """AASIST's residual block with its first batch norm in use."""

    def forward(self, x_BCSN: Tensor) -> Tensor:
        inside = x_BCSN
        if hasattr(self, "bn1"):
            inside = self.selu(self.bn1(x_BCSN))
        out_BCSN: Tensor = self.conv2(self.selu(self.bn2(self.conv1(inside))))
        if self.changes_channels:
            x_BCSN = self.conv_downsample(x_BCSN)
        return out_BCSN + x_BCSN

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield nothing."""
        yield from ()


class MapEncoder(nn.Module):
    """Features as a map of values and times, pooled by 3, followed by six residual blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.first_bn = nn.BatchNorm2d(1)
        self.first_bn1 = nn.BatchNorm2d(_CHANNELS[-1])
        blocks = []
        for number, (channels_in, channels_out) in enumerate(pairwise(_CHANNELS)):
            block = PreactivatedBlock(channels_in, channels_out, first=number == 0, pool=False)
            blocks.append(nn.Sequential(block))
        self.enc = nn.Sequential(*blocks)

    def forward(self, x_BLP: Tensor) -> Tensor:
        map_B1PL = x_BLP.transpose(1, 2).unsqueeze(1).abs()
        pooled_B1SN = F.max_pool2d(map_B1PL, POOL)
        x_B1SN = F.selu(self.first_bn(pooled_B1SN))
        encoded_BCSN = self.enc(x_B1SN)
        return F.selu(self.first_bn1(encoded_BCSN))


class FourBranches(nn.Module):
    """The graphs of Spectra-AASIST, from projected frames to embeddings and logits."""

    def __init__(self, make_map: MakeMap) -> None:
        super().__init__()
        channels = _CHANNELS[-1]
        self.attention = nn.Sequential(
            nn.Conv2d(channels, 128, kernel_size=1),
            nn.SELU(),
            nn.BatchNorm2d(128),
            nn.Conv2d(128, channels, kernel_size=1),
        )
        self.pos_S = nn.Parameter(torch.randn(1, PROJECTED // POOL, channels))
        self.pos_T = nn.Parameter(torch.randn(1, POSITIONS, PROJECTED))
        self.GAT_layer_S = GraphAttention(channels, _WIDE, _TEMPERATURE, make_map)
        self.GAT_layer_T = GraphAttention(channels, _WIDE, _TEMPERATURE, make_map)
        for number in range(1, _BRANCHES + 1):
            self.add_module(f"branch{number}", Branch(make_map))
        self.pool_S = GraphPool(_RATIO, _WIDE, make_map)
        self.pool_T = GraphPool(_RATIO, _WIDE, make_map)
        self.out_layer = make_map(5 * _NARROW, 2)
        self.enc = MapEncoder()
        self.drop = nn.Dropout(0.5)

    def forward(self, x_BLP: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, 160) and logits (batch, 2)."""
        x_BCSN = self.enc(x_BLP + self.pos_T[:, : x_BLP.shape[1]])
        scores_BCSN = self.attention(x_BCSN)
        # One attention serves both graphs: over time for spectral nodes, over bands for temporal
        # ones.
        over_time = scores_BCSN.softmax(dim=3)
        over_bands = scores_BCSN.softmax(dim=2)
        spectral_BCS = (x_BCSN * over_time).sum(dim=3)
        temporal_BCN = (x_BCSN * over_bands).sum(dim=2)
        # The graphs are small, and their pooling has to distinguish similar scores.
        with without_autocast(x_BLP):
            kind = self.pos_S.dtype
            spectral_BSD = spectral_BCS.transpose(1, 2).to(kind)
            temporal_BND = temporal_BCN.transpose(1, 2).to(kind)
            spectral_BSD = self.GAT_layer_S(spectral_BSD + self.pos_S)
            temporal_BND = self.GAT_layer_T(temporal_BND)
            spectral_BSD = self.pool_S(spectral_BSD)
            temporal_BND = self.pool_T(temporal_BND)
            results = []
            for number in range(1, _BRANCHES + 1):
                branch = self.get_submodule(f"branch{number}")
                results.append(branch(temporal_BND, spectral_BSD))
            largest = [torch.stack(parts).amax(dim=0) for parts in zip(*results, strict=True)]
            temporal_BND, spectral_BSD, master_B1D = largest
            embeddings_BE = torch.cat(
                [
                    temporal_BND.abs().amax(dim=1),
                    temporal_BND.mean(dim=1),
                    spectral_BSD.abs().amax(dim=1),
                    spectral_BSD.mean(dim=1),
                    master_B1D.squeeze(1),
                ],
                dim=1,
            )
            logits_B2: Tensor = self.out_layer(self.drop(embeddings_BE))
        return embeddings_BE, logits_B2


@dataclass
class SpectraSizes(OwnSettings, section_name="back_end"):
    """Length that recordings are repeated to."""

    spectra_samples: int = setting(
        64600, unit="samples", at_least=FRAME_SAMPLES, at_most=MAX_CLIP_SAMPLES
    )
    """SSL_SpectraAASIST, SSL_SpectraAASIST3, SSL_SpectraECAPA: length that shorter recordings are
    repeated to"""


class SpectraAASISTBackEnd(SizedBackEnd):
    """Spectra-AASIST on features (batch, frames, dimension) with 3 to 400 frames.

    Attributes:
        make_map: Class of its maps.
    """

    short_name = "spectra_aasist"
    size_settings = ()
    shortest_frames = POOL
    make_map: ClassVar[MakeMap] = nn.Linear

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.bridge = Bridge(dimension)
        self.aasist = FourBranches(type(self).make_map)

    def forward(self, features_BLF: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, 160) and logits (batch, 2) of the first 400 frames."""
        return self.aasist(self.bridge(features_BLF[:, :POSITIONS]))


class SpectraAASIST3BackEnd(SpectraAASISTBackEnd):
    """Spectra-AASIST with Kolmogorov-Arnold layers for all maps of the graphs."""

    short_name = "spectra_aasist3"
    make_map: ClassVar[MakeMap] = SplineMap


class SpectraECAPA(nn.Module):
    """ECAPA-TDNN with four blocks, and one linear layer on the pooled statistics."""

    def __init__(self) -> None:
        super().__init__()
        channels = _ECAPA_CHANNELS
        self.conv1 = nn.Conv1d(PROJECTED, channels, kernel_size=5, padding=2)
        self.bn1 = nn.BatchNorm1d(channels)
        for number, dilation in enumerate(_ECAPA_DILATIONS, start=1):
            self.add_module(f"layer{number}", Res2NetBlock(channels, _ECAPA_SPLITS, dilation))
        self.layer5 = nn.Conv1d(len(_ECAPA_DILATIONS) * channels, _ECAPA_AGGREGATED, kernel_size=1)
        # Only its attention: the variances differ; see `_pool`.
        self.attention = ContextualStatistics(_ECAPA_AGGREGATED, _ECAPA_ATTENTION).attention
        self.bn5 = NormOfPooled(2 * _ECAPA_AGGREGATED)
        self.fc6 = nn.Linear(2 * _ECAPA_AGGREGATED, 2)

    def forward(self, x_BLP: Tensor) -> tuple[Tensor, Tensor]:
        """Return the pooled statistics (batch, 3072) and logits (batch, 2)."""
        convolved_BCL = self.conv1(x_BLP.transpose(1, 2))
        x_BCL = self.bn1(convolved_BCL.relu())
        outputs = []
        for number in range(1, len(_ECAPA_DILATIONS) + 1):
            out_BCL = self.get_submodule(f"layer{number}")(x_BCL)
            outputs.append(out_BCL)
            # Each block gets the sum of all previous outputs.
            x_BCL = x_BCL + out_BCL
        aggregated_BCL = self.layer5(torch.cat(outputs, dim=1)).relu()
        pooled_BE = self.bn5(self._pool(aggregated_BCL))
        return pooled_BE, in_full_precision(self.fc6, pooled_BE)

    def _pool(self, x_BCL: Tensor) -> Tensor:
        """Return mean and deviation, weighted by an attention that sees those of the utterance."""
        # Its input variances are unbiased, the weighted ones are not.
        variance_BC1 = x_BCL.var(dim=2, keepdim=True)
        deviation_BC1 = variance_BC1.clamp(min=1e-4).sqrt()
        mean_BC1 = x_BCL.mean(dim=2, keepdim=True)
        context = [x_BCL, mean_BC1.expand_as(x_BCL), deviation_BC1.expand_as(x_BCL)]
        scores_BCL = self.attention(torch.cat(context, dim=1))
        weights_BCL = scores_BCL.softmax(dim=2)
        mean_BC = (weights_BCL * x_BCL).sum(dim=2)
        squares_BCL = (x_BCL - mean_BC.unsqueeze(2)).square()
        variance_BC = (weights_BCL * squares_BCL).sum(dim=2)
        deviation_BC = variance_BC.clamp(min=1e-4).sqrt()
        return torch.cat([mean_BC, deviation_BC], dim=1)


class SpectraECAPABackEnd(SizedBackEnd):
    """Spectra-0 on features (batch, frames, dimension) with at least two frames."""

    short_name = "spectra_ecapa"
    size_settings = ()
    shortest_frames = 2

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.bridge = Bridge(dimension)
        self.ecapa_tdnn = SpectraECAPA()

    def forward(self, features_BLF: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, 3072) and logits (batch, 2)."""
        return self.ecapa_tdnn(self.bridge(features_BLF))


class PreEmphasised(SSLDetector):
    """A front end on pre-emphasised waveforms of at least `back_end.spectra_samples` samples.

    Attributes:
        longest_frames: Number of frames for which the back end has positions; None for no limit.
    """

    longest_frames: ClassVar[int | None] = None
    paper = "lab260, 2026"
    further_inputs = ()

    def __init__(self, settings: Sections) -> None:
        super().__init__(settings)
        # Repeated after the pre-emphasis, as published; before it, each seam would be a step.
        self.shortest_input = max(self.shortest_input, SpectraSizes.of(settings).spectra_samples)
        self.longest_input: int | None = None
        if self.longest_frames is not None:
            # The most samples that give no frame beyond the last position.
            self.longest_input = self.front_end.min_samples(self.longest_frames + 1) - 1

    def front_end_features(self, waveforms_BT: Tensor) -> Any:
        """Compute the features of waveforms (batch, samples) after the pre-emphasis."""
        first_B1 = waveforms_BT[:, :1]
        before_BT = PRE_EMPHASIS * waveforms_BT[:, :-1]
        differences_BT = waveforms_BT[:, 1:] - before_BT
        emphasised_BT = torch.cat([first_B1, differences_BT], dim=1)
        emphasised_BT = repeat_short(emphasised_BT, self.shortest_input)
        return super().front_end_features(emphasised_BT[:, : self.longest_input])

    def scoring_length(self, samples: int) -> int:
        """Return the samples up to the end of the front end's last whole window."""
        length = super().scoring_length(samples)
        return length if self.longest_input is None else min(length, self.longest_input)


class SSL_SpectraAASIST(PreEmphasised, PairedDetector):
    """wav2vec 2.0 and AASIST with four branches: lab260's Spectra-AASIST."""

    back_end_class = SpectraAASISTBackEnd
    longest_frames = POSITIONS


class SSL_SpectraAASIST3(PreEmphasised, PairedDetector):
    """Spectra-AASIST with Kolmogorov-Arnold layers: lab260's Spectra-AASIST3."""

    back_end_class = SpectraAASIST3BackEnd
    longest_frames = POSITIONS


class SSL_SpectraECAPA(PreEmphasised, PairedDetector):
    """wav2vec 2.0 and ECAPA-TDNN: lab260's Spectra-0."""

    back_end_class = SpectraECAPABackEnd

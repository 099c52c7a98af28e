"""LCNN: convolutions with max feature maps, then bidirectional LSTM layers and a mean over time.

Invariant: layers, sizes and parameter names are those of the LFCC-LCNN baseline of ASVspoof 2021,
except for the output, which has one logit per class here and one value there.

Source: Lavrentyeva et al., "STC Antispoofing Systems for the ASVspoof2019 Challenge", Interspeech
2019; Wang and Yamagishi, "A Comparative Study on Recent Neural Spoofing Countermeasures for
Synthetic Speech Detection", Interspeech 2021; asvspoof-challenge/2021, LA/Baseline-LFCC-LCNN.

Shapes: B utterances, L frames, F feature values, C channels, M frames and S values after pooling, E
embedding values.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import BackEnd, FrameMaps, SizedBackEnd, TimedBackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, proportion, setting
from asdf.settings.sections import Sections

POOL = 16
"""Number of frames, and of feature values, pooled into one: four poolings by 2."""
CHANNELS = 32


class MaxFeatureMap(nn.Module):
    """The maximum of channels i and i + C / 2, for each i in the first half of C channels."""

    def forward(self, x_BCLF: Tensor) -> Tensor:
        # Not unflatten, since ONNX's exporter would make its batch size a constant.
        batch, channels, *others = x_BCLF.shape
        halves_B2CLF = x_BCLF.reshape(batch, 2, int(channels) // 2, *others)
        return halves_B2CLF.amax(dim=1)


class BidirectionalLSTM(nn.Module):
    """An LSTM layer in both directions, with half of the values from each."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.l_blstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, x_BME: Tensor) -> Tensor:
        return self.l_blstm(x_BME)[0]


class _LCNNLayers(nn.Module):
    """The layers of LCNN, for any number of input maps."""

    def add_layers(self, maps: int, values: int, dropout: float) -> int:
        """Add the layers for maps of `values` values; return the size of the embedding."""
        width = values // POOL * CHANNELS
        self.m_transform = _make_convolutions(maps, dropout)
        self.m_before_pooling = nn.Sequential(BidirectionalLSTM(width), BidirectionalLSTM(width))
        self.m_output_act = nn.Linear(width, 2)
        return width

    def look_at(self, x_BMLF: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings, logits and frames before the mean, for maps (batch, maps, L, F)."""
        x_BCMS = self.m_transform(x_BMLF)
        x_BME = x_BCMS.transpose(1, 2).flatten(2)
        # A skip connection around the recurrent layers.
        frames_BME = self.m_before_pooling(x_BME) + x_BME
        embeddings_BE = frames_BME.mean(dim=1)
        logits_B2 = in_full_precision(self.m_output_act, embeddings_BE)
        return embeddings_BE, logits_B2, frames_BME


@dataclass
class LCNNSizes(OwnSettings, section_name="back_end"):
    """Sizes of LCNN."""

    lcnn_projection: int = setting(0, unit="values", at_least=0)
    """SSL_LCNN: values that features are projected to first; 0: not"""
    lcnn_dropout: float = proportion(0.7)
    """SSL_LCNN, SSL_MapLCNN: dropout after the convolutions"""


class LCNNBackEnd(_LCNNLayers, SizedBackEnd, TimedBackEnd):
    """LCNN on features with at least 16 values, and at least 16 frames.

    Args:
        projected: Number of values after a linear layer on the features; 0 for no such layer.

    Raises:
        UsageError: fewer than 16 values are left.
    """

    short_name = "lcnn"
    size_settings = ("lcnn_projection", "lcnn_dropout")
    shortest_frames = POOL
    frame_step = POOL

    def __init__(self, dimension: int, projected: int, dropout: float) -> None:
        super().__init__()
        self.projection: nn.Linear | None = None
        if projected:
            self.projection = nn.Linear(dimension, projected)
            dimension = projected
        if dimension < POOL:
            raise UsageError(
                f"back_end.lcnn_projection: LCNN pools {POOL} feature values to one, but receives "
                f"only {dimension}. Set it to {POOL} or more, or choose a front end with more "
                "values."
            )
        self.frame_dimension = self.add_layers(1, dimension, dropout)

    def with_frames(self, features_BLF: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, dimension // 16 * 32), logits, frames before the mean."""
        if self.projection is not None:
            features_BLF = self.projection(features_BLF)
        return self.look_at(features_BLF.unsqueeze(1))


class MapLCNNBackEnd(_LCNNLayers, BackEnd):
    """LCNN on one or two maps of at least 16 values, as in the work on Whisper-MesoNet."""

    short_name = "map_lcnn"
    shortest_frames = POOL

    def __init__(self, maps: FrameMaps, dropout: float) -> None:
        super().__init__()
        self.make_maps = maps
        self.add_layers(maps.maps, maps.values, dropout)

    @classmethod
    def from_settings(cls, settings: Sections, front_end: FrontEnd) -> BackEnd:
        return cls(FrameMaps(front_end, POOL), LCNNSizes.of(settings).lcnn_dropout)

    def forward(self, features_BLC: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, values // 16 * 32) and logits (batch, 2)."""
        x_BMFN = self.make_maps(features_BLC)
        embeddings_BE, logits_B2, _ = self.look_at(x_BMFN.transpose(2, 3))
        return embeddings_BE, logits_B2


def _make_convolutions(maps: int, dropout: float) -> nn.Sequential:
    """Build nine convolutions with a max feature map each, with the indices of published names."""
    return nn.Sequential(
        *_convolve(maps, 32, kernel_size=5),
        nn.MaxPool2d(2),
        *_convolve(32, 32, kernel_size=1),
        nn.BatchNorm2d(32, affine=False),
        *_convolve(32, 48, kernel_size=3),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(48, affine=False),
        *_convolve(48, 48, kernel_size=1),
        nn.BatchNorm2d(48, affine=False),
        *_convolve(48, 64, kernel_size=3),
        nn.MaxPool2d(2),
        *_convolve(64, 64, kernel_size=1),
        nn.BatchNorm2d(64, affine=False),
        *_convolve(64, 32, kernel_size=3),
        nn.BatchNorm2d(32, affine=False),
        *_convolve(32, 32, kernel_size=1),
        nn.BatchNorm2d(32, affine=False),
        *_convolve(32, CHANNELS, kernel_size=3),
        nn.MaxPool2d(2),
        nn.Dropout(dropout),
    )


def _convolve(channels_in: int, channels_out: int, kernel_size: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(channels_in, 2 * channels_out, kernel_size, padding=kernel_size // 2)
    return convolution, MaxFeatureMap()


class SSL_LCNN(PairedDetector):
    """wav2vec 2.0 and LCNN with LSTM layers (Wang and Yamagishi, Interspeech 2021)."""

    back_end_class = LCNNBackEnd
    paper = "Wang and Yamagishi, Interspeech 2021"


class SSL_MapLCNN(PairedDetector):
    """A front end and LCNN on maps: Whisper-LCNN (Kawa et al., Interspeech 2023)."""

    back_end_class = MapLCNNBackEnd
    paper = "Kawa et al., Interspeech 2023"

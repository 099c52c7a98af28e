"""Sensitive layer selection: a weight for each encoder layer, computed from the utterance.

Invariant: parameter names and numbers are those of the published network. Its first linear layer
reads all frames at once, so it takes only one length: other recordings are cut or repeated, as in
the authors' code.

Source: Zhang et al., "Audio Deepfake Detection with Self-Supervised XLS-R and SLS Classifier",
ACM Multimedia 2024.

Shapes: B utterances, N encoder layers, L frames, C feature values, X pooled values of all frames, E
embedding values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import BackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import FRAME_SAMPLES, MAX_CLIP_SAMPLES, OwnSettings, setting
from asdf.settings.sections import Sections

POOL = 3


@dataclass
class SLSSizes(OwnSettings, section_name="back_end"):
    """Length and size of SLS."""

    sls_samples: int = setting(
        64600, unit="samples", at_least=FRAME_SAMPLES, at_most=MAX_CLIP_SAMPLES
    )
    """SSL_SLS: the only length it takes; network.train_clip_size has to equal it"""
    sls_hidden: int = setting(1024, unit="values", at_least=1)
    """SSL_SLS: size of the embedding"""


class SLSBackEnd(BackEnd):
    """SLS on the outputs of the encoder layers without final norm, for exactly `frames` frames."""

    short_name = "sls"
    one_length = "back_end.sls_samples"
    takes = "layer_outputs"
    shortest_frames = POOL

    def __init__(self, dimension: int, frames: int, hidden: int) -> None:
        super().__init__()
        pooled = (dimension // POOL) * (frames // POOL)
        self.first_bn = nn.BatchNorm2d(1)
        self.fc0 = nn.Linear(dimension, 1)
        self.fc1 = nn.Linear(pooled, hidden)
        self.fc3 = nn.Linear(hidden, 2)

    @classmethod
    def from_settings(cls, settings: Sections, front_end: FrontEnd) -> BackEnd:
        """Build it for recordings of `back_end.sls_samples` samples.

        Raises:
            UsageError: this length gives too few frames, or the front end has no layers.
        """
        sizes = SLSSizes.of(settings)
        samples = sizes.sls_samples
        frames = front_end.frames(samples)
        if frames < POOL or front_end.layers == 0:
            raise UsageError(
                f"SSL_SLS needs at least {POOL} frames and one encoder layer: back_end.sls_samples "
                f"= {samples} gives {frames}, and the front end gives {front_end.layers} layers "
                f"with front_end.layer = {settings.front_end.layer!r}."
            )
        back_end = cls(front_end.dimension, frames, sizes.sls_hidden)
        back_end.fixed_samples = samples
        return back_end

    def forward(self, layers: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, hidden) and log probabilities (batch, 2).

        The published scores are the log probabilities.
        """
        means = [layer_BLC.mean(dim=1) for layer_BLC in layers]
        means_BNC = torch.stack(means, dim=1)
        weights_BN1 = self.fc0(means_BNC).sigmoid()
        weights_BN11 = weights_BN1.unsqueeze(3)
        # Summed layer by layer, since a tensor of all weighted layers would take N times the
        # memory.
        mixed_BLC = layers[0] * weights_BN11[:, 0]
        for number, layer_BLC in enumerate(layers[1:], 1):
            mixed_BLC = mixed_BLC + layer_BLC * weights_BN11[:, number]
        normed_B1LC = F.selu(self.first_bn(mixed_BLC.unsqueeze(1)))
        pooled_BX = F.max_pool2d(normed_B1LC, POOL).flatten(1)
        embeddings_BE = F.selu(self.fc1(pooled_BX))
        logits_B2 = F.selu(in_full_precision(self.fc3, embeddings_BE))
        return embeddings_BE, logits_B2.log_softmax(dim=1)


class SSL_SLS(PairedDetector):
    """wav2vec 2.0 and sensitive layer selection (Zhang et al., ACM MM 2024), for one length."""

    back_end_class = SLSBackEnd
    paper = "Zhang et al., ACM MM 2024"

"""Heads of transformers' audio classifiers, with named classes, some of them bona fide.

Invariant: parameter names are those of transformers below `back_end.`. The score, the difference of
the two logits, is the log-odds of the bona fide classes: each logit is the log-sum-exp over the
classes of its side.

Source: transformers, `...ForSequenceClassification`, `WhisperForAudioClassification` and
`ASTForAudioClassification`; issflab/spoof_SUPERB, `models/linear_head.py`.

Shapes: B utterances, L frames, C feature values, E embedding values, N classes, T samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import BackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import MAX_CLIP_SAMPLES, OwnSettings, setting
from asdf.settings.sections import Sections

VARIANCE_FLOOR = 1e-7
"""Number that transformers' extractors add to a waveform's variance before normalising."""


@dataclass
class ClassSizes(OwnSettings, section_name="back_end"):
    """Sizes of heads with named classes."""

    classifier_classes: tuple[str, ...] = setting(("spoof", "bona fide"), check="not_empty")
    """SSL_Classifier: names of its classes, as in id2label of a config.json of transformers"""
    classifier_bona_fide: tuple[int, ...] = setting((1,), check="unique", at_least=0)
    """SSL_Classifier: numbers of the bona fide classes, counted from 0; all others are spoof"""
    classifier_projection: int = setting(256, unit="values", at_least=1)
    """SSL_Classifier, SSL_SUPERB: values that frames are projected to before their mean"""
    classifier_pooling: Literal["mean", "tokens"] = "mean"
    """SSL_Classifier: what is classified: 'mean', of the projected frames; 'tokens', of the two
    tokens before the patches of an Audio Spectrogram Transformer"""
    classifier_padding: int = setting(0, unit="samples", at_least=0, at_most=MAX_CLIP_SAMPLES)
    """SSL_Classifier: waveforms are padded with silence to this length, and longer ones are cut, as
    for Whisper; 0: neither"""
    classifier_family: str = setting("wav2vec2", check="not_empty")
    """SSL_Classifier: model type that `export --format transformers_classifier` writes"""


class ClassesBackEnd(BackEnd):
    """A projection, the mean over time and a linear layer for named classes.

    With `back_end.classifier_pooling = 'tokens'`, the head of the Audio Spectrogram Transformer:
    the mean of its two tokens, a norm and a linear layer.

    Raises:
        UsageError: a bona fide class does not exist, or all or none of the classes are bona fide.
    """

    short_name = "classes"

    def __init__(self, settings: Sections, front_end: FrontEnd) -> None:
        super().__init__()
        sizes = ClassSizes.of(settings)
        names = sizes.classifier_classes
        bona_fide = sizes.classifier_bona_fide
        last = len(names) - 1
        if not (set(bona_fide) <= set(range(len(names))) and 0 < len(bona_fide) <= last):
            raise UsageError(
                f"back_end.classifier_bona_fide = {bona_fide!r}: there are {len(names)} classes "
                f"(back_end.classifier_classes), counted from 0 to {last}. At least one of them "
                "must be bona fide, and at least one spoof."
            )
        self.merge = _MergedClasses(len(names), bona_fide)
        self.classifier: nn.Linear | _TokenHead
        if sizes.classifier_pooling == "tokens":
            self.classifier = _TokenHead(front_end, len(names))
        else:
            self.projector = nn.Linear(front_end.dimension, sizes.classifier_projection)
            self.classifier = nn.Linear(sizes.classifier_projection, len(names))

    def forward(self, features_BLC: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, values) and logits (batch, 2)."""
        if isinstance(self.classifier, _TokenHead):
            # AST puts a class token and a distillation token before the patches.
            embeddings_BE = features_BLC[:, :2].mean(dim=1)
            return embeddings_BE, self.merge(self.classifier(embeddings_BE))
        embeddings_BE = self.projector(features_BLC).mean(dim=1)
        classes_BN = in_full_precision(self.classifier, embeddings_BE)
        return embeddings_BE, self.merge(classes_BN)


class _TokenHead(nn.Module):
    def __init__(self, front_end: FrontEnd, classes: int) -> None:
        super().__init__()
        config = getattr(front_end.model, "config", None)
        # AST's head has the epsilon of its encoder, by default that of AST's configuration.
        floor = getattr(config, "layer_norm_eps", 1e-12)
        self.layernorm = nn.LayerNorm(front_end.dimension, eps=floor)
        self.dense = nn.Linear(front_end.dimension, classes)

    def forward(self, x_BC: Tensor) -> Tensor:
        return in_full_precision(self.dense, self.layernorm(x_BC))


class _MergedClasses(nn.Module):
    """Logits (batch, 2) of spoof and bona fide, merged from the logits of all classes."""

    spoof: Tensor
    bona_fide: Tensor

    def __init__(self, classes: int, bona_fide: tuple[int, ...]) -> None:
        super().__init__()
        spoof = [number for number in range(classes) if number not in bona_fide]
        self.is_pair = classes == 2
        # Not persistent, since the settings hold them.
        self.register_buffer("spoof", torch.tensor(spoof), persistent=False)
        self.register_buffer("bona_fide", torch.tensor(bona_fide), persistent=False)

    def forward(self, classes_BN: Tensor) -> Tensor:
        sides = (classes_BN[:, self.spoof], classes_BN[:, self.bona_fide])
        if self.is_pair:
            # One class per side: return the logits unchanged, to the last bit.
            return torch.cat(sides, dim=1)
        return torch.stack([side_BN.logsumexp(dim=1) for side_BN in sides], dim=1)


class SSL_SUPERB(PairedDetector):
    """Any encoder with SUPERB's utterance-level head, as trained in spoof_SUPERB.

    The head is a projection, the mean over time and a linear layer, as in transformers'
    classifiers; the benchmark's features are `front_end.layer = 'weighted'` with
    `front_end.repeat_last_frame`.
    """

    back_end_class: ClassVar[type[BackEnd]] = ClassesBackEnd
    paper = "Yang et al., Interspeech 2021"


class SSL_Classifier(PairedDetector):
    """Any encoder with the head of transformers' audio classifiers."""

    back_end_class: ClassVar[type[BackEnd]] = ClassesBackEnd
    further_inputs = ()

    def __init__(self, settings: Sections) -> None:
        super().__init__(settings)
        self.front_end.variance_floor = VARIANCE_FLOOR
        self.padded_samples = ClassSizes.of(settings).classifier_padding

    def front_end_features(self, waveforms_BT: Tensor) -> Tensor | list[Tensor]:
        """Compute the features of waveforms, padded with silence if the encoder requires it.

        Waveforms longer than `back_end.classifier_padding` are then cut.
        """
        if self.padded_samples:
            waveforms_BT = waveforms_BT[:, : self.padded_samples]
            missing = self.padded_samples - waveforms_BT.shape[1]
            waveforms_BT = F.pad(waveforms_BT, (0, missing))
        return super().front_end_features(waveforms_BT)

    def scoring_length(self, samples: int) -> int:
        """Return how many leading samples the score is computed from."""
        if self.padded_samples:
            return min(samples, self.padded_samples)
        return super().scoring_length(samples)

"""Heads of a network that say which source an utterance is of: attack, vocoder, language ...

Invariant: a head computes from embeddings alone, so it is a part of any network that returns them;
its logits are log odds, of which a softmax makes the probabilities of the classes. It is computed
in float32, as what is scored.

Shapes: B utterances, E numbers in an embedding, K classes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asdf.networks.attached import CLASS_HEAD, Attached, attach, part_of
from asdf.networks.full_precision import in_full_precision, without_autocast
from asdf.networks.outputs import as_outputs
from asdf.settings.sections import Sections
from asdf.trials.sources import BonaFideRule, SourceClasses

PREFIX = f"{CLASS_HEAD}."


class ClassHead(Attached):
    """A head for the classes of a column: the base class of the project's, and of your own.

    Name yours in `source.head = 'my_head.MyHead'`, with `my_head.py` in the recipe's folder:

        class MyHead(ClassHead):
            def __init__(self, settings, dimension, classes):
                super().__init__(settings, dimension, classes)
                self.layers = torch.nn.Sequential(
                    torch.nn.Linear(dimension, 64), torch.nn.ReLU(), torch.nn.Linear(64, classes)
                )

            def logits(self, embeddings_BE):
                return self.layers(embeddings_BE)

    Attributes:
        dimension: numbers in an embedding.
        column: Column of the trial list, whose values are the classes.
        names: Names of the classes, in the order of the logits.
        bona_fide: Class of the bona fide trials (`source.bona_fide`).
    """

    column: str
    names: tuple[str, ...]
    bona_fide: BonaFideRule

    def __init__(self, settings: Sections, dimension: int, classes: int) -> None:
        """Build the head; random weights are drawn from torch's default generator.

        Args:
            settings: all sections, as plain dataclasses.
            classes: their number.
        """
        super().__init__()
        self.dimension = dimension

    @abstractmethod
    def logits(self, embeddings_BE: Tensor) -> Tensor:
        """Return the logits of the classes, (batch, classes)."""

    def training_logits(self, logits_BK: Tensor, classes_B: Tensor) -> Tensor:
        """Return the logits whose cross-entropy is the loss; here those that are scored.

        Args:
            classes_B: the true class of each utterance, from 0 on.
        """
        return logits_BK

    def complete(self, outputs: Any) -> Any:
        """Return the outputs with the logits of the classes."""
        whole = as_outputs(outputs)
        return whole.with_extra("sources", self.logits(whole.embeddings))


class LinearClassHead(ClassHead):
    """A linear layer, trained by cross-entropy."""

    def __init__(self, settings: Sections, dimension: int, classes: int) -> None:
        super().__init__(settings, dimension, classes)
        self.output = nn.Linear(dimension, classes)

    def logits(self, embeddings_BE: Tensor) -> Tensor:
        """Return the outputs of the layer, in the precision of its weights."""
        return in_full_precision(self.output, embeddings_BE)


class CosineClassHead(ClassHead):
    """Cosines with a vector per class, trained by additive-margin softmax.

    The cosine of the true class counts as cos - m in training (Wang et al., IEEE Signal Processing
    Letters 2018, equation 6). Logits are the cosines times `source.scale`; m is `source.margin`.

    Attributes:
        weight_KE: the vectors, of any length.
    """

    def __init__(self, settings: Sections, dimension: int, classes: int) -> None:
        super().__init__(settings, dimension, classes)
        self._scale = settings.source.scale
        self._margin = settings.source.margin
        self.weight_KE = nn.Parameter(torch.randn(classes, dimension) / math.sqrt(dimension))

    def logits(self, embeddings_BE: Tensor) -> Tensor:
        """Return the scaled cosines."""
        with without_autocast(embeddings_BE):
            directions_BE = F.normalize(embeddings_BE.to(self.weight_KE.dtype), dim=1)
            return self._scale * directions_BE @ F.normalize(self.weight_KE, dim=1).T

    def training_logits(self, logits_BK: Tensor, classes_B: Tensor) -> Tensor:
        """Return the logits with the margin in those of the true classes."""
        is_true_BK = F.one_hot(classes_B, logits_BK.shape[1]).bool()
        return torch.where(is_true_BK, logits_BK - self._scale * self._margin, logits_BK)


def attach_class_head(network: nn.Module, head: ClassHead, classes: SourceClasses) -> None:
    """Make `head` a part of `network`, whose outputs have the logits of `classes` from now on.

    Raises:
        UsageError: the network has something else of that name.
    """
    head.column = classes.column
    head.names = classes.names
    head.bona_fide = classes.bona_fide
    attach(network, CLASS_HEAD, head, "a head for source tracing")


def source_classes_of(network: nn.Module) -> SourceClasses | None:
    """Return the classes of sources that `network` traces; None where it traces none."""
    head = class_head_of(network)
    return None if head is None else SourceClasses(head.column, head.names, head.bona_fide)


def class_head_of(network: nn.Module) -> ClassHead | None:
    """Return the head for source tracing that is a part of `network`, if there is one."""
    head = part_of(network, CLASS_HEAD)
    return head if isinstance(head, ClassHead) else None

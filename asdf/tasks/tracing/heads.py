"""Heads of a network for the source of an utterance: attack, vocoder, language ...

Invariant: a head computes from embeddings alone, so it works with any network that returns them.
Its logits are log odds, and their softmax is the probabilities of the classes. It computes in
float32, as for all scores.

Shapes: B utterances, E numbers in an embedding, K classes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asdf.networks.attached import Head, HeadExtra
from asdf.networks.autocast import in_full_precision, without_autocast
from asdf.networks.interface import Outputs
from asdf.settings.sections import MAX_LAYER_WIDTH, Sections
from asdf.tasks.tracing.source_scores import (
    BONA_FIDE_RULES,
    BonaFideRule,
    SourceClasses,
    Sources,
    name_sources,
)


class ClassHead(Head):
    """Base class of heads for the classes of a column, the project's and your own.

    Name yours in `source.head = 'my_head.MyHead'`, with `my_head.py` in the recipe's folder.

    Attributes:
        dimension: Number of components of an embedding.
        column: Column of the trial list with the classes.
        names: Names of the classes, in the order of the logits.
        bona_fide: Class of the bona fide trials (`source.bona_fide`).

    Examples:
        >>> import torch
        >>> from asdf.networks import ClassHead
        >>> from asdf.settings import Sections
        >>> class MyHead(ClassHead):
        ...     def __init__(self, settings, dimension, classes):
        ...         super().__init__(settings, dimension, classes)
        ...         self.layers = torch.nn.Sequential(
        ...             torch.nn.Linear(dimension, 64), torch.nn.ReLU(),
        ...             torch.nn.Linear(64, classes),
        ...         )
        ...
        ...     def logits(self, embeddings_BE):
        ...         return self.layers(embeddings_BE)
        >>> head = MyHead(Sections(), dimension=8, classes=3)
        >>> head.logits(torch.zeros(2, 8)).shape
        torch.Size([2, 3])
    """

    key = "sources"
    column: str
    names: tuple[str, ...]
    bona_fide: BonaFideRule

    def __init__(self, settings: Sections, dimension: int, classes: int) -> None:
        """Build the head; random weights are drawn from torch's default generator.

        Args:
            settings: All sections, as plain dataclasses.
            classes: Number of classes.
        """
        super().__init__()
        self.dimension = dimension

    @abstractmethod
    def logits(self, embeddings_BE: Tensor) -> Tensor:
        """Return the logits of the classes, (batch, classes)."""

    def training_logits(self, logits_BK: Tensor, classes_B: Tensor) -> Tensor:
        """Return the logits for the cross-entropy loss; by default the scored logits.

        Args:
            classes_B: True class of each utterance, from 0.
        """
        return logits_BK

    @property
    def classes(self) -> SourceClasses:
        """Classes of the logits."""
        return SourceClasses(self.column, self.names, self.bona_fide)

    def values(self, outputs: Outputs) -> Tensor:
        """Return the logits of the classes."""
        return self.logits(outputs.embeddings)

    def describe(self) -> dict[str, Any]:
        """Return the dimension and the classes."""
        return {
            "dimension": self.dimension,
            "column": self.column,
            "bona_fide": self.bona_fide,
            "classes": list(self.names),
        }

    @classmethod
    def restore(cls, entry: Mapping[str, Any], settings: Sections) -> ClassHead:
        """Return the head of an entry. Raises a ValueError if it does not describe classes."""
        texts = [entry.get(key) for key in ("column", "bona_fide")]
        classes = entry.get("classes")
        # The entry is from an untrusted file, which must not cost any amount of memory.
        if not isinstance(classes, list | tuple) or not 2 <= len(classes) <= MAX_LAYER_WIDTH:
            raise ValueError("no classes")
        dimension = entry.get("dimension")
        # In Python, True is an int.
        has_dimension = type(dimension) is int and 0 < dimension <= MAX_LAYER_WIDTH
        has_texts = all(isinstance(text, str) for text in (*texts, *classes))
        if not has_dimension or not has_texts or entry["bona_fide"] not in BONA_FIDE_RULES:
            raise ValueError("no dimension, column or class")
        head = cls(settings, entry["dimension"], len(classes))
        head.name_classes(SourceClasses(entry["column"], tuple(classes), entry["bona_fide"]))
        return head

    def name_classes(self, classes: SourceClasses) -> None:
        """Set the classes of the logits."""
        self.column = classes.column
        self.names = classes.names
        self.bona_fide = classes.bona_fide

    def extra(self) -> Traced:
        """Return the extra that turns the logits into classes with probabilities."""
        return Traced(self.classes)


class Traced(HeadExtra):
    """The logits of the classes of sources, as an extra."""

    def __init__(self, classes: SourceClasses) -> None:
        super().__init__(ClassHead.key)
        self.classes = classes

    def describe(self, row: np.ndarray, samples: int) -> Sources:
        """Return the probabilities of the classes."""
        return name_sources(self.classes.column, self.classes.names, row)


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
        weight_KE: Vectors of the classes, of any length, (K, E).
    """

    def __init__(self, settings: Sections, dimension: int, classes: int) -> None:
        super().__init__(settings, dimension, classes)
        self._scale = settings.source.scale
        self._margin = settings.source.margin
        self.weight_KE = nn.Parameter(torch.randn(classes, dimension) / math.sqrt(dimension))

    def logits(self, embeddings_BE: Tensor) -> Tensor:
        """Return the scaled cosines."""
        # In bfloat16, cosines near 1 are multiples of 1/256, and classes could tie.
        with without_autocast(embeddings_BE):
            directions_BE = F.normalize(embeddings_BE.to(self.weight_KE.dtype), dim=1)
            return self._scale * directions_BE @ F.normalize(self.weight_KE, dim=1).T

    def training_logits(self, logits_BK: Tensor, classes_B: Tensor) -> Tensor:
        """Return the logits, with the margin applied to the true classes."""
        is_true_BK = F.one_hot(classes_B, logits_BK.shape[1]).bool()
        return torch.where(is_true_BK, logits_BK - self._scale * self._margin, logits_BK)

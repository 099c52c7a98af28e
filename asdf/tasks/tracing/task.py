"""Source tracing as a task, enabled by `source.column`: its loss term, its files and its results.

Invariant: the class of a clip follows from the list, the settings and the clip's key alone; a clip
without a class is ignored. A clip of only bona fide frames is treated as bona fide
(`source.bona_fide`), even if its utterance is spoofed elsewhere.

Shapes: B utterances, K classes.

Heads of a network for the source of an utterance: attack, vocoder, language ...

Invariant: a head computes from embeddings alone, so it works with any network that returns them.
Its logits are log odds, and their softmax is the probabilities of the classes. It computes in
float32, as for all scores.

Shapes: B utterances, E numbers in an embedding, K classes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asdf.data.datasets import ClipFrames
from asdf.errors import AsdfError, UsageError
from asdf.networks.attached import Head, attach_head
from asdf.networks.casting import in_full_precision, without_autocast
from asdf.networks.extras import Extra, HeadExtra
from asdf.networks.interface import Outputs
from asdf.networks.output_check import compute_on_noise, left_unchanged
from asdf.runs.files import write_text
from asdf.runs.log import LOG
from asdf.runs.seeds import derived_seed
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import MAX_LAYER_WIDTH, Sections
from asdf.tables.renderers import as_json
from asdf.tasks.tracing.source_measures import (
    confusion_svg,
    describe_traced,
    evaluate_sources,
    sources_record,
    sources_text,
)
from asdf.tasks.tracing.source_scores import (
    BONA_FIDE_CLASS,
    BONA_FIDE_RULES,
    BonaFideRule,
    SourceClasses,
    Sources,
    SourceScores,
    classes_of_list,
    classes_of_trials,
    name_sources,
    read_source_scores,
    sources_file,
    trace,
    write_source_scores,
)
from asdf.text import and_more
from asdf.training.losses.loss import ClipKey, Term
from asdf.training.task import ScoredSet, Task
from asdf.trials.trial_list import TrialList


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


HEAD = "source.head"
_SHOWN = 12
# Number of classes of a head that is tested before the training list is known.
_CLASSES = 3
# Replicates for the intervals that a run reports; `evaluate` draws more.
_REPLICATES = 200


class SourceTerm(Term):
    """Cross-entropy of the classes, for the utterances that have one."""

    name = "sources"

    def __init__(
        self, head: ClassHead, classes: np.ndarray, weight: float, frames: ClipFrames | None = None
    ) -> None:
        """Learn `classes`, the class of each utterance of the list; -1 for none.

        Args:
            frames: Frame labels of the clips, if clips of spoofed utterances may be bona fide.
        """
        self._head = head
        self._classes = torch.from_numpy(classes)
        self._frames = frames
        self.weight = weight

    def targets_of(self, keys: Sequence[ClipKey]) -> Tensor:
        """Return the classes of the clips."""
        classes = self._classes[[index for _, index in keys]]
        # A value such as a language applies to the whole utterance.
        if self._frames is None or self._head.bona_fide == "by_column":
            return classes
        bona_fide = -1
        # `source.classes` may leave this class out.
        if self._head.bona_fide == "class" and BONA_FIDE_CLASS in self._head.names:
            bona_fide = self._head.names.index(BONA_FIDE_CLASS)
        is_bona_fide = torch.from_numpy(self._frames.of_clips(keys)) == 1
        return torch.where(is_bona_fide, bona_fide, classes)

    def counts(self, targets: Tensor) -> Tensor:
        """Return 1 for utterances with a class, and 0 for others."""
        return (targets >= 0).double()

    def per_utterance(self, outputs: Outputs, targets: Tensor) -> Tensor:
        """Return the cross-entropies, in float32 or more."""
        logits_BK = outputs.extras["sources"]
        kind = torch.promote_types(logits_BK.dtype, torch.float32)
        # -1 is not an index; these utterances get 0 below.
        classes_B = targets.clamp(min=0)
        logits_BK = self._head.training_logits(logits_BK.to(kind), classes_B)
        entropies_B = F.cross_entropy(logits_BK, classes_B, reduction="none")
        return torch.where(targets >= 0, entropies_B, 0.0)


def find_head_class(settings: Sections, folder: Path | None) -> type[ClassHead]:
    """Return the class that `source.head` names.

    Args:
        folder: Folder of the recipe, for modules of your own.

    Raises:
        UsageError: no such class exists, or it is not derived from `ClassHead`.
        AsdfError: its module fails when it is imported.
    """
    path = class_path_of(HEAD, settings.source.head)
    return find_class(path, folder, HEAD, ClassHead)  # type: ignore[type-abstract]


def build_source_term(
    network: nn.Module,
    utterances: TrialList,
    settings: Sections,
    folder: Path | None = None,
    frames: ClipFrames | None = None,
) -> SourceTerm:
    """Build the term of `source.column`; its head becomes a part of `network`.

    Args:
        frames: Frame labels of the training clips, for a network with a frame-level head.

    Raises:
        UsageError: the list lacks the column or classes, or the network returns no embeddings.
        AsdfError: the head cannot be built, or its logits are not finite numbers.
    """
    classes = classes_of_list(utterances, settings.source)
    indices = classes_of_trials(utterances, classes)
    head = build_head(network, len(classes.names), settings, folder)
    head.name_classes(classes)
    attach_head(network, head)
    counts = np.bincount(indices[indices >= 0], minlength=len(classes.names))
    counted = [f"{name} {count}" for name, count in zip(classes.names, counts, strict=True)]
    LOG.info(
        "source tracing: %d classes of the column %s: %s; %d of %d training utterances are of none",
        len(classes.names),
        classes.column,
        and_more(counted, _SHOWN),
        (indices < 0).sum(),
        len(indices),
    )
    return SourceTerm(head, indices, settings.source.weight, frames)


def build_head(
    network: nn.Module, classes: int, settings: Sections, folder: Path | None
) -> ClassHead:
    """Build a head for the embeddings of `network`, and test it on noise.

    Raises:
        UsageError: the network returns no embeddings.
        AsdfError: the head cannot be built, or its logits are not finite numbers.
    """
    parameter = next(network.parameters())
    # Parts of a divided network have the same number format.
    form = torch.promote_types(parameter.dtype, torch.float32)
    with left_unchanged(network):
        embeddings = compute_on_noise(network, settings.network, parameter.device).embeddings
    if not isinstance(embeddings, Tensor) or embeddings.dim() != 2:
        raise UsageError(
            f"source.column = {settings.source.column!r}: sources are traced by embeddings (batch, "
            f"numbers), which {settings.network.network_class} does not return. Set source.column "
            "= None, or make its forward return embeddings first."
        )
    kind = find_head_class(settings, folder)
    dimension = embeddings.shape[1]
    name = f"{HEAD}: {settings.source.head}"
    advice = (
        "A head's constructor takes the settings, the dimension of an embedding and the number of "
        "classes; see asdf.networks.ClassHead."
    )
    failed = f"{name}(settings, {dimension}, {classes}) failed"
    # The CPU's generator alone, since weights are drawn there; they depend on the seed alone.
    with torch.random.fork_rng(devices=[]), UserErrors(failed, advice):
        torch.manual_seed(derived_seed(settings.recipe.seed, "class head"))
        head = kind(settings, dimension, classes)
    head = head.to(parameter.device, form)
    with torch.no_grad(), UserErrors(f"{name} fails"):
        logits = head.logits(embeddings)
    shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
    if shape != (len(embeddings), classes) or not logits.isfinite().all():
        raise AsdfError(
            f"{name} returns {shape} as the logits of {len(embeddings)} utterances, or numbers "
            f"that are not finite. It has to return (batch, {classes}). This was seen on noise, "
            "before the first step; nothing was written."
        )
    return head


class SourceTracing(Task):
    """The classes of a column of the trial list, learnt next to detection."""

    key = "sources"
    # Lists for source tracing, such as MLAAD's, may have spoofs alone.
    scores_one_class = True

    @property
    def is_requested(self) -> bool:
        return self.settings.source.column is not None

    def build_term(
        self, network: nn.Module, utterances: TrialList, frames: ClipFrames | None
    ) -> SourceTerm | None:
        if not self.is_requested:
            return None
        return build_source_term(network, utterances, self.settings, self.folder, frames)

    def check(self) -> None:
        find_head_class(self.settings, self.folder)

    def try_on_noise(self, network: nn.Module) -> None:
        # Without names, only the training list determines the number of classes.
        classes = len(self.settings.source.classes or ()) or _CLASSES
        build_head(network, classes, self.settings, self.folder)

    def scores_file(self, score_file: Path) -> Path:
        return sources_file(score_file)

    def write(
        self, score_file: Path, utterances: TrialList, values: np.ndarray, extra: Extra
    ) -> SourceScores:
        assert isinstance(extra, Traced)  # of the head that this task attaches
        traced = trace(utterances, extra.classes, values)
        write_source_scores(sources_file(score_file), traced)
        return traced

    def read(self, score_file: Path) -> SourceScores | None:
        path = sources_file(score_file)
        return read_source_scores(path) if path.exists() else None

    def describe(self, scores: SourceScores) -> str:
        return describe_traced(scores)

    def report(
        self, scored: Sequence[ScoredSet], validated: Sequence[ScoredSet], results: Path
    ) -> str:
        """Measure source tracing; write text, JSON and plots.

        Sets without a trial of a known class are skipped.
        """
        records: list[dict[str, Any]] = []
        texts = []
        for entry in scored:
            traced = self.read(entry.score_file)
            if traced is None or not set(traced.truths) & set(traced.classes):
                continue
            result = evaluate_sources(traced, replicates=_REPLICATES)
            title = f"{entry.network} on {entry.corpus}"
            records.append(sources_record(entry.network, entry.corpus, result))
            texts.append(sources_text(title, result))
            write_text(results / f"sources - {title}.svg", confusion_svg(title, result))
        if not records:
            return ""
        text = "\n\n".join(texts)
        write_text(results / "sources.txt", text + "\n")
        write_text(results / "sources.json", as_json(records, indent=1))
        return f"sources\n{text}"

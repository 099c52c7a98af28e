"""Networks that compare each recording with a reference recording.

Invariant: a reference affects the comparison only through `embed`, as one embedding per recording;
several references of a trial are averaged. Scoring therefore embeds each distinct reference once,
however many trials name it, and a score equals the result of `forward` on the waveforms.

Shapes: B trials, R references of a trial, T samples, E embedding values, 2 classes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from asdf.data.batches import REFERENCES
from asdf.errors import UsageError
from asdf.networks.autocast import without_autocast
from asdf.networks.composed import ComposedDetector
from asdf.networks.interface import DetectorNetwork
from asdf.networks.views import NetworkSections

EMBEDDED = "reference_embeddings"
"""Name of the input of networks that scoring embeds references for."""

_HIDDEN = 16


class PairNetwork(DetectorNetwork):
    """Base class of networks that compare a recording with a reference.

    It embeds both and compares the embeddings. Label 1 and the higher score have the meaning of the
    training list: bona fide speech of the reference's speaker, or two recordings from the same
    generator.

    Examples:
        >>> import torch
        >>> from asdf.networks import PairNetwork, Wav2Vec2FrontEnd
        >>> from asdf.settings import Sections
        >>> class MyPairs(PairNetwork):
        ...     def __init__(self, settings):
        ...         super().__init__(settings)
        ...         self.front_end = Wav2Vec2FrontEnd(settings.front_end)
        ...         self.output = torch.nn.Linear(self.front_end.dimension, 2)
        ...
        ...     def embed(self, waveforms_BT):
        ...         return self.front_end(waveforms_BT).mean(dim=1)
        ...
        ...     def compare(self, tests_BE, references_BE):
        ...         return self.output((tests_BE - references_BE).abs())
        >>> settings = Sections()
        >>> settings.front_end.architecture = "tiny"
        >>> tests_BT, references_BRT = torch.zeros(3, 8000), torch.zeros(3, 1, 8000)
        >>> embeddings_BE, logits_B2 = MyPairs(settings)(tests_BT, references_BRT)
        >>> logits_B2.shape
        torch.Size([3, 2])
    """

    further_inputs: tuple[str, ...] = (REFERENCES,)

    @abstractmethod
    def embed(self, waveforms_BT: Tensor) -> Tensor:
        """Return the embeddings of recordings of equal length, (batch, anything).

        In `eval()` mode, a row must not depend on the other rows.

        Args:
            waveforms_BT: Waveforms (batch, samples) in float32, of tested recordings or references.
        """

    @abstractmethod
    def compare(self, tests_BE: Tensor, references_BE: Tensor) -> Tensor:
        """Return logits (batch, 2), column 1 for pairs that the list labels 1.

        Args:
            tests_BE: Embeddings of the tested recordings, as returned by `embed`.
            references_BE: Embeddings of the references, averaged for trials with several.
        """

    def forward(
        self,
        waveforms_BT: Tensor,
        references: Tensor | None = None,
        reference_embeddings: Tensor | None = None,
    ) -> Any:
        """Return the embeddings of the tested recordings, and the logits of the comparison.

        Args:
            waveforms_BT: Waveforms of the tested recordings, (batch, samples).
            references: Waveforms of their references, (batch, references, samples).
            reference_embeddings: Mean embeddings of the references, (batch, ...), instead of
                waveforms.

        Raises:
            UsageError: both are None.
        """
        if reference_embeddings is None:
            if references is None:
                raise no_reference(type(self).__name__)
            reference_embeddings = self.embed_references(references)
        tests_BE = self.embed(waveforms_BT)
        return tests_BE, self.compare(tests_BE, reference_embeddings)

    def embed_references(self, references_BRT: Tensor) -> Tensor:
        """Return the mean embedding of each trial's references, (batch, anything)."""
        count = references_BRT.shape[1]
        embeddings = self.embed(references_BRT.flatten(0, 1))
        means: Tensor = embeddings.unflatten(0, (-1, count)).mean(dim=1)
        return means


def no_reference(network: str) -> UsageError:
    """Return the error for a recording without the reference that a network needs."""
    return UsageError(
        f"{network} compares each recording with a reference recording, but there is none. Pass "
        "one: Detector.score(recording, reference=...), `python -m asdf score NETWORK FILE "
        "--reference REF`, or a list with the column 'reference' (docs/pairs.md)."
    )


def unwanted_reference(network: str) -> UsageError:
    """Return the error for a reference given to a network that takes none."""
    return UsageError(
        f"{network} does not take a reference: it scores each recording by itself. Leave the "
        "reference out, or use a network that compares pairs (docs/pairs.md)."
    )


def check_pair_class(network_class: type[nn.Module], setting: str) -> None:
    """Refuse a class that takes references but cannot embed them separately.

    Raises:
        UsageError: the class does not derive from `PairNetwork`.
    """
    if not issubclass(network_class, PairNetwork):
        raise UsageError(
            f"{setting}: {network_class.__qualname__} takes references (further_inputs) but is not "
            "derived from asdf.networks.PairNetwork. Scoring needs its embed and compare: each "
            "reference is embedded once for all of its trials."
        )


class ComposedPairNetwork(PairNetwork):
    """The front end and back end of the settings for both sides, then a small comparison.

    The comparison sees five numbers: the cosine similarity of the embeddings, and the back end's
    two logits of each recording. Signs of a spoof in the recording alone therefore count as well as
    its distance from the reference.
    """

    def __init__(self, settings: NetworkSections) -> None:
        super().__init__(settings)
        self.detector = ComposedDetector(settings)
        self.fixed_samples = self.detector.fixed_samples
        self.comparison = self.make_comparison(5)

    @abstractmethod
    def make_comparison(self, inputs: int) -> nn.Module:
        """Return the module from a comparison's numbers, (batch, inputs), to two logits."""

    def embed(self, waveforms_BT: Tensor) -> Tensor:
        """Return the back end's embeddings followed by its two logits, (batch, E + 2)."""
        embeddings, logits_B2 = self.detector(waveforms_BT)
        return torch.cat([embeddings.flatten(1).float(), logits_B2.float()], dim=1)

    def compare(self, tests_BE: Tensor, references_BE: Tensor) -> Tensor:
        """Return the logits of the comparison, (batch, 2)."""
        cosines_B = cosine_similarity(tests_BE[:, :-2], references_BE[:, :-2], dim=1)
        parts = [cosines_B[:, None], tests_BE[:, -2:], references_BE[:, -2:]]
        with without_autocast(tests_BE):
            logits_B2: Tensor = self.comparison(torch.cat(parts, dim=1).float())
        return logits_B2

    def scoring_length(self, samples: int) -> int:
        """Return the number of samples that the detector uses of `samples`."""
        return self.detector.scoring_length(samples)

    def front_end_parameters(self) -> Iterable[nn.Parameter]:
        """Return all parameters of the front end."""
        return self.detector.front_end_parameters()


class CosinePairNetwork(ComposedPairNetwork):
    """A comparison by a weighted sum of the cosine similarity and the logits of both sides."""

    paper: ClassVar[str] = ""

    def make_comparison(self, inputs: int) -> nn.Module:
        """Return a linear layer."""
        return nn.Linear(inputs, 2)


class MLPPairNetwork(ComposedPairNetwork):
    """A comparison with a hidden layer of 16 values, for relations beyond a weighted sum."""

    paper: ClassVar[str] = ""

    def make_comparison(self, inputs: int) -> nn.Module:
        """Return two linear layers with a ReLU between them."""
        return nn.Sequential(nn.Linear(inputs, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 2))

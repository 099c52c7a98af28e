"""How much of a GPU's memory scoring takes: one batch scored on a fake GPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from asdf.data.scoring_plan import batch_samples
from asdf.memory.fake_gpu import fake_gpu
from asdf.memory.outline import outlined_network
from asdf.networks import scoring_length
from asdf.scoring.scorer import scored_length_of
from asdf.settings.sections import Network, Sections
from asdf.trials.how_scored import ScoredLength


@dataclass(frozen=True)
class ScoringBatchMemory:
    """What a batch takes in addition to the network, in bytes of torch's allocator."""

    utterances: int
    samples: int
    activations: int


@dataclass(frozen=True)
class ScoringMemory:
    """What scoring takes, in bytes of torch's allocator.

    Attributes:
        weights: the network's parameters and buffers.
        batches: Batch of as many utterances of a clip's length as fit, and the longest recording;
            one for a network that takes one length only.
    """

    weights: int
    batches: tuple[ScoringBatchMemory, ...]

    @property
    def worst(self) -> ScoringBatchMemory:
        """The batch that takes the most."""
        return max(self.batches, key=lambda batch: batch.activations)


def scoring_memory(
    settings: Sections, architecture: str, folder: Path | None = None, gpu_bytes: int = 0
) -> ScoringMemory:
    """Compute what scoring takes, in the precision of the settings.

    Args:
        architecture: Architecture of the front end, that of the weights where there are any.
        folder: the recipe's folder, where a user's own modules lie.
        gpu_bytes: the whole memory of the GPU, as for `batch_samples`.

    Raises:
        AsdfError: the network cannot be built.
        Exception: whatever a network raises that looks at its numbers.
    """
    rules = settings.network
    in_bf16 = settings.computing.scoring_precision == "bf16"
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=in_bf16)
    with fake_gpu() as counted, torch.no_grad(), autocast:
        network = outlined_network(settings, architecture, folder).eval()
        weights = counted.now
        batches = []
        for batch in largest_batches(rules, scored_length_of(network, rules), gpu_bytes):
            utterances, samples = batch
            counted.peak = counted.now
            network(torch.empty(utterances, scoring_length(network, samples)))
            batches.append(ScoringBatchMemory(utterances, samples, counted.peak - weights))
    return ScoringMemory(weights, tuple(batches))


def largest_batches(
    settings: Network, length: ScoredLength, gpu_bytes: int = 0
) -> list[tuple[int, int]]:
    """Return utterances and samples of the largest batches that can occur.

    Args:
        length: Part of a recording that is scored.
    """
    assert length.max_samples is not None  # settings always have a limit
    budget = batch_samples(settings, gpu_bytes)
    longest = length.max_samples
    usual = min(max(settings.train_clip_size, length.min_samples), longest)
    distinct = dict.fromkeys([usual, longest])
    return [(max(1, budget // samples), samples) for samples in distinct]

"""How much of a GPU's memory scoring takes: one batch scored on a GPU that there is not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from asdf.data.scoring_plan import batch_samples
from asdf.memory.fake_gpu import fake_gpu
from asdf.memory.outline import outlined_network
from asdf.networks import fixed_samples, scoring_length
from asdf.settings.sections import Network, Sections


@dataclass(frozen=True)
class ScoringBatchMemory:
    """What a batch takes beside the network, in bytes of torch's allocator."""

    utterances: int
    samples: int
    activations: int


@dataclass(frozen=True)
class ScoringMemory:
    """What scoring takes, in bytes of torch's allocator.

    Attributes:
        weights: the network's parameters and buffers.
        batches: the most utterances of a clip's length, and the longest recording; one for a network
            that takes one length only.
    """

    weights: int
    batches: tuple[ScoringBatchMemory, ...]

    @property
    def worst(self) -> ScoringBatchMemory:
        """The batch that takes most."""
        return max(self.batches, key=lambda batch: batch.activations)


def scoring_memory(
    settings: Sections, architecture: str, folder: Path | None = None, gpu_bytes: int = 0
) -> ScoringMemory:
    """Compute what scoring takes, in the precision that the settings ask for.

    Args:
        architecture: of the front end, that of the weights where there are any.
        folder: the recipe's folder, where a user's own modules lie.
        gpu_bytes: the whole memory of the GPU, as for `batch_samples`.

    Raises:
        AsdfError: the network cannot be built.
        Exception: whatever a network raises that looks at its numbers.
    """
    in_bf16 = settings.computing.scoring_precision == "bf16"
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=in_bf16)
    with fake_gpu() as counted, torch.no_grad(), autocast:
        network = outlined_network(settings, architecture, folder).eval()
        weights, batches = counted.now, []
        for utterances, samples in largest_batches(
            settings.network, fixed_samples(network), gpu_bytes
        ):
            counted.peak = counted.now
            network(torch.empty(utterances, scoring_length(network, samples)))
            batches.append(ScoringBatchMemory(utterances, samples, counted.peak - weights))
    return ScoringMemory(weights, tuple(batches))


def largest_batches(
    network: Network, fixed: int | None = None, gpu_bytes: int = 0
) -> list[tuple[int, int]]:
    """Utterances and samples of the largest batches that there can be.

    Args:
        fixed: the only length that the network takes, if there is one.
    """
    budget = batch_samples(network, gpu_bytes)
    shortest = network.min_evaluation_utterance_length_in_samples
    longest = network.max_evaluation_utterance_length_in_samples
    lengths = [min(max(network.train_clip_size, shortest), longest), longest]
    kinds = dict.fromkeys([fixed] if fixed else lengths)
    return [(max(1, budget // samples), samples) for samples in kinds]

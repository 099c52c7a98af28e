"""A run whose memory is to be known: what it depends on, and what scoring takes of a GPU.

Scoring is one batch that is scored on a fake GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from asdf.data.scoring_plan import batch_samples
from asdf.memory.fake_gpu import fake_gpu
from asdf.networks import scoring_length
from asdf.networks.build import build_network
from asdf.networks.interface import inputs_on_noise, waveform_shape
from asdf.scoring.scorer import scored_length_of
from asdf.settings.sections import Computing, Network, Sections
from asdf.training.training_precision import choose_precision
from asdf.trials.how_scored import ScoredLength

GIB = 2**30
# What a process takes of a GPU's memory without torch's allocator: the CUDA context with torch's
# kernels, some 0.5 GiB, and workspaces of cuDNN and NCCL. An assumption: it differs with GPUs and
# versions.
OUTSIDE_ALLOCATOR = GIB
_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", None: "fp32"}


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine: its name, torch's name for it, and the bytes of its memory."""

    name: str
    device: str
    total: int


@dataclass(frozen=True)
class Case:
    """What the memory of a process depends on.

    Attributes:
        architecture: Architecture of the front end, as in `front_end.architecture`: that of the
            weights, if any.
        folder: the recipe's, where a user's own modules lie.
        processes: Processes of the run.
        trains: True if a network is trained, False if existing networks are only scored.
        dtype: Number format of autocast in training; None: float32 throughout.
        gpu_bytes: memory of the GPU, which the batches of scoring follow; 0 where it is not known.
    """

    settings: Sections
    architecture: str
    folder: Path | None = None
    processes: int = 1
    trains: bool = True
    dtype: torch.dtype | None = None
    gpu_bytes: int = 0

    @property
    def divides(self) -> bool:
        """Whether the network is divided over the processes."""
        return self.settings.computing.shard_network and self.processes > 1

    @property
    def sharing(self) -> int:
        """Processes that hold a divided network together, each a part of it; 1 where it is whole.

        A group of a node counts as one of all processes: this machine is one node.
        """
        if not self.divides:
            return 1
        group = self.settings.computing.shard_group
        return group if isinstance(group, int) else self.processes

    def outline_network(self) -> nn.Module:
        """Build the network on a fake GPU (see `fake_gpu`), for training.

        No layer is dropped at random: which ones run could not be known.

        Raises:
            AsdfError: as `build_network`; also where a constructor looks at numbers.
        """
        front_end = replace(
            self.settings.front_end,
            architecture=self.architecture,
            weights=None,
            layer_drop=0.0,
        )
        return build_network(replace(self.settings, front_end=front_end), self.folder).train()


def choose_format(computing: Computing, gpu: Gpu | None) -> torch.dtype | None:
    """Return the number format of autocast in training on `gpu`.

    Without one: on GPUs of compute capability 8.0.
    """
    if gpu is not None:
        return choose_precision(computing.precision, torch.device(gpu.device)).dtype
    if not computing.use_gpu:
        return choose_precision(computing.precision, torch.device("cpu")).dtype
    if computing.precision == "fp32":
        return None
    return torch.bfloat16


def describe_format(case: Case, gpu: Gpu | None) -> str:
    """Describe in which number format training computes, and on which GPUs."""
    computing = case.settings.computing
    if computing.use_gpu and gpu is None and computing.precision == "auto":
        return (
            "in bf16, as on GPUs of compute capability 8.0 (A100) and newer, or in fp16, as on 7.x "
            "(V100); older ones compute in fp32, which takes more"
        )
    return f"in {_NAMES[case.dtype]}"


def in_gibibytes(count: int) -> str:
    """Return a number of bytes for a reader: '3.1 GiB', or in MiB where that says more."""
    if count >= GIB / 10:
        return f"{count / GIB:.1f} GiB"
    return f"{count / 2**20:.1f} MiB"


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


def scoring_memory(case: Case) -> ScoringMemory:
    """Compute what scoring takes, of validation as of stage 2, in the precision of the settings.

    Raises:
        AsdfError: the network cannot be built.
        Exception: whatever a network raises that looks at its numbers.
    """
    rules = case.settings.network
    in_bf16 = case.settings.computing.scoring_precision == "bf16"
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=in_bf16)
    with fake_gpu() as counted, torch.no_grad(), autocast:
        network = case.outline_network().eval()
        weights = counted.now
        batches = []
        for batch in largest_batches(rules, scored_length_of(network, rules), case.gpu_bytes):
            utterances, samples = batch
            counted.peak = counted.now
            length = scoring_length(network, samples)
            waveforms_BT = torch.empty(waveform_shape(network, utterances, length))
            network(waveforms_BT, **inputs_on_noise(network, waveforms_BT))
            batches.append(ScoringBatchMemory(utterances, samples, counted.peak - weights))
    return ScoringMemory(weights, tuple(batches))


def largest_batches(
    settings: Network,
    length: ScoredLength,
    gpu_bytes: int = 0,
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

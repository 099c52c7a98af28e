"""A run whose memory is estimated: its parameters, and the memory of scoring.

Scoring is estimated by scoring one batch on a fake GPU.
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
# GPU memory of a process outside of torch's allocator: the CUDA context with torch's kernels, about
# 0.5 GiB, and workspaces of cuDNN and NCCL. This is an assumption: it depends on GPUs and versions.
OUTSIDE_ALLOCATOR = GIB
_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16", None: "fp32"}


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine: its name, torch's name for it, and its memory in bytes."""

    name: str
    device: str
    total: int


@dataclass(frozen=True)
class Case:
    """The parameters that determine the memory of a process.

    Attributes:
        architecture: Architecture of the front end, as in `front_end.architecture`, or that of the
            weights, if any.
        folder: Folder of the recipe, for modules of your own.
        processes: Number of processes of the run.
        trains: Whether a network is trained; otherwise existing networks are only scored.
        dtype: Number format of autocast in training; None: float32 throughout.
        gpu_bytes: Memory of the GPU in bytes, which determines the batches of scoring; 0 if
            unknown.
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
        """Whether the network is divided among the processes."""
        return self.settings.computing.shard_network and self.processes > 1

    @property
    def sharing(self) -> int:
        """Number of processes that share a divided network; 1 if it is whole.

        A group of processes per node counts as all processes, because this machine is one node.
        """
        if not self.divides:
            return 1
        group = self.settings.computing.shard_group
        return group if isinstance(group, int) else self.processes

    def outline_network(self) -> nn.Module:
        """Build the network on a fake GPU (see `fake_gpu`), for training.

        No layer is dropped at random, because the active ones would be unknown.

        Raises:
            AsdfError: as `build_network`; also if a constructor reads values of tensors.
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

    Without a GPU, it is that of GPUs with compute capability 8.0.
    """
    if gpu is not None:
        return choose_precision(computing.precision, torch.device(gpu.device)).dtype
    if not computing.use_gpu:
        return choose_precision(computing.precision, torch.device("cpu")).dtype
    if computing.precision == "fp32":
        return None
    return torch.bfloat16


def describe_format(case: Case, gpu: Gpu | None) -> str:
    """Describe the number format of training, and on which GPUs it applies."""
    computing = case.settings.computing
    if computing.use_gpu and gpu is None and computing.precision == "auto":
        return (
            "in bf16, as on GPUs of compute capability 8.0 (A100) and newer, or in fp16, as on 7.x "
            "(V100); older ones compute in fp32, which takes more memory"
        )
    return f"in {_NAMES[case.dtype]}"


def in_gibibytes(count: int) -> str:
    """Format a number of bytes: '3.1 GiB', or in MiB if that is more informative."""
    if count >= GIB / 10:
        return f"{count / GIB:.1f} GiB"
    return f"{count / 2**20:.1f} MiB"


@dataclass(frozen=True)
class ScoringBatchMemory:
    """The memory of a batch in addition to the network, in bytes of torch's allocator."""

    utterances: int
    samples: int
    activations: int


@dataclass(frozen=True)
class ScoringMemory:
    """The memory of scoring, in bytes of torch's allocator.

    Attributes:
        weights: Size of the network's parameters and buffers.
        batches: Largest batch of utterances with a clip's length, and batch with the longest
            recording; a single batch for a network with a fixed input length.
    """

    weights: int
    batches: tuple[ScoringBatchMemory, ...]

    @property
    def worst(self) -> ScoringBatchMemory:
        """The batch that needs the most memory."""
        return max(self.batches, key=lambda batch: batch.activations)


def scoring_memory(case: Case) -> ScoringMemory:
    """Compute the memory of scoring, in validation and stage 2, at the precision of the settings.

    Raises:
        AsdfError: the network cannot be built.
        Exception: any error of a network that reads values of tensors.
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
    """Return numbers of utterances and samples of the largest possible batches.

    Args:
        length: Part of a recording that is scored.
    """
    assert length.max_samples is not None  # settings always have a limit
    budget = batch_samples(settings, gpu_bytes)
    longest = length.max_samples
    usual = min(max(settings.train_clip_size, length.min_samples), longest)
    distinct = dict.fromkeys([usual, longest])
    return [(max(1, budget // samples), samples) for samples in distinct]

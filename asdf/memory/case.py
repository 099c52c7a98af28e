"""A run whose memory is to be known: what it depends on, and the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from asdf.memory.scoring import ScoringMemory, scoring_memory
from asdf.memory.training import WORKSPACE, TrainingMemory, training_memory
from asdf.settings.sections import Computing, Sections
from asdf.training.training_precision import choose_precision

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
        architecture: Architecture of the front end.
        folder: the recipe's.
        trains: True if a network is trained, False if existing networks are only scored.
        dtype: Number format of autocast in training; None: float32 throughout.
        gpu_bytes: memory of the GPU, which the batches of scoring follow; 0 where it is not known.
    """

    settings: Sections
    architecture: str
    folder: Path
    processes: int
    trains: bool
    dtype: torch.dtype | None
    gpu_bytes: int = 0

    def training(self) -> TrainingMemory | None:
        """Compute what training takes; None without training."""
        if not self.trains:
            return None
        return training_memory(
            self.settings, self.architecture, self.processes, self.dtype, self.folder
        )

    def scoring(self) -> ScoringMemory:
        """Compute what scoring takes, of validation as of stage 2."""
        return scoring_memory(self.settings, self.architecture, self.folder, self.gpu_bytes)

    def scoring_peak(self, scoring: ScoringMemory, training: TrainingMemory | None) -> int:
        """Return the peak of scoring: its largest batch, and what training holds meanwhile."""
        computing = self.settings.computing
        activations = scoring.worst.activations + WORKSPACE
        if training is None:
            return scoring.weights + activations
        # What graphs compute in is theirs alone: it is held between two steps as well.
        held = training.peak if computing.cuda_graphs else training.between
        if computing.shard_network and self.processes > 1:
            # Scoring has a whole copy of a divided network.
            held += scoring.weights
        return held + activations


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

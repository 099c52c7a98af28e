"""The groups of checks in their order, and the sizes of their computations.

Invariant: the budgets sum to less than 20 minutes. A group that has spent its budget starts no
further check; one that takes `PATIENCE` times as long hangs, and is terminated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.verdict import Line

PATIENCE = 2.0


@dataclass(frozen=True)
class Group:
    """A file of checks, listed in its CHECKS as names and functions.

    Attributes:
        package: Package of the file.
    """

    name: str
    about: str
    budget_s: float
    package: str = "benchmarks.gpu"

    @property
    def module(self) -> str:
        return f"{self.package}.{self.name}"


GROUPS = (
    Group("machine", "versions, driver, clocks, and whether torch has kernels for the GPU", 20),
    Group("values", "published logits, CPU against GPU, batch norm of several GPUs", 60),
    Group("waits", "that the host waits for the GPU once a step, and nowhere else", 70),
    Group("counts", "operations of a step, beside those counted without a GPU", 50),
    Group("steps", "training steps of XLS-R 300M + AASIST: ms, utterances/s, MFU, busy share", 210),
    Group("kernels", "ceilings, the attention taken, a step's kernels by kind", 40),
    Group("bits", "whether equal steps end with equal weights: again, with CUDA graphs", 40),
    Group("peers", "the step beside a plain PyTorch loop and Hugging Face's Trainer", 50),
    Group("memory", "peaks of a step, beside those computed without a GPU", 100),
    Group("options", "options of torch one by one, in ms per step", 60),
    Group("rawboost", "RawBoost on the GPU beside the host: values and ms", 30),
    Group("scoring", "trials/s in each precision; the same bytes twice", 90),
    Group("quickstart", "the quickstart's EER beside the CPU's; what TF32 and bf16 do to it", 150),
    Group("resume", "whether a killed run ends with the bits of a whole one", 110),
    Group("fp16", "loss scale and skipped steps after 100 steps in fp16", 30),
    Group("processes", "several GPUs: utterances/s, the same score file, a killed rank", 70),
)


@dataclass(frozen=True)
class Sizes:
    """The sizes of the computations.

    Attributes:
        minibatches: Sizes of minibatches, first that of the recipe, then larger ones.
        rounds: Number of measured steps per case.
        recordings: Number of recordings in the list that is scored.
        names: Number of names of each recording in the list whose scoring is timed.
        epochs: Number of epochs of the quickstart.
        networks: Number of networks to check, among all.
    """

    architecture: str
    samples: int
    minibatches: tuple[int, ...]
    rounds: int
    recordings: int
    names: int
    epochs: int
    networks: int


FULL = Sizes("wav2vec2_xlsr_300m", 64600, (14, 32, 64), 12, 240, 13, 20, 100)
QUICK = Sizes("tiny", 8000, (2, 3), 2, 6, 2, 1, 3)


@dataclass(frozen=True)
class Setup:
    """The common arguments of all checks.

    Attributes:
        folder: Folder for files of checks, which is removed at the end.
        gpus: Number of GPUs visible to torch.
        patience: Factor of the time budgets.
    """

    quick: bool
    folder: str
    gpus: int
    patience: float = 1.0

    @property
    def sizes(self) -> Sizes:
        return QUICK if self.quick else FULL

    def new_folder(self, name: str) -> Path:
        """Create and return a folder with that name for a check's files."""
        path = Path(self.folder) / name
        path.mkdir(parents=True, exist_ok=True)
        return path


Check = Callable[[Setup], Iterable[Line]]

"""What a detector is made of: its options, the network that was read, and its files for copies.

Invariant: a copy of a detector, by pickle or by `copy`, scores as its original does, to the last
bit, or is refused. A pickle holds no weights: it holds the path and digest of the network's file,
and the arguments of the detector. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.audio.recording_sources import Limits
from asdf.errors import AsdfError
from asdf.metrics.calibration import Calibration
from asdf.runs.files import digest_of
from asdf.scoring.waveform_scorer import WaveformScorer
from asdf.settings.sections import Sections
from asdf.text import AnyPath

if TYPE_CHECKING:
    import torch

FileStates = list[tuple[str, int, int]]


def restore(make: Callable[..., Any], path: str, digest: str, options: dict[str, Any]) -> Any:
    """Return the detector of a pickle, made by `make(path, **options)`.

    Raises:
        AsdfError: the file is missing, or is not the one that the detector was made from.
    """
    if not Path(path).exists() or digest_of(Path(path)) != digest:
        raise AsdfError(
            f"{path} is missing, or not the file that this copy of a detector was made from. A "
            "pickle holds no weights: copy the file there, or make the detector from it."
        )
    return make(path, **options)


def copy_with(detector: Any, **options: Any) -> Any:
    """Return a detector of the same file, made with other `options`.

    Raises:
        AsdfError: the file is gone or was changed since the detector was made.
    """
    _, (make, path, digest, made_with), *reference = detector.__reduce__()
    copied = restore(make, path, digest, {**made_with, **options})
    if reference:
        copied.__setstate__(*reference)
    return copied


def read_state(*paths: Path) -> FileStates:
    """Return a state that changes if one of the files, or a file in a folder, is rewritten."""
    states: FileStates = []
    for path in paths:
        # Sorted: file systems list names in any order, and states are compared.
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                status = file.stat()
                name = str(file.relative_to(path))
                states.append((name, status.st_size, status.st_mtime_ns))
    return states


@dataclass(frozen=True)
class Options:
    """Options for opening a network, as in the arguments of `Detector`."""

    device: str | torch.device
    network_folder: AnyPath | None
    threads: int | None
    full_length: bool
    precision: str
    base: AnyPath | None
    threshold: float | None
    max_seconds: float | None = None
    memory_limit: int | None = None
    engine: str = "auto"
    parts: bool = True
    speech_check: str = "built-in"
    columns: tuple[str, ...] = ()

    @property
    def limits(self) -> Limits:
        """Limits on the size of a recording."""
        return Limits(self.max_seconds, self.memory_limit)


@dataclass(frozen=True)
class OpenedNetwork:
    """A network that is ready to score.

    Attributes:
        path: Path of its file.
        state: State of its files before they were read, see `read_state`.
        source: Path as given, or the repository on the hub with its commit.
        settings: Settings that the network was trained with.
        device: Name of the device that it computes on.
        threads: Number of threads that the network computes with on a CPU.
        remark: Sentence on a limitation of all its scores; ''.
        networks: Paths of a fused system's networks; their digests are in its file.
        arguments: Arguments, besides the path, of a detector that gives identical scores, as plain
            values.
    """

    path: Path
    state: FileStates
    source: str
    scorer: WaveformScorer
    settings: Sections
    calibration: Calibration | None
    device: str
    threads: int
    remark: str
    networks: tuple[Path, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict)

    def pickled(self) -> tuple[str, str, dict[str, Any]]:
        """Return path, digest and arguments, the content of a pickle.

        Raises:
            AsdfError: the network's file is gone or was changed since the detector was made.
        """
        if read_state(self.path, *self.networks) != self.state:
            raise AsdfError(
                f"this detector cannot be copied: {self.path} was deleted or rewritten since. Make "
                "another one."
            )
        return str(self.path), digest_of(self.path), self.arguments

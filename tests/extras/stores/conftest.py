"""Recordings in a folder, and as tars."""

import logging
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.runs.log import LOG

NAMES = [
    "flac/a.flac",
    f"flac/{'long' * 30}/{'x' * 90}.flac",
    "flac/two words.flac",
    "flac/sprächen/日本.flac",
    "b.wav",
]
WRITERS = [("python", tarfile.PAX_FORMAT), ("python", tarfile.GNU_FORMAT), ("tar", "pax")]
WRITERS.append(("tar", "gnu"))


def noise(length: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, length)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder 'source/LA' of five recordings."""
    folder = tmp_path / "source" / "LA"
    for seed, name in enumerate(NAMES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / name, noise(3000 + 10 * seed, seed), 16000, subtype="PCM_16")
    return folder


@pytest.fixture
def log() -> Iterator[list[str]]:
    """The lines of the log."""
    lines: list[str] = []
    handler, level = logging.Handler(), LOG.level
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    yield lines
    LOG.removeHandler(handler)
    LOG.setLevel(level)


def pack(corpus: Path, name: str = "LA.tar", members: str = "LA", mode: str = "w") -> Path:
    """`corpus` as the tar `name`; its members begin with 'LA', './' or nothing."""
    archive = corpus.parents[1] / name
    with tarfile.open(archive, mode) as tar:  # type: ignore[call-overload]
        tar.add(corpus, members)
    return archive


def system_tar(*words: object) -> None:
    if not shutil.which("tar"):
        pytest.skip("no program 'tar'")
    subprocess.run(["tar", *map(str, words)], check=True)


def index_of(archive: Path) -> Path:
    return archive.with_name(archive.name + ".index")

"""Creation of a corpus in a temporary folder, which is renamed at the end.

Invariant: the folder contains a complete corpus or does not exist. A mark in it states everything
that the corpus depends on, so that a second call is cheap.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import soundfile

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.log import LOG, track

MARK = "DEMO_CORPUS.txt"
_ABANDONED_S = 3600


@dataclass(frozen=True)
class Making:
    """Parameters for making a corpus.

    Attributes:
        name: Name of the corpus in messages.
        count: Number of utterances.
        write: Function that writes it into a folder and yields after each utterance.
    """

    name: str
    count: int
    write: Callable[[Path], Iterator[None]]


def make_once(folder: Path, mark: str, making: Making) -> None:
    """Make a corpus in `folder`, unless it exists; a corpus with another mark is replaced.

    Raises:
        AsdfError: `folder` has other content, or cannot be written.
    """
    if _is_made(folder, mark, making):
        return
    try:
        workshop = _open_workshop(folder)
    except OSError as error:
        raise AsdfError(_advice(folder, error, making)) from error
    LOG.info("making %s, %d utterances, in %s", making.name, making.count, folder)
    try:
        new = workshop / "new"
        made = making.write(new)
        for _ in track(made, making.count, f"making {making.name}", unit="utterances"):
            pass
        # Last, since the mark states that everything is there.
        write_text(new / MARK, mark)
        if folder.exists():
            # A folder cannot be renamed onto one that has content.
            folder.rename(workshop / "old")
        new.rename(folder)
    except (OSError, soundfile.LibsndfileError) as error:
        # Another process may have made the same corpus meanwhile.
        if not _is_made(folder, mark, making):
            raise AsdfError(_advice(folder, error, making)) from error
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _open_workshop(folder: Path) -> Path:
    """Make a folder next to `folder`, and remove those left by killed processes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for workshop in folder.parent.glob(f".{folder.name}.*.part"):
        age_s = time.time() - workshop.stat().st_mtime
        # A recent folder may belong to a running process.
        if age_s > _ABANDONED_S:
            shutil.rmtree(workshop, ignore_errors=True)
    prefix = f".{folder.name}."
    return Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix, suffix=".part"))


def _is_made(folder: Path, mark: str, making: Making) -> bool:
    mark_path = folder / MARK
    if mark_path.is_file():
        return mark_path.read_text(encoding="utf-8") == mark
    is_file = folder.exists() and not folder.is_dir()
    if is_file or (folder.is_dir() and any(folder.iterdir())):
        raise AsdfError(
            f"{folder} is in the way of {making.name}: it holds other files, which are left as "
            "they are. Name another folder, or move its content."
        )
    return False


def _advice(folder: Path, error: Exception, making: Making) -> str:
    reason = getattr(error, "strerror", None) or error
    return (
        f"cannot make {making.name} in {folder}: {reason}. Nothing incomplete is left there. It "
        "needs about 20 MB: free some space or name a folder that can be written."
    )

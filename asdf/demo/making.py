"""Creation of a corpus in a temporary folder, which is renamed at the end.

Invariant: the folder contains a complete corpus or does not exist. A mark in it states everything
that the corpus depends on, so that a second call is cheap.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import soundfile

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.log import LOG, track

Write = Callable[[Path], Iterator[None]]

MARK = "DEMO_CORPUS.txt"
_ABANDONED_S = 3600


def make_once(folder: Path, name: str, mark: Sequence[object], count: int, write: Write) -> None:
    """Make a corpus in `folder`, unless it exists; a corpus with another mark is replaced.

    Args:
        name: Name of the corpus in messages.
        mark: Lines with everything that the corpus depends on.
        count: Number of utterances.
        write: Function that writes it into a folder and yields after each utterance.

    Raises:
        AsdfError: `folder` has other content, or cannot be written.
    """
    marked = "".join(f"{line}\n" for line in mark)
    if _is_made(folder, marked, name):
        return
    try:
        workshop = _open_workshop(folder)
    except OSError as error:
        raise AsdfError(_advice(folder, error, name)) from error
    LOG.info("making %s, %d utterances, in %s", name, count, folder)
    try:
        new = workshop / "new"
        for _ in track(write(new), count, f"making {name}", unit="utterances"):
            pass
        # Last, since the mark states that everything is there.
        write_text(new / MARK, marked)
        if folder.exists():
            # A folder cannot be renamed onto one that has content.
            folder.rename(workshop / "old")
        new.rename(folder)
    except (OSError, soundfile.LibsndfileError) as error:
        # Another process may have made the same corpus meanwhile.
        if not _is_made(folder, marked, name):
            raise AsdfError(_advice(folder, error, name)) from error
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


def _is_made(folder: Path, mark: str, name: str) -> bool:
    mark_path = folder / MARK
    if mark_path.is_file():
        return mark_path.read_text(encoding="utf-8") == mark
    is_file = folder.exists() and not folder.is_dir()
    if is_file or (folder.is_dir() and any(folder.iterdir())):
        raise AsdfError(
            f"{folder} is in the way of {name}: it holds other files, which are left as "
            "they are. Name another folder, or move its content."
        )
    return False


def _advice(folder: Path, error: Exception, name: str) -> str:
    reason = getattr(error, "strerror", None) or error
    return (
        f"cannot make {name} in {folder}: {reason}. Nothing incomplete is left there. It "
        "needs about 20 MB: free some space or name a folder that can be written."
    )

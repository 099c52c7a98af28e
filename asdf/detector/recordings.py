"""Which recordings a command line means: files, folders with all that is in them, lists.

Invariant: what is named by mistake (a file that is not there, a folder without audio, a malformed list) is found
before anything is scored; each recording is scored once however often it is named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from asdf.data.lists import read_list
from asdf.errors import AsdfError, UsageError

_LIBSNDFILE = "wav flac ogg oga opus mp2 mp3 aif aiff aifc au snd caf rf64 w64 sph nist"
_PYAV = "3gp aac ac3 amr avi flv m4a m4b mka mkv mov mp4 mpg mpeg webm wma"
AUDIO_SUFFIXES = frozenset(f".{name}" for name in f"{_LIBSNDFILE} {_PYAV}".split())
LIST_SUFFIXES = frozenset({".txt", ".lst"})


@dataclass(frozen=True)
class Recording:
    """A recording to score; `name` and `label` (1 bona fide, 0 spoof) are those of a list in ASDF's format."""

    path: Path
    name: str = ""
    label: int | None = None


def find_recordings(named: Iterable[str], folder: Path | None = None) -> list[Recording]:
    """The recordings that `named` files, folders and lists (.txt, .lst) stand for, in their order.

    Folders are searched to the bottom for files with a suffix of audio, in the order of their names, without macOS's
    `._*`. A list holds one path a line, or is in ASDF's format (`relative/path.flac 1`), which its first line tells.

    Args:
        folder: what the paths in lists are relative to; None: the list's own folder.

    Raises:
        UsageError: there is no such file or folder, a folder holds no audio, or a list is empty or malformed.
    """
    found: dict[str, Recording] = {}
    for name in named:
        for recording in _stands_for(Path(name), folder):
            found.setdefault(str(recording.path), recording)
    return list(found.values())


def _stands_for(path: Path, folder: Path | None) -> list[Recording]:
    if path.is_dir():
        inside = [Recording(file) for file in _audio_in(path)]
        if not inside:
            raise UsageError(f"there is no audio in the folder {path}. Looked for {' '.join(sorted(AUDIO_SUFFIXES))}")
        return inside
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}; it is relative to {Path.cwd()}.")
    if path.suffix.lower() not in LIST_SUFFIXES:
        return [Recording(path)]
    try:
        return list(_listed(path, path.parent if folder is None else folder))
    except AsdfError as error:
        raise UsageError(str(error)) from None


def _audio_in(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise UsageError(f"cannot list the folder {error.filename}: {error.strerror}. Check its permissions.")

    for place, folders, files in os.walk(folder, onerror=refuse):
        folders.sort()
        for name in sorted(files):
            if Path(name).suffix.lower() in AUDIO_SUFFIXES and not name.startswith("._"):
                yield Path(place, name)


def _listed(path: Path, folder: Path) -> Iterator[Recording]:
    lines = [line.strip() for line in _text(path).split("\n") if line.strip()]
    if not lines:
        raise UsageError(f"the list {path} is empty: it should name one recording a line.")
    if lines[0].rpartition(" ")[2] not in ("0", "1"):
        yield from (Recording(folder / line) for line in lines)
        return
    utterances = read_list(path, folder)
    for index, name in enumerate(utterances.ids):
        yield Recording(utterances.path(index), name, int(utterances.labels[index]))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the list {path}: {error}. It should be a text file in UTF-8.") from None

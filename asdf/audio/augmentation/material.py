"""The recordings of noise and the room impulse responses below folders of any layout.

Invariant: the order follows from the names below a folder alone, so that a draw means the same
recording on every machine that has a copy of the folder.

Any folder of recordings will do. Where a list of Kaldi's form lies among them, as in RIRS_NOISES
(openslr.org/28, whose real_rirs_isotropic_noises holds both), it says which of them are impulse
responses (`rir_list`) or noises (`noise_list`), and what only the other list could name is not
taken. Where there is no list, all are taken, but as impulse responses none with 'noise' in its
name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from asdf.errors import UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.remote import is_remote

# The names of Kaldi's lists, and what the messages call the recordings.
_LISTS = {"noise": "noise_list", "reverberation": "rir_list"}
_WORDS = {"noise": "recordings of noise", "reverberation": "room impulse responses"}


def find_material(part: str, folders: Iterable[str], base: Path) -> tuple[str, ...]:
    """Return the paths of the recordings for a part of the chain below `folders`.

    Args:
        part: Part that needs them, 'noise' or 'reverberation'.
        base: Folder that `folders` are relative to.

    Raises:
        UsageError: a folder is missing, cannot be listed, or holds none.
    """
    recordings: list[str] = []
    for name in folders:
        folder = base / name
        where = f"augmentation.{part}_folders names {folder}, "
        if is_remote(folder):
            raise UsageError(
                f"{where}and noise and impulse responses are read from a disk: every clip draws "
                "one. Copy the folder, and write its absolute path."
            )
        if not folder.is_dir():
            raise UsageError(
                f"{where}and there is no such folder. Unpack the corpus there, or correct the "
                "name: it is relative to paths.database_folder."
            )
        paths = sorted(
            _find_recordings(folder, part), key=lambda path: path.relative_to(folder).as_posix()
        )
        if not paths:
            raise UsageError(
                f"{where}which holds no {_WORDS[part]} (in WAV, FLAC or the like, links to folders "
                "are not followed). The corpus was likely unpacked elsewhere: name the folder that "
                "holds them."
            )
        recordings.extend(map(str, paths))
    return tuple(recordings)


def _find_recordings(folder: Path, part: str) -> Iterator[Path]:
    """Yield the recordings for `part` of the chain below `folder`, in any order.

    Hidden files, as `._a.wav`, are none.
    """
    # For each folder that was walked, the names that the nearest list at or above it holds.
    listed: dict[str, frozenset[str] | None] = {}
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        chosen = _read_list(Path(parent), names, part)
        if chosen is None:
            # A list counts for all below it.
            chosen = listed.get(str(Path(parent).parent))
        listed[parent] = chosen
        for name in names:
            is_recording = Path(name).suffix.lower() in AUDIO_SUFFIXES
            if not is_recording or name.startswith("."):
                continue
            # Without a list the name has to do.
            is_chosen = part == "noise" or "noise" not in name.lower()
            if chosen is not None:
                is_chosen = name in chosen
            if is_chosen:
                yield Path(parent, name)


def _refuse(error: OSError) -> None:
    # Without the folder another user, who may read it, would have other draws.
    raise UsageError(
        f"augmentation cannot list the folder {error.filename}: {error.strerror}. "
        "Check its permissions."
    )


def _read_list(folder: Path, names: list[str], part: str) -> frozenset[str] | None:
    """Read the file names in the list that lies in `folder`.

    Its lines are `--rir-id 1 --room-id 1 path/name.wav`. None where there is no list; no names
    where there is only that of the other part.
    """
    if _LISTS[part] not in names:
        has_other_list = any(name in names for name in _LISTS.values())
        return frozenset() if has_other_list else None
    text = (folder / _LISTS[part]).read_text(encoding="utf-8", errors="replace")
    listed = set()
    for line in text.splitlines():
        words = line.split()
        if words:
            listed.add(PurePosixPath(words[-1]).name)
    return frozenset(listed)

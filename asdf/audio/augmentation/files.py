"""The recordings of noise and the room impulse responses below folders of any layout.

Invariant: the order follows from the names below a folder alone, so that a draw means the same recording on every
machine that has a copy of the folder.

Any folder of recordings will do. Where a list of Kaldi's form lies among them, as in RIRS_NOISES (openslr.org/28,
whose real_rirs_isotropic_noises holds both), it says which of them are impulse responses (`rir_list`) or noises
(`noise_list`), and what only the other list could name is not taken. Where there is no list, all are taken, but as
impulse responses none with 'noise' in its name.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from asdf.errors import UsageError
from asdf.facts import AUDIO_SUFFIXES

_LISTS = {"noise": "noise_list", "reverberation": "rir_list"}


def find_noises(folders: Iterable[str], base: Path) -> tuple[str, ...]:
    """Paths of the recordings of noise below `folders`, which are relative to `base`.

    Raises:
        UsageError: a folder is missing, cannot be listed, or there is none in it.
    """
    return _find_all("noise", folders, base)


def find_responses(folders: Iterable[str], base: Path) -> tuple[str, ...]:
    """Paths of the impulse responses below `folders`; otherwise as `find_noises`."""
    return _find_all("reverberation", folders, base)


def _find_all(part: str, folders: Iterable[str], base: Path) -> tuple[str, ...]:
    found: list[str] = []
    for folder in folders:
        place = base / folder
        where = f"augmentation.{part}_folders names {place}, "
        if not place.is_dir():
            raise UsageError(
                f"{where}and there is no such folder. Unpack the corpus there, or correct the name: it is relative to "
                "paths.database_folder."
            )
        paths = sorted(_below(place, part), key=lambda path: path.relative_to(place).as_posix())
        if not paths:
            what = "recordings of noise" if part == "noise" else "room impulse responses"
            raise UsageError(
                f"{where}which holds no {what} (in WAV, FLAC or the like, links to folders are not followed). The "
                "corpus was likely unpacked elsewhere: name the folder that holds them."
            )
        found += map(str, paths)
    return tuple(found)


def _below(folder: Path, part: str) -> Iterator[Path]:
    """The recordings for `part` of the chain below `folder`, in any order; hidden files, as `._a.wav`, are none."""
    listed: dict[str, frozenset[str] | None] = {}
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        chosen = _listed(Path(parent), names, part)
        if chosen is None:  # a list counts for all below it
            chosen = listed.get(str(Path(parent).parent))
        listed[parent] = chosen
        for name in names:
            if name.startswith(".") or Path(name).suffix.lower() not in AUDIO_SUFFIXES:
                continue
            if (
                name in chosen
                if chosen is not None
                else part == "noise" or "noise" not in name.lower()
            ):
                yield Path(parent, name)


def _refuse(error: OSError) -> None:
    # A folder passed over would give other draws to this user than to the next.
    raise UsageError(
        f"augmentation cannot list the folder {error.filename}: {error.strerror}. Check its permissions."
    )


def _listed(folder: Path, names: list[str], part: str) -> frozenset[str] | None:
    """The file names in the list that lies in `folder`, whose lines are `--rir-id 1 --room-id 1 path/name.wav`.

    None where there is no list; none of them where there is that of the other part alone.
    """
    if _LISTS[part] not in names:
        return frozenset() if any(one in names for one in _LISTS.values()) else None
    lines = (folder / _LISTS[part]).read_text(encoding="utf-8", errors="replace").splitlines()
    return frozenset(PurePosixPath(line.split()[-1]).name for line in lines if line.strip())

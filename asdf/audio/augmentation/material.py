"""Recordings of noise and room impulse responses in folders of any layout.

Invariant: the order depends only on the names below a folder, so a draw means the same recording on
every machine with a copy of the folder.

Any folder of recordings is suitable. If it contains a list in Kaldi's form, as in RIRS_NOISES
(openslr.org/28, whose real_rirs_isotropic_noises holds both kinds), the list selects impulse
responses (`rir_list`) or noises (`noise_list`), and recordings that only the other list could name
are ignored. Without a list, all recordings are used, except as impulse responses those with 'noise'
in their names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from asdf.errors import UsageError
from asdf.facts import AUDIO_SUFFIXES

# Names of Kaldi's lists, and of the recordings in messages.
_LISTS = {"noise": "noise_list", "reverberation": "rir_list"}
_WORDS = {"noise": "recordings of noise", "reverberation": "room impulse responses"}


def find_material(part: str, folders: Iterable[str], base: Path) -> tuple[str, ...]:
    """Return the paths of the recordings for a part of the chain below `folders`.

    Args:
        part: Part that needs them, 'noise' or 'reverberation'.
        base: Folder that `folders` are relative to.

    Raises:
        UsageError: a folder is missing, cannot be listed, or has no recordings.
    """
    recordings: list[str] = []
    for name in folders:
        folder = base / name
        where = f"augmentation.{part}_folders names {folder}, "
        if not folder.is_dir():
            raise UsageError(
                f"{where}which does not exist. Unpack the corpus there, or correct the path: it is "
                "relative to paths.database_folder."
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

    Hidden files, such as `._a.wav`, are skipped.
    """
    # For each visited folder, the names in the nearest list in it or above.
    listed: dict[str, frozenset[str] | None] = {}
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        chosen = _read_list(Path(parent), names, part)
        if chosen is None:
            # A list applies to all folders below it.
            chosen = listed.get(str(Path(parent).parent))
        listed[parent] = chosen
        for name in names:
            is_recording = Path(name).suffix.lower() in AUDIO_SUFFIXES
            if not is_recording or name.startswith("."):
                continue
            # Without a list, the name decides.
            is_chosen = part == "noise" or "noise" not in name.lower()
            if chosen is not None:
                is_chosen = name in chosen
            if is_chosen:
                yield Path(parent, name)


def _refuse(error: OSError) -> None:
    # A skipped folder would change the draws for a user without permission to read it.
    raise UsageError(
        f"augmentation cannot list the folder {error.filename}: {error.strerror}. "
        "Check its permissions."
    )


def _read_list(folder: Path, names: list[str], part: str) -> frozenset[str] | None:
    """Read the file names in the list that lies in `folder`.

    Its lines have the form `--rir-id 1 --room-id 1 path/name.wav`. The result is None without a
    list, and empty if there is only a list for the other part.
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

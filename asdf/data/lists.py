"""Lists of utterances: ASDF's own format, and the countermeasure protocols of ASVspoof 2019.

Invariant: an `UtteranceList` has no bad label and no utterance twice, and keeps the order of its file; ids are the
paths that stand in the file, so that score files and lists can be joined line by line.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asdf.errors import AsdfError

_SHOWN = 10


@dataclass(frozen=True)
class UtteranceList:
    """Utterances of one corpus, or of several.

    Attributes:
        folder: the folder that `ids` are relative to, unless `files` says otherwise.
        labels: int8; 1 bona fide, 0 spoof.
        attacks: '-' for bona fide, '' if unknown.
        files: the recording of each utterance; None: `folder / id`.
    """

    name: str
    folder: Path
    ids: list[str]
    labels: np.ndarray
    attacks: list[str]
    files: list[Path] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def path(self, index: int) -> Path:
        return self.folder / self.ids[index] if self.files is None else self.files[index]

    def select(self, indices: np.ndarray) -> UtteranceList:
        """The utterances at `indices`, in that order."""
        chosen = indices.tolist()
        return UtteranceList(
            self.name,
            self.folder,
            [self.ids[i] for i in chosen],
            self.labels[indices],
            [self.attacks[i] for i in chosen],
            None if self.files is None else [self.files[i] for i in chosen],
        )

    def digest(self) -> str:
        """A name for the content of the list, wherever its recordings lie: a node's local disk changes its name."""
        return hashlib.sha256("\n".join(self.ids).encode()).hexdigest()[:16]


def read_list(path: Path, folder: Path, name: str = "") -> UtteranceList:
    """Read a list in ASDF's format: `relative/path.flac 1` a line; 1 is bona fide, 0 is spoof.

    Args:
        folder: the folder that the paths in the list are relative to.

    Raises:
        AsdfError: missing or empty list, a bad label, an utterance named twice; with file and line.
    """
    ids, labels, numbers = [], [], []
    for number, line in _lines(path):
        utterance, _, label = line.rpartition(" ")
        if not utterance.strip() or label not in ("0", "1"):
            raise AsdfError(
                f"{path}, line {number}: {line[:120]!r} is not 'relative/path.flac 1'. "
                "Each line is a path, a space, and 1 (bona fide) or 0 (spoof)."
            )
        ids.append(utterance.strip())
        labels.append(int(label))
        numbers.append(number)
    return _checked(path, numbers, UtteranceList(name, folder, ids, np.array(labels, np.int8), [""] * len(ids)))


def read_asvspoof2019_protocol(path: Path, folder: Path, audio: str, name: str = "") -> UtteranceList:
    """Read `SPEAKER UTT - ATTACK KEY` lines; the utterance's file is `audio/UTT.flac` below `folder`.

    Raises:
        AsdfError: missing or empty protocol, a malformed line, an utterance named twice.
    """
    ids, labels, attacks, numbers = [], [], [], []
    for number, line in _lines(path):
        columns = line.split()
        if len(columns) != 5 or columns[4] not in ("bonafide", "spoof"):
            raise AsdfError(
                f"{path}, line {number}: {line[:120]!r} is not 'SPEAKER UTT - ATTACK KEY' with a key "
                "'bonafide' or 'spoof'. Is it a countermeasure protocol of ASVspoof 2019?"
            )
        ids.append(f"{audio}/{columns[1]}.flac")
        labels.append(int(columns[4] == "bonafide"))
        attacks.append(columns[3])
        numbers.append(number)
    return _checked(path, numbers, UtteranceList(name, folder, ids, np.array(labels, np.int8), attacks))


def join(lists: list[UtteranceList]) -> UtteranceList:
    """One list of several, for training on several corpora; an id is `corpus:id`."""
    return UtteranceList(
        "+".join(part.name for part in lists),
        Path(),
        [f"{part.name}:{utterance}" for part in lists for utterance in part.ids],
        np.concatenate([part.labels for part in lists]),
        [attack for part in lists for attack in part.attacks],
        [part.path(index) for part in lists for index in range(len(part))],
    )


def check_both_classes(utterances: UtteranceList, use: str) -> None:
    """Raise an AsdfError when a class is missing, so that neither a loss nor an EER can mean anything."""
    for label, kind in ((1, "bona fide"), (0, "spoof")):
        if not (utterances.labels == label).any():
            raise AsdfError(
                f"the list {utterances.name} has {len(utterances)} utterances, none of them {kind}: {use} needs both "
                "classes. Is it the right list? 1 is bona fide, 0 is spoof."
            )


def check_files(lists: Iterable[UtteranceList]) -> None:
    """Raise one AsdfError that counts and names what is missing in all `lists`.

    Each folder is listed once instead of asking for every file: on a parallel file system that is far quicker.
    """
    problems = []
    for utterances in lists:
        present: dict[str, set[str]] = {}
        missing = []
        for utterance in utterances.ids:
            folder, name = os.path.split(utterance)
            if folder not in present:
                present[folder] = _entries(utterances.folder / folder)
            if name not in present[folder]:
                missing.append(utterance)
        if missing:
            shown = "".join(f"\n    {name}" for name in missing[:_SHOWN])
            more = f"\n    ... and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            problems.append(
                f"{len(missing)} of the {len(utterances)} files of {utterances.name} are not in "
                f"{utterances.folder}:{shown}{more}"
            )
    if problems:
        raise AsdfError(
            "missing recordings:\n  "
            + "\n  ".join(problems)
            + "\nCheck paths.database_folder and the corpus's entry in the recipe; nothing has been started."
        )


def _lines(path: Path) -> Iterable[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise AsdfError(
            f"there is no list {path}. Check paths.database_folder and the corpus's entry in the recipe."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise AsdfError(f"cannot read the list {path}: {error}. It should be a text file in UTF-8.") from None
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, line.strip()


def _checked(path: Path, numbers: list[int], utterances: UtteranceList) -> UtteranceList:
    """`utterances`, read from the lines `numbers` of `path`, if there are any and none of them comes twice."""
    if not utterances.ids:
        raise AsdfError(f"the list {path} is empty: it should name one utterance a line.")
    first: dict[str, int] = {}
    again = [
        (number, name)
        for number, name in zip(numbers, utterances.ids, strict=True)
        if first.setdefault(name, number) != number
    ]
    if again:
        number, name = again[0]
        count = f"{len(again)} lines repeat an utterance" if len(again) > 1 else "1 line repeats an utterance"
        raise AsdfError(
            f"{path}, line {number}: {name!r} stands already in line {first[name]} ({count}). "
            "Every trial counts once: remove the repeated lines."
        )
    return utterances


def _entries(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in os.scandir(folder)}
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except OSError as error:
        raise AsdfError(f"cannot list the folder {folder}: {error.strerror}. Check its permissions.") from None

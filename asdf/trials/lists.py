"""Lists of utterances: ASDF's own formats, and the countermeasure protocols of ASVspoof 2019.

Invariant: an `UtteranceList` has no bad label and no utterance twice, and keeps the order of its file; ids are the
paths that stand in the file, so that score files and lists can be joined line by line.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from asdf.archives import find_folder, open_file
from asdf.errors import AsdfError
from asdf.text import lines_and_more
from asdf.trials.lines import lines_of
from asdf.trials.names import Names
from asdf.trials.trials import Trials, is_trials_file, read_trials

_SHOWN = 10


@dataclass(frozen=True)
class UtteranceList:
    """Utterances of one corpus, or of several.

    Attributes:
        folder: the folder that `ids` are relative to, unless `files` says otherwise.
        labels: int8; 1 bona fide, 0 spoof.
        columns: what else the corpus says of each utterance, one value an utterance: 'speaker', 'attack' ('-' for bona
            fide), and conditions of its own such as 'codec'; '' where it says nothing.
        origins: of a list made of several: folders, and how many characters of an id come before the path in it.
        origin: which of them each utterance has, int16. A path for each utterance would take more than all the rest.
    """

    name: str
    folder: Path
    ids: Sequence[str]
    labels: np.ndarray
    columns: Mapping[str, list[str]] = field(default_factory=dict)
    origins: tuple[tuple[Path, int], ...] = ()
    origin: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def path(self, index: int) -> Path:
        if self.origin is None:
            return self.folder / self.ids[index]
        folder, before = self.origins[self.origin[index]]
        return folder / self.ids[index][before:]

    def select(self, indices: np.ndarray) -> UtteranceList:
        """The utterances at `indices`, in that order."""
        chosen = indices.tolist()
        ids = (self.ids[i] for i in chosen)
        return UtteranceList(
            self.name,
            self.folder,
            Names(ids) if isinstance(self.ids, Names) else list(ids),
            self.labels[indices],
            {name: [values[i] for i in chosen] for name, values in self.columns.items()},
            self.origins,
            None if self.origin is None else self.origin[indices],
        )

    def packed(self) -> UtteranceList:
        """The same recordings and labels, without columns, for processes that are forked (see `asdf.trials.names`)."""
        ids = self.ids if isinstance(self.ids, Names) else Names(self.ids)
        return UtteranceList(
            self.name, self.folder, ids, self.labels, {}, self.origins, self.origin
        )

    def trials(self) -> Trials:
        """The utterances as trials of an evaluation set."""
        return Trials(self.ids, self.labels.astype(np.int64), self.columns)

    def digest(self) -> str:
        """A name for the content of the list, wherever its recordings lie: a node's local disk changes its name."""
        return hashlib.sha256("\n".join(self.ids).encode("utf-8", "surrogateescape")).hexdigest()[
            :16
        ]


def read_list(path: Path, folder: Path, name: str = "") -> UtteranceList:
    """Read a list in ASDF's format: `relative/path.flac 1` a line; 1 is bona fide, 0 is spoof.

    A table of trials (see `asdf.trials.trials`) is a list too; its columns come with it.

    Args:
        folder: the folder that the paths in the list are relative to.

    Raises:
        AsdfError: missing or empty list, a bad label, an utterance named twice; with file and line.
    """
    ids: list[str] = []
    labels: list[int] = []
    for number, line in _lines(path):
        if not ids and is_trials_file(line):
            trials = read_trials(path)
            columns = {column: list(values) for column, values in trials.columns.items()}
            listed = list(trials.ids)
            return _checked(
                path,
                UtteranceList(name, folder, listed, trials.labels.astype(np.int8), columns),
            )
        utterance, _, label = line.rpartition(" ")
        if not utterance.strip() or label not in ("0", "1"):
            raise AsdfError(
                f"{path}, line {number}: {line[:120]!r} is not 'relative/path.flac 1'. "
                "Each line is a path, a space, and 1 (bona fide) or 0 (spoof)."
            )
        ids.append(utterance.strip())
        labels.append(int(label))
    return _checked(path, UtteranceList(name, folder, ids, np.array(labels, np.int8)))


def read_asvspoof2019_protocol(
    path: Path, folder: Path, audio: str, name: str = ""
) -> UtteranceList:
    """Read `SPEAKER UTT - ATTACK KEY` lines; the utterance's file is `audio/UTT.flac` below `folder`.

    Raises:
        AsdfError: missing or empty protocol, a malformed line, an utterance named twice.
    """
    ids, labels, speakers, attacks = [], [], [], []
    same: dict[str, str] = {}  # one string for all lines of a speaker or an attack
    for number, line in _lines(path):
        columns = line.split()
        if len(columns) != 5 or columns[4] not in ("bonafide", "spoof"):
            raise AsdfError(
                f"{path}, line {number}: {line[:120]!r} is not 'SPEAKER UTT - ATTACK KEY' with a key "
                "'bonafide' or 'spoof'. Is it a countermeasure protocol of ASVspoof 2019?"
            )
        ids.append(f"{audio}/{columns[1]}.flac")
        labels.append(int(columns[4] == "bonafide"))
        speakers.append(same.setdefault(columns[0], columns[0]))
        attacks.append(same.setdefault(columns[3], columns[3]))
    conditions = {"speaker": speakers, "attack": attacks}
    return _checked(path, UtteranceList(name, folder, ids, np.array(labels, np.int8), conditions))


def join(lists: list[UtteranceList]) -> UtteranceList:
    """One list of several, for training on several corpora; an id is `corpus:id`."""
    origins: list[tuple[Path, int]] = []
    origin = []
    for part in lists:
        inner = np.zeros(len(part), np.int16) if part.origin is None else part.origin
        origin.append(inner + np.int16(len(origins)))
        before = len(part.name) + 1
        origins += [(folder, before + more) for folder, more in part.origins or ((part.folder, 0),)]
    return UtteranceList(
        "+".join(part.name for part in lists),
        Path(),
        Names(f"{part.name}:{utterance}" for part in lists for utterance in part.ids),
        np.concatenate([part.labels for part in lists]),
        {
            name: [value for part in lists for value in part.columns.get(name, [""] * len(part))]
            for name in dict.fromkeys(name for part in lists for name in part.columns)
        },
        tuple(origins),
        np.concatenate(origin),
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

    Each folder is listed once instead of asking for every file: on a parallel file system that is far quicker. Of a
    folder in a tar the archive's index tells.
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
            problems.append(
                f"{len(missing)} of the {len(utterances)} files of {utterances.name} are not in "
                f"{utterances.folder}:{lines_and_more(missing, _SHOWN, indent=' ' * 4)}"
            )
    if problems:
        raise AsdfError(
            "missing recordings:\n  "
            + "\n  ".join(problems)
            + "\nCheck paths.database_folder and the corpus's entry in the recipe: recordings are looked for below "
            "paths.database_folder, those of a list with an absolute path too, and folder= moves both; nothing has "
            "been started."
        )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        file = open_file(path)
    except (FileNotFoundError, NotADirectoryError):
        raise AsdfError(
            f"there is no list {path}. Check paths.database_folder and the corpus's entry in the recipe."
        ) from None
    except OSError as error:
        raise AsdfError(
            f"cannot read the list {path}: {error.strerror}. It should be a text file in UTF-8."
        ) from None
    with file:
        yield from lines_of(file, path)


def _checked(path: Path, utterances: UtteranceList) -> UtteranceList:
    """`utterances`, one from each of the last lines of `path` that are not blank, if there are any and all differ."""
    if not utterances.ids:
        raise AsdfError(f"the list {path} is empty: it should name one utterance a line.")
    if len(set(map(same_recording, utterances.ids))) < len(utterances):
        raise AsdfError(_repeated(path, utterances))
    return utterances


def _repeated(path: Path, utterances: UtteranceList) -> str:
    """The message on a list in which utterances come twice, maybe in different spellings."""
    same = [same_recording(utterance) for utterance in utterances.ids]
    first: dict[str, int] = {}
    again = [place for place, name in enumerate(same) if first.setdefault(name, place) != place]
    numbers = [number for number, _ in _lines(path)][-len(same) :]
    place = again[0]
    earlier = first[same[place]]
    spelled = utterances.ids[earlier]
    as_spelled = f" as {spelled!r}" if spelled != utterances.ids[place] else ""
    count = (
        f"{len(again)} lines repeat an utterance"
        if len(again) > 1
        else "1 line repeats an utterance"
    )
    both = ""
    if any(utterances.labels[at] != utterances.labels[first[same[at]]] for at in again):
        both = " There are such with both labels, of which one is wrong."
    return (
        f"{path}, line {numbers[place]}: {utterances.ids[place]!r} stands already in line "
        f"{numbers[earlier]}{as_spelled} ({count}). Every trial counts once: remove the repeated lines.{both}"
    )


def same_recording(path: str) -> str:
    """The one spelling of all paths that lead to the same file: `a//b`, `./a/b` and `c/../a/b` are `a/b`."""
    # A million paths are looked at; hardly any is spelled so.
    return posixpath.normpath(path) if "//" in path or "./" in path else path


def _entries(folder: Path) -> set[str]:
    try:
        return {entry.name for entry in os.scandir(folder)}
    except (FileNotFoundError, NotADirectoryError):
        found = find_folder(folder)
        return (
            set()
            if found is None
            else {name for name in found[0].names(found[1]) if "/" not in name}
        )
    except OSError as error:
        raise AsdfError(
            f"cannot list the folder {folder}: {error.strerror}. Check its permissions."
        ) from None

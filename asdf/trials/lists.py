"""Lists of utterances: ASDF's own formats, and the countermeasure protocols of ASVspoof 2019.

Invariant: a `TrialList` has no bad label and no utterance twice, and keeps the order of its file; ids are the
paths that stand in the file, so that score files and lists can be joined line by line.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from asdf.archives import find_folder, open_file
from asdf.errors import AsdfError
from asdf.text import lines_and_more
from asdf.trials.lines import lines_of
from asdf.trials.table import is_trials_file, read_trials
from asdf.trials.trial_list import TrialList

_SHOWN = 10


def read_list(path: Path, folder: Path, name: str = "") -> TrialList:
    """Read a list in ASDF's format: `relative/path.flac 1` a line; 1 is bona fide, 0 is spoof.

    A table of trials (see `asdf.trials.table`) is a list too; its columns come with it.

    Args:
        folder: the folder that the paths in the list are relative to.

    Raises:
        AsdfError: missing or empty list, a bad label, an utterance named twice; with file and line.
    """
    ids: list[str] = []
    labels: list[int] = []
    for number, line in _lines(path):
        if not ids and is_trials_file(line):
            return _checked(path, replace(read_trials(path), name=name, folder=folder))
        utterance, _, label = line.rpartition(" ")
        if not utterance.strip() or label not in ("0", "1"):
            raise AsdfError(
                f"{path}, line {number}: {line[:120]!r} is not 'relative/path.flac 1'. "
                "Each line is a path, a space, and 1 (bona fide) or 0 (spoof)."
            )
        ids.append(utterance.strip())
        labels.append(int(label))
    return _checked(path, TrialList(ids, np.array(labels, np.int8), name=name, folder=folder))


def read_asvspoof2019_protocol(path: Path, folder: Path, audio: str, name: str = "") -> TrialList:
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
    return _checked(
        path,
        TrialList(ids, np.array(labels, np.int8), name=name, folder=folder, columns=conditions),
    )


def check_both_classes(utterances: TrialList, use: str) -> None:
    """Raise an AsdfError when a class is missing, so that neither a loss nor an EER can mean anything."""
    for label, kind in ((1, "bona fide"), (0, "spoof")):
        if not (utterances.labels == label).any():
            raise AsdfError(
                f"the list {utterances.name} has {len(utterances)} utterances, none of them {kind}: {use} needs both "
                "classes. Is it the right list? 1 is bona fide, 0 is spoof."
            )


def check_files(lists: Iterable[TrialList]) -> None:
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


def _checked(path: Path, utterances: TrialList) -> TrialList:
    """`utterances`, one from each of the last lines of `path` that are not blank, if there are any and all differ."""
    if not utterances.ids:
        raise AsdfError(f"the list {path} is empty: it should name one utterance a line.")
    if len(set(map(same_recording, utterances.ids))) < len(utterances):
        raise AsdfError(_repeated(path, utterances))
    return utterances


def _repeated(path: Path, utterances: TrialList) -> str:
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
            else {name for name in found.archive.names(found.name) if "/" not in name}
        )
    except OSError as error:
        raise AsdfError(
            f"cannot list the folder {folder}: {error.strerror}. Check its permissions."
        ) from None

"""Recordings given to a command by one name: lists, protocols, corpora, folders.

Invariant: every trial has the path of its recording, in any kind of input.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from asdf.commands.score_recordings import find_recordings
from asdf.corpora import (
    has_class_folders,
    is_known,
    parse_located,
    read_class_folders,
    read_protocol,
)
from asdf.errors import AsdfError, UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.recipe.declared_corpora import read_named
from asdf.text import quoted_and_more
from asdf.trials.lists import read_list
from asdf.trials.trees import open_tree
from asdf.trials.trial_list import TrialList, bare_name

_SHOWN = 5


def read_recordings(
    named: str, folder: Path | None, subset: str | None = None, *, classes: bool = False
) -> TrialList:
    """Return the trials of an input, with paths.

    Args:
        named: Folder of recordings; list or table of trials; protocol of any corpus; or name of a
            corpus.
        folder: Folder that paths are relative to, or that contains the recordings of a protocol or
            corpus.
        subset: Subset of a protocol.
        classes: Whether subfolders such as real/ and fake/ determine the classes of recordings.

    Raises:
        UsageError: there is no such file or corpus, or it needs a folder.
        AsdfError: it cannot be read, or recordings are missing.
    """
    path = Path(named)
    # A corpus's name takes precedence over a file with that name.
    if is_known(named):
        if folder is None and parse_located(named) is None:
            raise UsageError(
                f"{named} is the name of a corpus, whose location is unknown. Give its folder with "
                "--folder."
            )
        return read_named(named, folder or Path())
    if path.is_dir() and classes and has_class_folders(open_tree(path)):
        reading = read_class_folders(open_tree(path), "")
        return replace(reading.trials, name=path.name or "recordings", folder=path)
    if path.is_dir():
        recordings = find_recordings([named])
        ids = [Path(each).relative_to(path).as_posix() for each in recordings.paths]
        # -1: unknown.
        labels = np.full(len(ids), -1, np.int8)
        return TrialList(ids, labels, name=path.name or "recordings", folder=path)
    if not path.exists():
        raise UsageError(
            f"there is no list, folder or corpus {named}. Check the path; `python -m asdf corpora` "
            "lists the names of corpora."
        )
    if subset is None:
        try:
            # Only a file that is not a list is read as a protocol.
            return read_list(path, path.parent if folder is None else folder, path.stem)
        except AsdfError as error:
            if folder is None:
                raise AsdfError(
                    f"{error} If it is a protocol, give the folder of its recordings with --folder."
                ) from None
    if folder is None:
        raise UsageError(
            f"{path} is a protocol, which does not contain paths. Give the folder of its "
            "recordings with --folder."
        )
    return _locate(read_protocol(path, subset), path, folder)


def _locate(trials: TrialList, protocol: Path, folder: Path) -> TrialList:
    """Return the trials of a protocol, with the paths of their recordings as ids."""
    paths = _audio_by_name(folder)
    names = [bare_name(utterance) for utterance in trials.ids]
    missing = [name for name in names if name not in paths]
    if missing:
        raise AsdfError(
            f"{len(missing)} of the {len(trials)} trials of {protocol} have no recording in "
            f"{folder}: {quoted_and_more(missing, _SHOWN)}. The folder is searched for audio files "
            "with these names. Check that --folder is the folder of this set."
        )
    ids = [paths[name] for name in names]
    return replace(trials, ids=ids, name=protocol.stem, folder=folder)


def _audio_by_name(folder: Path) -> Mapping[str, str]:
    """Return the relative path of each recording in a folder, by its bare name."""
    paths: dict[str, str] = {}
    for parent, folders, files in os.walk(folder):
        # For duplicates, the first path in this order is used, on every file system.
        folders.sort()
        for name in sorted(files):
            if Path(name).suffix.lower() in AUDIO_SUFFIXES and not name.startswith("._"):
                path = Path(parent, name).relative_to(folder).as_posix()
                paths.setdefault(bare_name(name), path)
    return paths

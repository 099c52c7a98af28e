"""MLAAD (Müller et al., IJCNN 2024): text-to-speech in many languages, all of it spoof.

The corpus consists of the files on disk: `fake/<language>/<system>/*.wav`. The `meta.csv` of a
system adds columns; because some of its paths are wrong, its lines are matched with recordings by
file name in the system's folder.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import numpy as np

from asdf.corpora.known_corpus import (
    ANTI_DEEPFAKE,
    KnownCorpus,
    Origin,
    Reading,
    is_there,
    join_name,
    recordings,
)
from asdf.errors import AsdfError
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

# Names of columns in meta.csv, and the names used here; transcripts and durations are left out.
_META = {
    "original_file": "source",
    "is_original_language": "original_language",
    "training_data": "training_data",
    "model_name": "model",
    "architecture": "architecture",
    "reference_speaker": "speaker",
}

# Folders above a recording: fake, the language, the system.
_DEPTH = 3


def _read(tree: Tree, subset: str) -> Reading:
    audio = join_name("fake", subset)
    systems: dict[str, list[str]] = defaultdict(list)
    for name in recordings(tree, audio):
        parts = name.split("/")
        if len(parts) > _DEPTH:
            systems["/".join(parts[:_DEPTH])].append(name)
    if not systems:
        what = "fake/<language>/<system>/*.wav"
        if subset:
            what = f"of a language {subset!r}, fake/{subset}/<system>/*.wav"
        raise AsdfError(
            f"{tree.root}: no recordings {what}. Is it MLAAD's folder, unpacked completely?"
        )
    notes: list[str] = []
    columns: dict[str, list[str]] = {"attack": [], "language": []}
    for column in _META.values():
        columns[column] = []
    ids: list[str] = []
    for folder, names in systems.items():
        rows = _read_meta(tree, folder, {_file_name(name) for name in names}, notes)
        _, language, system = folder.split("/")
        for name in names:
            row = rows.get(_file_name(name), {})
            ids.append(name)
            columns["attack"].append(system)
            columns["language"].append(language)
            for key, column in _META.items():
                columns[column].append(row.get(key, ""))
    # Versions differ in the columns of meta.csv: a column without any value is left out.
    known = {column: values for column, values in columns.items() if any(values)}
    trials = TrialList(ids, np.zeros(len(ids), np.int8), columns=known)
    return Reading(trials, audio=(audio,), notes=notes)


def _read_meta(
    tree: Tree, folder: str, existing: set[str], notes: list[str]
) -> dict[str, dict[str, str]]:
    """Return the lines of a system's meta.csv by file name.

    Its columns are separated by `|`, and quotes have no meaning. Differences from the `existing`
    files are added to `notes`.
    """
    path = f"{folder}/meta.csv"
    if not is_there(tree, path):
        notes.append(
            f"{folder} has no meta.csv, so no columns from it; recordings: {len(existing)}"
        )
        return {}
    lines = tree.lines(path)
    _, header = next(lines, (1, ""))
    names = header.strip().split("|")
    if "path" not in names:
        notes.append(f"{path} has no column 'path': it is left out")
        return {}
    rows = {}
    incomplete = []
    for number, line in lines:
        row = dict(zip(names, line.split("|"), strict=False))
        if "path" in row:
            rows[_file_name(row["path"].strip().replace("\\", "/"))] = row
        else:
            incomplete.append(number)
    if incomplete:
        notes.append(
            f"{path} has lines that end before their path, left out: {len(incomplete)}, such as "
            f"line {incomplete[0]}"
        )
    notes += _describe_differences(path, rows, existing)
    return rows


def _describe_differences(path: str, named: Collection[str], existing: set[str]) -> list[str]:
    """Return notes on files that a table names and that are missing, or vice versa."""
    notes = []
    # min() of either set: the same missing files give the same note on every machine.
    missing = set(named) - existing
    if missing:
        notes.append(
            f"{path} names recordings that are not there: {len(missing)}, such as {min(missing)}"
        )
    unnamed = existing.difference(named)
    if unnamed:
        notes.append(
            f"{path} does not name recordings that are there: {len(unnamed)}, such as "
            f"{min(unnamed)}"
        )
    return notes


def _file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


MLAAD = KnownCorpus(
    name="mlaad",
    title="MLAAD",
    homepage="https://huggingface.co/datasets/mueller91/MLAAD",
    licence="CC BY-NC 4.0",
    needs="fake/<language>/<system>/*.wav with a meta.csv in each; its sizes differ from version "
    "to version",
    # If several versions exist, the newest one is used.
    folders=("MLAAD", "mlaad", *(f"MLAAD_v{version}" for version in range(12, 0, -1))),
    marks=("fake",),
    read=_read,
    subset_of="language",
    origin=Origin(("M-AILABS",), ANTI_DEEPFAKE),
)

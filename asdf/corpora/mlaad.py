"""MLAAD (Müller et al., IJCNN 2024): text-to-speech in many languages, all of it spoof.

What lies on disk is the corpus: `fake/<language>/<system>/*.wav`. The `meta.csv` of a system adds columns; since some
of its paths are wrong, a line belongs to the recording of that file name in the system's folder.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from asdf.corpora.known import KnownCorpus, Reading, is_there, join_name, recordings
from asdf.errors import AsdfError
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

# What meta.csv calls a column, and its name here; transcripts and durations are left where they are.
_META = {
    "original_file": "source",
    "is_original_language": "original_language",
    "training_data": "training_data",
    "model_name": "model",
    "architecture": "architecture",
    "reference_speaker": "speaker",
}


def _read(tree: Tree, subset: str) -> Reading:
    audio = join_name("fake", subset)
    names = [name for name in recordings(tree, audio) if name.count("/") >= 3]
    if not names:
        what = (
            f"of a language {subset!r}, fake/{subset}/<system>/*.wav"
            if subset
            else "fake/<language>/<system>/*.wav"
        )
        raise AsdfError(f"{tree.root}: no recordings {what}. Is it MLAAD's folder, unpacked whole?")
    systems: dict[str, list[str]] = defaultdict(list)
    for name in names:
        systems["/".join(name.split("/")[:3])].append(name)
    notes: list[str] = []
    columns: dict[str, list[str]] = {"attack": [], "language": []}
    columns |= {name: [] for name in _META.values()}
    ids: list[str] = []
    for folder, there in systems.items():
        meta = _meta(tree, folder, {name.rsplit("/", 1)[1] for name in there}, notes)
        _, language, system = folder.split("/")
        for name in there:
            said = meta.get(name.rsplit("/", 1)[1], {})
            ids.append(name)
            columns["attack"].append(system)
            columns["language"].append(language)
            for key, column in _META.items():
                columns[column].append(said.get(key, ""))
    kept = {name: values for name, values in columns.items() if any(values)}
    return Reading(TrialList(ids, np.zeros(len(ids), np.int8), columns=kept), (audio,), notes=notes)


def _meta(tree: Tree, folder: str, there: set[str], notes: list[str]) -> dict[str, dict[str, str]]:
    """The lines of a system's meta.csv by file name; it is apart by `|`, and quotes in it mean nothing."""
    path = f"{folder}/meta.csv"
    if not is_there(tree, path):
        notes.append(f"{folder} has no meta.csv, so no columns from it; recordings: {len(there)}")
        return {}
    header, *lines = [line for _, line in tree.lines(path)] or [""]
    names = header.strip().split("|")
    if "path" not in names:
        notes.append(f"{path} has no column 'path': it is left out")
        return {}
    rows = [dict(zip(names, line.split("|"), strict=False)) for line in lines]
    found = {row["path"].strip().replace("\\", "/").rsplit("/", 1)[-1]: row for row in rows}
    gone, unsaid = found.keys() - there, there - found.keys()
    if gone:
        notes.append(
            f"{path} names recordings that are not there: {len(gone)}, such as {min(gone)}"
        )
    if unsaid:
        notes.append(
            f"{path} says nothing of recordings that are there: {len(unsaid)}, such as {min(unsaid)}"
        )
    return found


MLAAD = KnownCorpus(
    title="MLAAD",
    homepage="https://huggingface.co/datasets/mueller91/MLAAD",
    licence="CC BY-NC 4.0",
    needs="fake/<language>/<system>/*.wav with a meta.csv in each; its sizes differ from version to version",
    folders=("MLAAD", "mlaad", *(f"MLAAD_v{version}" for version in range(12, 0, -1))),
    marks=("fake",),
    read=_read,
    subset_of="language",
)

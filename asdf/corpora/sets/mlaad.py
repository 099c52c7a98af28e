"""MLAAD (Müller et al., IJCNN 2024), its protocols for source tracing, and M-AILABS, its speech.

MLAAD is text-to-speech in many languages, all of it spoof. The corpus consists of the files on
disk: `fake/<language>/<system>/*.wav`. The `meta.csv` of a system adds columns; because some of its
paths are wrong, its lines are matched with recordings by file name in the system's folder.

The protocols for source tracing (Interspeech 2025) are on version 5. A line is a recording with its
system. Models of dev and eval that are not in train are unknown there. The files repeat some lines,
which count once, and have `zh` for the folder that versions of MLAAD call `zh-cn`, or vice versa.

The M-AILABS Speech Dataset is audiobooks read by volunteers, all bona fide. The paths are
`<language>/by_book/{female,male}/<speaker>/<book>/wavs/*.wav`; books that several people read are
in `<language>/by_book/mix/...`, with unknown speakers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from itertools import chain

import numpy as np

from asdf.corpora.known_corpus import (
    ANTI_DEEPFAKE,
    KnownCorpus,
    Origin,
    Reading,
    find_labels,
    first_there,
    is_there,
    join_name,
    recordings,
)
from asdf.errors import AsdfError
from asdf.trials.label_files import named_rows, other_width
from asdf.trials.lists import Tree
from asdf.trials.table import TrialCollector
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


def read_mlaad(tree: Tree, subset: str) -> Reading:
    """Read MLAAD, or the folder of one of its languages.

    Raises:
        AsdfError: there are no recordings, or a row of a table is longer than its header.
    """
    audio = join_name("fake", subset)
    systems: dict[str, list[str]] = defaultdict(list)
    for name in recordings(tree, audio):
        parts = name.split("/")
        if len(parts) > _DEPTH:
            systems["/".join(parts[:_DEPTH])].append(name)
    if not systems:
        what = f"of a language {subset!r}, " if subset else ""
        raise AsdfError(
            f"{tree.root}: no recordings {what}fake/{subset or '<language>'}/<system>/*.wav. Is it "
            "MLAAD's folder, unpacked completely?"
        )
    notes: list[str] = []
    columns: dict[str, list[str]] = {name: [] for name in ("attack", "language", *_META.values())}
    ids: list[str] = []
    for folder, names in systems.items():
        rows = _read_meta(tree, folder, {_file_name(name) for name in names}, notes)
        _, language, system = folder.split("/")
        ids += names
        columns["attack"] += [system] * len(names)
        columns["language"] += [language] * len(names)
        found = [rows.get(_file_name(name), {}) for name in names]
        for key, column in _META.items():
            columns[column] += [row.get(key, "") for row in found]
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
        cells = line.split("|")
        if len(cells) > len(names):
            raise AsdfError(other_width(tree.path(path), number, cells, names))
        row = dict(zip(names, cells, strict=False))
        if "path" in row:
            rows[_file_name(row["path"].strip().replace("\\", "/"))] = row
        else:
            incomplete.append(number)
    if incomplete:
        notes.append(
            f"{path} has lines that end before their path, left out: {len(incomplete)}, such as "
            f"line {incomplete[0]}"
        )
    notes += _describe_missing(path, rows.keys() - existing)
    if unnamed := existing - rows.keys():
        notes.append(
            f"{path} does not name recordings that are there: {len(unnamed)}, such as "
            f"{min(unnamed)}"
        )
    return rows


def _describe_missing(path: str, missing: Collection[str]) -> list[str]:
    """Return a note on recordings that a table names and that are not there."""
    # The first by name: the same missing files give the same note on every machine.
    what = f"{path} names recordings that are not there"
    return [f"{what}: {len(missing)}, such as {min(missing)}"] if missing else []


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
    read=read_mlaad,
    subset_of="language",
    origin=Origin(("M-AILABS",), ANTI_DEEPFAKE),
)


_PROTOCOLS = ("mlaad4sourcetracing", "MLAADv5_for_sourcetracing", "source_tracing", "")
_AUDIO = ("", "MLAADv5", "MLAAD_v5", "mlaad_v5", "MLAAD", "mlaad")
_SUBSETS = ("train", "dev", "eval")
_OTHER_LANGUAGE = {"zh": "zh-cn", "zh-cn": "zh"}
# Number of components of a path in the protocols: fake, language, system, recording.
_PARTS = 4


def read_tracing(tree: Tree, subset: str) -> Reading:
    """Read a protocol for source tracing on MLAAD.

    Raises:
        AsdfError: it does not exist, or a line is malformed.
    """
    names = [join_name(folder, f"{subset}.csv") for folder in _PROTOCOLS]
    protocol = find_labels(tree, names, "Unpack the protocols for source tracing there.")
    root = first_there(tree, [join_name(folder, "fake") for folder in _AUDIO]) or "fake"
    folders: dict[str, str] = {}
    path = tree.path(protocol)
    collector = TrialCollector(path, ("attack", "model", "language"))
    seen = set()
    repeated = 0
    columns = {"path": "path", "model_name": "model"}
    for number, row in named_rows(tree.lines(protocol), path, columns):
        parts = row["path"].replace("\\", "/").removeprefix("./").split("/")
        model = row["model"]
        if len(parts) != _PARTS or parts[0] != "fake" or not model:
            raise AsdfError(
                f"{path}, line {number}: expected a path fake/<language>/<system>/<recording> and "
                f"a model_name, found {row['path']!r}."
            )
        _, language, system, recording = parts
        folder = f"{root}/{language}/{system}"
        # Looked for once per folder, since a folder has thousands of recordings.
        if folder not in folders:
            # The same path with the other name of the language.
            other = f"{root}/{_OTHER_LANGUAGE.get(language, language)}/{system}"
            is_other = is_there(tree, other) and not is_there(tree, folder)
            folders[folder] = other if is_other else folder
        folder = folders[folder]
        name = f"{folder}/{recording}"
        if name in seen:
            repeated += 1
            continue
        seen.add(name)
        collector.add(number, name, 0, (system, model, language))  # all of MLAAD is spoof
    notes = [f"{protocol} repeats {repeated} lines, which count once"] if repeated else []
    return Reading(collector.trials(), audio=(root,), notes=notes)


MLAAD_SOURCE_TRACING = KnownCorpus(
    name="mlaad-source-tracing",
    title="MLAAD, protocols for source tracing",
    homepage="https://deepfake-total.com/sourcetracing",
    licence="CC BY-NC 4.0",
    needs="MLAAD version 5, fake/<language>/<system>/*.wav, and mlaad4sourcetracing/train.csv, "
    "dev.csv, eval.csv",
    folders=("MLAADv5", "MLAAD_v5", "mlaad_v5", "MLAAD", "mlaad", ""),
    marks=tuple(f"{folder}/{subset}.csv" for folder in _PROTOCOLS if folder for subset in _SUBSETS),
    read=read_tracing,
    subsets=_SUBSETS,
    usual="eval",
)


LANGUAGES = ("de_DE", "en_UK", "en_US", "es_ES", "fr_FR", "it_IT", "pl_PL", "ru_RU", "uk_UK")
_COLUMNS = ("speaker", "attack", "language", "gender", "book")


def read_m_ailabs(tree: Tree, subset: str) -> Reading:
    """Read M-AILABS, or one of its languages.

    Raises:
        AsdfError: there are no recordings.
    """
    languages = [subset]
    if not subset:
        languages = [name for name in LANGUAGES if is_there(tree, f"{name}/by_book")]
    ids: list[str] = []
    columns: dict[str, list[str]] = {name: [] for name in _COLUMNS}
    books: dict[str, set[str]] = defaultdict(set)
    for name in chain(*(recordings(tree, f"{language}/by_book") for language in languages)):
        *folders, file = name.split("/")
        inner = [part for part in folders if part != "wavs"]
        if len(inner) < 4:  # language, by_book, gender, book; below mix without a speaker
            continue
        language, _, gender, speaker, *_ = inner
        ids.append(name)
        values = ("" if gender == "mix" else speaker, "-", language, gender, inner[-1])
        for column, value in zip(_COLUMNS, values, strict=True):
            columns[column].append(value)
        books["/".join(folders).removesuffix("/wavs")].add(file.rsplit(".", 1)[0])
    if not ids:
        raise AsdfError(
            f"{tree.root}: no recordings {subset or '<language>'}/by_book/<gender>/<speaker>/<book>"
            f"/wavs/*.wav. The archives of its languages ({', '.join(LANGUAGES)}) each unpack into "
            "a folder of that name."
        )
    # Recordings in the books' metadata.csv (`name|text|text`) that do not exist.
    notes = []
    for book, existing in books.items():
        path = f"{book}/metadata.csv"
        if is_there(tree, path):
            lines = tree.lines(path)
            named = {line.split("|")[0].strip().removesuffix(".wav") for _, line in lines}
            # Not vice versa: a recording without a transcript is a trial like any other.
            notes += _describe_missing(path, named - existing)
    trials = TrialList(ids, np.ones(len(ids), np.int8), columns=columns)
    return Reading(trials, audio=languages, notes=notes)


M_AILABS = KnownCorpus(
    name="m-ailabs",
    title="M-AILABS Speech Dataset",
    homepage="https://www.caito.de/2019/01/03/the-m-ailabs-speech-dataset/",
    licence="its own, free of charge; see its page",
    needs="<language>/by_book/<gender>/<speaker>/<book>/wavs/*.wav; languages such as en_US, de_DE",
    folders=("M-AILABS", "m-ailabs", "m_ailabs", "mailabs", "M-AILABS_Speech_Dataset", ""),
    marks=tuple(f"{language}/by_book" for language in LANGUAGES),
    read=read_m_ailabs,
    subset_of="language",
    origin=Origin(("M-AILABS",), "itself"),
)

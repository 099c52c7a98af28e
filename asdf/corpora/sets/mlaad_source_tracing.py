"""MLAAD's protocols for source tracing (Interspeech 2025, "Source tracing"), on MLAAD version 5.

A line is a recording of MLAAD with its system. Models of dev and eval that are not in train are
unknown there. The files repeat some lines, which count once, and have `zh` for the folder that
versions of MLAAD call `zh-cn`, or vice versa.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asdf.corpora.known_corpus import (
    KnownCorpus,
    Reading,
    find_labels,
    first_there,
    is_there,
    join_name,
)
from asdf.errors import AsdfError
from asdf.trials.collecting import TrialCollector
from asdf.trials.trees import Tree

_PROTOCOLS = ("mlaad4sourcetracing", "MLAADv5_for_sourcetracing", "source_tracing", "")
_AUDIO = ("", "MLAADv5", "MLAAD_v5", "mlaad_v5", "MLAAD", "mlaad")
_SUBSETS = ("train", "dev", "eval")
_OTHER_LANGUAGE = {"zh": "zh-cn", "zh-cn": "zh"}
# Number of components of a path in the protocols: fake, language, system, recording.
_PARTS = 4


def _read(tree: Tree, subset: str) -> Reading:
    names = [join_name(folder, f"{subset}.csv") for folder in _PROTOCOLS]
    protocol = find_labels(tree, names, "Unpack the protocols for source tracing there.")
    root = first_there(tree, [join_name(folder, "fake") for folder in _AUDIO]) or "fake"
    folders: dict[str, str] = {}
    collector = TrialCollector(tree.path(protocol), ("attack", "model", "language"))
    seen = set()
    repeated = 0
    for number, row in _rows(tree, protocol):
        parts = row["path"].strip().replace("\\", "/").removeprefix("./").split("/")
        model = row["model_name"].strip()
        if len(parts) != _PARTS or parts[0] != "fake" or not model:
            raise AsdfError(
                f"{tree.path(protocol)}, line {number}: expected a path "
                f"fake/<language>/<system>/<recording> and a model_name, found {row['path']!r}."
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
    notes = []
    if repeated:
        notes.append(f"{protocol} repeats {repeated} lines, which count once")
    return Reading(collector.trials(), audio=(root,), notes=notes)


def _rows(tree: Tree, protocol: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the lines of a protocol by the names of its columns.

    Raises:
        AsdfError: it lacks a column, a line has fewer values, or a quote has no end.
    """
    lines = tree.lines(protocol)
    # A quoted transcript may continue in the next line.
    reader = csv.reader(f"{text}\n" for _, text in lines)
    try:
        yield from _named(tree.path(protocol), reader)
    except csv.Error as error:
        raise AsdfError(
            f"{tree.path(protocol)}: a quoted value is not closed by line {reader.line_num} "
            f"({error}). Is a quote missing above? Unpack the protocols again."
        ) from None


def _named(path: Path, reader: Any) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the values of each row of a csv by the names of its columns."""
    header: list[str] = next(reader, [])
    names = [name.strip() for name in header]
    missing = [name for name in ("path", "model_name") if name not in names]
    if missing:
        raise AsdfError(
            f"{path}: no column {missing[0]!r}; it has {', '.join(names) or 'nothing'}."
        )
    for row in reader:
        if len(row) != len(names):
            raise AsdfError(
                f"{path}, line {reader.line_num}: expected {len(names)} values separated by "
                f"commas, found {len(row)}."
            )
        yield reader.line_num, dict(zip(names, row, strict=True))


MLAAD_SOURCE_TRACING = KnownCorpus(
    name="mlaad-source-tracing",
    title="MLAAD, protocols for source tracing",
    homepage="https://deepfake-total.com/sourcetracing",
    licence="CC BY-NC 4.0",
    needs="MLAAD version 5, fake/<language>/<system>/*.wav, and mlaad4sourcetracing/train.csv, "
    "dev.csv, eval.csv",
    folders=("MLAADv5", "MLAAD_v5", "mlaad_v5", "MLAAD", "mlaad", ""),
    marks=tuple(f"{folder}/{subset}.csv" for folder in _PROTOCOLS if folder for subset in _SUBSETS),
    read=_read,
    subsets=_SUBSETS,
    usual="eval",
)

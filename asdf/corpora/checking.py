"""Whether a corpus is whole: what its label file names against what is on disk, and how long the recordings are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asdf.audio.reading import SAMPLE_RATE, audio_length
from asdf.corpora.known import Reading, files_in, is_recording
from asdf.data.threads import threads
from asdf.errors import AsdfError
from asdf.runs.progress import track
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

_THREADS = 8  # reading headers is waiting for the file system


@dataclass(frozen=True)
class OnDisk:
    """Recordings that are named and not there, and that are there and not named; names in the tree, sorted."""

    missing: Sequence[str]
    unnamed: Sequence[str]


def compare_with_disk(reading: Reading, tree: Tree) -> OnDisk:
    """What is missing of the trials of a reading, and what lies in its folders besides."""
    there = {name for folder in reading.audio for name in files_in(tree, folder)}
    named = set(reading.trials.ids)
    return OnDisk(
        sorted(named - there), sorted(filter(is_recording, there - named - reading.others))
    )


def counts(trials: TrialList, column: str) -> dict[str, tuple[int, int]]:
    """How many bona fide trials and spoofs have each value of a column, sorted by value."""
    found = Counter(zip(trials.columns[column], trials.labels.tolist(), strict=True))
    return {
        value: (found[value, 1], found[value, 0]) for value in sorted({value for value, _ in found})
    }


def durations_s(paths: Sequence[Path]) -> tuple[np.ndarray, list[str]]:
    """Seconds of each recording, from the headers alone, NaN where it cannot be read; and what is wrong with those."""
    seconds, wrong = np.full(len(paths), np.nan), []
    for place, found in enumerate(
        track(_lengths(paths), len(paths), "reading headers", unit="recordings")
    ):
        if isinstance(found, int):
            seconds[place] = found / SAMPLE_RATE
        else:
            wrong.append(found)
    return seconds, wrong


def _lengths(paths: Sequence[Path]) -> Iterator[int | str]:
    with threads(_THREADS) as pool:
        yield from pool.map(_length, paths)


def _length(path: Path) -> int | str:
    try:
        return audio_length(path)
    except (AsdfError, OSError) as error:
        return str(error)

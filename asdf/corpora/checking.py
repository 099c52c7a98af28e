"""Check of a corpus: its label file against the disk, and the lengths of recordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asdf.audio.reading import audio_length
from asdf.corpora.known_corpus import Reading, files_in, is_recording
from asdf.data.threads import threads
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.places import split_part
from asdf.runs.log import track
from asdf.trials.lists import Tree
from asdf.trials.trial_list import TrialList

# Reading headers is mostly waiting for the file system.
_THREADS = 8


@dataclass(frozen=True)
class OnDisk:
    """Differences between label file and disk, as sorted names in the tree.

    Attributes:
        missing: Recordings that are listed and do not exist.
        unnamed: Recordings that exist and are not listed.
    """

    missing: Sequence[str]
    unnamed: Sequence[str]


def compare_with_disk(reading: Reading, tree: Tree) -> OnDisk:
    """Compare the trials of a reading with the files in its folders."""
    existing: set[str] = set()
    for folder in reading.audio:
        existing.update(files_in(tree, folder))
    # A trial may be a part of a recording, such as `call.flac#t=1,2`; the disk has the whole one.
    named = {split_part(name)[0] for name in reading.trials.ids}
    # Lists may contain recordings outside of the tree.
    existing.update(name for name in named if name.startswith("/") and Path(name).is_file())
    # Other subsets may be in the same folders, and their recordings are not superfluous.
    unnamed = existing - named - reading.others
    return OnDisk(
        missing=sorted(named - existing),
        unnamed=sorted(name for name in unnamed if is_recording(name)),
    )


def counts(trials: TrialList, column: str) -> dict[str, tuple[int, int]]:
    """Count the bona fide trials and the spoofs with each value of a column, sorted by value."""
    values = trials.columns[column]
    numbers = Counter(zip(values, trials.labels.tolist(), strict=True))
    return {value: (numbers[value, 1], numbers[value, 0]) for value in sorted(set(values))}


def durations_s(paths: Sequence[Path]) -> tuple[np.ndarray, list[str]]:
    """Read the lengths of recordings from their headers alone.

    Returns:
        Length of each recording in seconds, NaN if its header cannot be read, and messages on
        those.
    """
    seconds = np.full(len(paths), np.nan)
    problems = []
    with threads(_THREADS) as pool:
        lengths = pool.map(_length, paths)
        tracked = track(lengths, len(paths), "reading headers", unit="recordings")
        for index, length in enumerate(tracked):
            if isinstance(length, int):
                seconds[index] = length / SAMPLE_RATE
            else:
                problems.append(length)
    return seconds, problems


def _length(path: Path) -> int | str:
    """Return the number of samples of a recording, or its problem."""
    try:
        return audio_length(path)
    except (AsdfError, OSError) as error:
        # A broken recording is a line in the report on the corpus, and does not end it.
        return str(error)

"""Shards of recordings that lie together, and orders that read few of them at a time.

Invariants: shards are defined by the paths of a list, wherever they lie: the tar or parquet file in
a path, or else its folder. An order by shards depends only on the list and the random draws. At no
time are more shards begun and unfinished than the window allows, so a disk cache of that size never
loses a shard that is needed again.

Shapes: N utterances or turns, S shards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asdf.archives import file_size
from asdf.arrays import AnyIntegers, Integers
from asdf.trials.trial_list import TrialList

_ARCHIVE = re.compile(r"\.(?:tar|parquet)/", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class Shards:
    """The shards of a list, numbered in the order of first appearance.

    Attributes:
        numbers_N: Number of each utterance's shard.
        paths: Path of each shard.
        archived: Number of shards that are archives; the others are folders of files.
    """

    numbers_N: npt.NDArray[np.int32]
    paths: list[Path]
    archived: int

    def __len__(self) -> int:
        return len(self.paths)

    def sizes(self) -> dict[Path, int]:
        """Return the size of each shard that is an existing archive, in bytes."""
        sizes = {}
        for path in self.paths:
            size = file_size(path) if _ARCHIVE.search(f"{path}/") else None
            if size is not None:
                sizes[path] = size
        return sizes


def find_shards(utterances: TrialList) -> Shards:
    """Return the shards that the paths of a list name.

    A vocoded copy belongs to the shard of its source. If a whole folder of a list is one archive,
    each folder in it is a shard, and several shards share the file.
    """
    numbers: dict[tuple[Path, str], int] = {}
    numbers_N = np.empty(len(utterances), np.int32)
    archived = 0
    # Neighbours in a list usually share a shard, which one comparison detects.
    begin, folder, number = "", Path(), -1
    for index, (recording, parent) in enumerate(_split_paths(utterances)):
        is_same = number >= 0 and parent is folder and recording.startswith(begin)
        if not (is_same and begin):
            archive = _ARCHIVE.search(recording)
            shard = recording[: archive.end() - 1] if archive else recording.rpartition("/")[0]
            known = len(numbers)
            number = numbers.setdefault((parent, shard), known)
            archived += bool(archive) and number == known
            # Folders below this one are shards of their own.
            begin, folder = (recording[: archive.end()] if archive else ""), parent
        numbers_N[index] = number
    return Shards(numbers_N, [parent / shard for parent, shard in numbers], archived)


def _split_paths(utterances: TrialList) -> Iterable[tuple[str, Path]]:
    """Yield the path of each recording below the folder of its corpus, and that folder."""
    if utterances.origin is None:
        for recording in utterances.recordings():
            yield recording, utterances.folder
        return
    origins = utterances.origins
    numbers = utterances.origin.tolist()
    for recording, number in zip(utterances.recordings(), numbers, strict=True):
        yield recording[origins[number].prefix :], origins[number].folder


def order_by_shards(
    shards_N: AnyIntegers, window: int, draws: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Return the indices of `shards_N` in an order in which at most `window` shards are open.

    A shard is open from its first turn to its last. The shards are permuted; shard r of S then has
    its turns at random times in an interval in which the shards r - window + 1 to r + window - 1
    are also open, but only `window` of them at once: from max(0, r - window + 1) to min(r, S -
    window) + 1. At both ends of the epoch the window keeps its size: the first shards begin
    together, and the last ones end together.

    Args:
        shards_N: Number of each turn's shard.
    """
    is_present = np.bincount(shards_N) > 0
    count = int(is_present.sum())
    local_N = (np.cumsum(is_present) - 1)[shards_N]
    rank_N = draws.permutation(count)[local_N]
    width = min(window, count)
    opens_N = np.maximum(rank_N - width + 1, 0)
    closes_N = np.minimum(rank_N, count - width) + 1
    moments_N = opens_N + (closes_N - opens_N) * draws.random(len(shards_N))
    # If rounded up, a time would fall into the next interval.
    moments_N = np.minimum(moments_N, np.nextafter(closes_N, 0.0))
    return np.argsort(moments_N, kind="stable")


def count_open(shards_N: AnyIntegers) -> Integers:
    """Return the number of shards open at each turn: between their first and last turns.

    Args:
        shards_N: Number of the shard of each turn, in the order of the turns.
    """
    _, firsts, local_N = np.unique(shards_N, return_index=True, return_inverse=True)
    lasts = np.zeros(len(firsts), np.int64)
    np.maximum.at(lasts, local_N, np.arange(len(shards_N)))
    changes = np.zeros(len(shards_N) + 1, np.int64)
    np.add.at(changes, firsts, 1)
    np.add.at(changes, lasts + 1, -1)
    return np.cumsum(changes)[:-1]

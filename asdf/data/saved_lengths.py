"""The file of measured lengths: `utterance samples`, apart by TABs, a line.

Where the recording was decoded to its end, the size and the time of change (ns) of its file follow.
The last line has a checksum of those before it; files of ASDF's first version have none.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from asdf.audio import audio_length
from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.runs.log import LOG
from asdf.trials.trial_list import TrialList

NOT_DECODED = -1

Row = tuple[int, int, int]
"""Samples; size and time of change of the file that was decoded to its end, or `NOT_DECODED` for both."""

# Rows that are Python objects at a time; all of a long list would take gigabytes.
_AT_ONCE = 1 << 12

_CHECKSUM = b"\tchecksum\t"  # no utterance has an empty name


def write_table(path: Path, ids: Sequence[str], table: np.ndarray) -> None:
    """Write the rows `table` (N, 3) int64 of the utterances `ids`."""
    checksum = 0
    with atomic_write(path, "wb") as file:
        for line in _lines(ids, table):
            checksum = zlib.crc32(line, checksum)
            file.write(line)
        file.write(_CHECKSUM + b"%08x\n" % checksum)


def _lines(ids: Sequence[str], table: np.ndarray) -> Iterator[bytes]:
    starts = range(0, len(table), _AT_ONCE)
    rows = chain.from_iterable(table[start : start + _AT_ONCE].tolist() for start in starts)
    for utterance, (samples, size, changed) in zip(ids, rows, strict=True):
        decoded = "" if size == NOT_DECODED else f"\t{size}\t{changed}"
        yield f"{utterance}\t{samples}{decoded}\n".encode("utf-8", "surrogateescape")


def read_table(path: Path, utterances: TrialList) -> np.ndarray | None:
    """What is saved in `path`, (N, 3) int64; None where nothing is, or what is there is damaged."""
    try:
        return _table(path, utterances)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError, AsdfError) as error:
        LOG.warning("%s is passed over, and %s measured anew: %s", path, utterances.name, error)
        return None


def _table(path: Path, utterances: TrialList) -> np.ndarray:
    """The table in the file `path`.

    Raises:
        OSError, ValueError, OverflowError, AsdfError: it cannot be read, is of other utterances, or
            is damaged.
    """
    table = np.full((len(utterances), 3), NOT_DECODED, np.int64)
    checksum = 0
    with path.open("rb") as file:
        for row, utterance in zip(table, utterances.ids, strict=True):
            line = file.readline()
            checksum = zlib.crc32(line, checksum)
            name = f"{utterance}\t".encode("utf-8", "surrogateescape")
            if not line.startswith(name):
                raise ValueError(f"it does not hold the utterances of {utterances.name}")
            numbers = [int(number) for number in line[len(name) :].split(b"\t")]
            if len(numbers) not in (1, 3) or numbers[0] < 0:
                raise ValueError(f"{line[len(name) :].strip()!r} are no lengths")
            row[: len(numbers)] = numbers
        stated = file.read(len(_CHECKSUM) + 10)
    if stated:
        if stated != _CHECKSUM + b"%08x\n" % checksum:
            raise ValueError("its checksum is wrong")
    else:
        _check_longest(table[:, 0], utterances)
    return table


def _check_longest(lengths: np.ndarray, utterances: TrialList) -> None:
    """Raise an error if the longest utterance of a file without a checksum is longer than its recording."""
    longest = int(lengths.argmax())
    if lengths[longest] > audio_length(utterances.path(longest)):
        raise ValueError(f"{utterances.ids[longest]} is shorter than {lengths[longest]} samples")

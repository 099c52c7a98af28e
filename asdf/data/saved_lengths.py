"""The file of measured lengths: lines of `utterance samples`, separated by TABs.

If the recording was decoded to its end, the size and modification time (ns) of its file follow. The
last line is a checksum of the lines before it; files of ASDF's first version have none.

A corpus that has grown has another list, and so another file. A note next to each file names its
corpus; rows of the newest file are reused for recordings in the new list.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from asdf.audio import audio_length
from asdf.errors import AsdfError
from asdf.places import file_size
from asdf.runs.files import atomic_write, write_text
from asdf.runs.log import LOG
from asdf.settings.sections import USUAL_AUDIO, Audio
from asdf.trials.trial_list import TrialList

NOT_DECODED = -1

# Number of rows held as Python objects at a time; all of a long list would take gigabytes.
_AT_ONCE = 1 << 12

# No utterance has an empty name.
_CHECKSUM = b"\tchecksum\t"


class Row(NamedTuple):
    """The measurements of a recording.

    Attributes:
        samples: Number of samples of speech.
        size, changed: Size in bytes and modification time (ns) of the file that was decoded to its
            end, or `NOT_DECODED` for both.
    """

    samples: int
    size: int
    changed: int


def write_table(path: Path, ids: Sequence[str], table: np.ndarray) -> None:
    """Write the rows `table` (N, 3) int64 of the utterances `ids`."""
    checksum = 0
    with atomic_write(path, "wb") as file:
        for start in range(0, len(table), _AT_ONCE):
            rows = table[start : start + _AT_ONCE].tolist()
            for row, (samples, size, changed) in enumerate(rows, start):
                decoded = "" if size == NOT_DECODED else f"\t{size}\t{changed}"
                line = _encode(f"{ids[row]}\t{samples}{decoded}\n")
                checksum = zlib.crc32(line, checksum)
                file.write(line)
        file.write(_encode_checksum(checksum))


def _encode_checksum(checksum: int) -> bytes:
    return _CHECKSUM + b"%08x\n" % checksum


def _encode(text: str) -> bytes:
    # File names may not be UTF-8.
    return text.encode("utf-8", "surrogateescape")


def read_table(path: Path, utterances: TrialList, audio: Audio = USUAL_AUDIO) -> np.ndarray | None:
    """Read the rows saved in `path`: (N, 3) int64.

    The result is None if the file does not exist or, with a warning, if it is damaged.
    """
    try:
        return _read_rows(path, utterances, audio)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError, AsdfError) as error:
        LOG.warning("%s is ignored, and %s measured again: %s", path, utterances.name, error)
        return None


def _read_rows(path: Path, utterances: TrialList, audio: Audio) -> np.ndarray:
    """Read the rows in the file `path`.

    Raises:
        OSError, ValueError, OverflowError, AsdfError: the file cannot be read, is of other
            utterances, or is damaged.
    """
    table = np.full((len(utterances), 3), NOT_DECODED, np.int64)
    checksum = 0
    with path.open("rb") as file:
        for row, utterance in zip(table, utterances.ids, strict=True):
            line = file.readline()
            checksum = zlib.crc32(line, checksum)
            name = _encode(f"{utterance}\t")
            if not line.startswith(name):
                raise ValueError(f"it does not hold the utterances of {utterances.name}")
            values = line[len(name) :]
            numbers = [int(number) for number in values.split(b"\t")]
            if len(numbers) not in (1, 3) or numbers[0] < 0:
                raise ValueError(f"{values.strip()!r} are not lengths")
            row[: len(numbers)] = numbers
        stated = file.read(len(_CHECKSUM) + 10)
    if not stated:
        # A file without a checksum: its longest utterance must have the stated length.
        longest = int(table[:, 0].argmax())
        samples = table[longest, 0]
        if samples > audio_length(utterances.path(longest), audio):
            raise ValueError(f"{utterances.ids[longest]} is shorter than {samples} samples")
    elif stated != _encode_checksum(checksum):
        raise ValueError("its checksum is wrong")
    return table


@dataclass(frozen=True)
class Note:
    """The note on a table of a corpus.

    Attributes:
        table: Name of the table's file, in the folder of the note.
        sizes: File sizes of some of its recordings in bytes, by id.
    """

    table: str
    sizes: Mapping[str, int]

    def write(self, path: Path) -> None:
        """Write the note."""
        write_text(path, json.dumps({"table": self.table, "sizes": dict(self.sizes)}) + "\n")

    def agrees_with(self, utterances: TrialList) -> bool:
        """Whether its recordings that are in a list still have the same sizes."""
        for index, utterance in enumerate(utterances.ids):
            size = self.sizes.get(utterance)
            if size is not None and file_size(utterances.path(index)) != size:
                return False
        return True


def read_newest(folder: Path, prefix: str) -> Note | None:
    """Return the newest note of a corpus; None if there is none, or it is damaged.

    Args:
        prefix: Prefix of the names of its notes.
    """
    try:
        notes = folder.glob(f"{escape(prefix)}*.json")
        path = max(notes, key=lambda note: note.stat().st_mtime_ns, default=None)
        note = json.loads(path.read_bytes() if path else "null")
        table, sizes = note["table"], note["sizes"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    # A bare name, so that a note cannot lead out of its folder.
    is_name = isinstance(table, str) and Path(table).name == table
    if not is_name or not isinstance(sizes, dict):
        return None
    return Note(table, sizes)


def read_earlier_rows(path: Path, utterances: TrialList) -> np.ndarray | None:
    """Read the rows of `utterances` from the table of another list: (N, 3) int64.

    Missing rows are `NOT_DECODED` throughout. The result is None if the file does not exist or,
    with a warning, if it is damaged.
    """
    try:
        with path.open("rb") as file:
            return _match_rows(file, utterances)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError) as error:
        LOG.warning("%s is ignored: %s", path, error)
        return None


def _match_rows(file: BinaryIO, utterances: TrialList) -> np.ndarray:
    """Return the rows of a file, matched to the names of a list.

    Raises:
        ValueError, OverflowError: the file is damaged.
    """
    table = np.full((len(utterances), 3), NOT_DECODED, np.int64)
    names = map(_encode, utterances.ids)
    lines = _checked_lines(file)
    # A list that grew at its end has the same rows up to there, so no mapping is needed.
    matched = 0
    name = None
    others: dict[bytes, list[int]] = {}
    for known, numbers in lines:
        name = next(names, None)
        if known != name:
            others[known] = numbers
            break
        table[matched, : len(numbers)] = numbers
        matched += 1
        name = None
    others.update(lines)
    rest = names if name is None else chain([name], names)
    for index, unmatched in enumerate(rest, matched):
        numbers = others.get(unmatched, [])
        table[index, : len(numbers)] = numbers
    return table


def _checked_lines(file: BinaryIO) -> Iterator[tuple[bytes, list[int]]]:
    """Yield the name and the numbers of each line.

    Raises:
        ValueError: a line has no lengths, or the checksum at the end is wrong.
    """
    checksum = 0
    for line in file:
        if line.startswith(_CHECKSUM):
            if line != _encode_checksum(checksum):
                break
            return
        checksum = zlib.crc32(line, checksum)
        name, *values = line.rstrip(b"\n").split(b"\t")
        if len(values) not in (1, 3):
            raise ValueError(f"{line[:120]!r} is not a name with lengths")
        yield name, [int(value) for value in values]
    raise ValueError("its checksum is wrong")

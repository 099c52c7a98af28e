"""The file of measured lengths: lines of `utterance samples`, separated by TABs.

Where the recording was decoded to its end, the size and the time of change (ns) of its file follow.
The last line has a checksum of those before it; files of ASDF's first version have none.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asdf.audio import audio_length
from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.runs.log import LOG
from asdf.settings.sections import USUAL_AUDIO, Audio
from asdf.trials.trial_list import TrialList

NOT_DECODED = -1

# Rows that are Python objects at a time; all of a long list would take gigabytes.
_AT_ONCE = 1 << 12

# No utterance has an empty name.
_CHECKSUM = b"\tchecksum\t"


class Row(NamedTuple):
    """What was measured of a recording.

    Attributes:
        samples: Samples of speech.
        size, changed: bytes and time of change (ns) of the file that was decoded to its end, or
            `NOT_DECODED` for both.
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
    # Names of files may be no UTF-8.
    return text.encode("utf-8", "surrogateescape")


def read_table(path: Path, utterances: TrialList, audio: Audio = USUAL_AUDIO) -> np.ndarray | None:
    """Read the rows that are saved in `path`: (N, 3) int64.

    None where the file does not exist or, with a warning, where it is damaged.
    """
    try:
        return _read_rows(path, utterances, audio)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError, AsdfError) as error:
        LOG.warning("%s is passed over, and %s measured anew: %s", path, utterances.name, error)
        return None


def _read_rows(path: Path, utterances: TrialList, audio: Audio) -> np.ndarray:
    """Read the rows in the file `path`.

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
        # A file without a checksum: its longest utterance must be as long as it says.
        longest = int(table[:, 0].argmax())
        samples = table[longest, 0]
        if samples > audio_length(utterances.path(longest), audio):
            raise ValueError(f"{utterances.ids[longest]} is shorter than {samples} samples")
    elif stated != _encode_checksum(checksum):
        raise ValueError("its checksum is wrong")
    return table

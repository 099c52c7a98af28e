"""Lengths of the recordings in a tar written by `python -m asdf pack`: `NAME.tar.lengths`.

Invariant: the file is valid only for a tar of the size that it states, and every recording in it
was decoded to its end when it was packed. A corpus is therefore measured once, when it is packed,
and stage 0 has no work wherever the tars lie.

Lines are `name frames rate bytes`, separated by TABs; the first line states the size of the tar,
the last one a checksum of the lines before it.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asdf.archives import file_state, open_file, split_part
from asdf.audio.sample_rates import resampled_length
from asdf.data.saved_lengths import NOT_DECODED
from asdf.errors import AsdfError
from asdf.remote import as_path
from asdf.runs.files import atomic_write
from asdf.runs.log import LOG
from asdf.settings.sections import USUAL_AUDIO, Audio
from asdf.trials.trial_list import TrialList

SUFFIX = ".lengths"

_FIRST = "lengths of a tar for ASDF, version 1"
_CHECKSUM = "\tchecksum\t"
_TAR = ".tar/"


# Longer than any recording, but within 64 bits after resampling.
_MOST = 2**40


class PackedLength(NamedTuple):
    """A recording in a tar.

    Attributes:
        name: Name of the member.
        frames: Number of samples per channel at the recording's own rate.
        rate: Sampling rate in Hz.
        size: Size of the member in bytes.
    """

    name: str
    frames: int
    rate: int
    size: int


def write_packed_lengths(tar: Path, tar_size: int, recordings: Sequence[PackedLength]) -> None:
    """Write the file of the lengths of a tar of `tar_size` bytes."""
    checksum = 0
    with atomic_write(tar.with_name(tar.name + SUFFIX), "wb") as file:
        for row in ((_FIRST, tar_size), *recordings):
            line = ("\t".join(map(str, row)) + "\n").encode("utf-8", "surrogateescape")
            checksum = zlib.crc32(line, checksum)
            file.write(line)
        file.write(f"{_CHECKSUM}{checksum:08x}\n".encode())


def read_packed_lengths(tar: Path, tar_size: int | None = None) -> list[PackedLength] | None:
    """Return the lengths of the recordings in a tar, in the order in which they were written.

    Args:
        tar_size: Size of the tar in bytes; None to skip the comparison.

    Returns:
        Lengths; None if there are none, or if they belong to another tar or are damaged, which is
        logged.
    """
    path = tar.with_name(tar.name + SUFFIX)
    try:
        with open_file(path) as file:
            return list(_parse(file.read(), tar_size))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AsdfError) as error:
        LOG.warning("%s is ignored, and recordings are measured again: %s", path, error)
        return None


def _parse(content: bytes, tar_size: int | None) -> Iterator[PackedLength]:
    """Yield the lengths in a file.

    Raises:
        ValueError: the file is damaged, or belongs to a tar of another size.
    """
    text = content.decode("utf-8", "surrogateescape")
    body, mark, checksum = text.rpartition(_CHECKSUM)
    body_bytes = body.encode("utf-8", "surrogateescape")
    if not mark or int(checksum, 16) != zlib.crc32(body_bytes):
        raise ValueError("its checksum is wrong")
    first, *lines = body.rstrip("\n").split("\n")
    title, _, size = first.partition("\t")
    if title != _FIRST:
        raise ValueError("it is of another version")
    if tar_size not in (None, int(size)):
        raise ValueError(
            f"it belongs to a tar of {int(size):,} bytes, but this one has {tar_size:,}"
        )
    for line in lines:
        # From the right, since the name of a member may hold a TAB.
        name, *numbers = line.rsplit("\t", 3)
        length = PackedLength(name, *map(int, numbers))
        if not (0 < length.frames < _MOST and 0 < length.rate < _MOST and 0 <= length.size < _MOST):
            raise ValueError(f"the numbers of {name!r} cannot be those of a recording")
        yield length


def packed_rows(utterances: TrialList, audio: Audio = USUAL_AUDIO) -> np.ndarray | None:
    """Return the lengths of recordings that their tars state: (N, 3) int64.

    Rows are as in `asdf.data.saved_lengths`: samples at the rate of `audio`, size and modification
    time, or `NOT_DECODED` throughout for unknown recordings. None if all are unknown.
    """
    by_tar: dict[Path, list[tuple[str, int]]] = defaultdict(list)
    for index, recording in enumerate(utterances.recordings()):
        # A part of a recording has another length.
        if _TAR in recording and split_part(recording)[1] is None:
            whole = str(utterances.path(index))
            before, _, name = whole.partition(_TAR)
            by_tar[as_path(before + _TAR[:-1])].append((name, index))
    table = np.full((len(utterances), 3), NOT_DECODED, np.int64)
    for tar, members in by_tar.items():
        state = file_state(tar)
        if state is None:
            continue
        lengths = read_packed_lengths(tar, state.size) or ()
        known = {each.name: each for each in lengths}
        for name, index in members:
            each = known.get(name)
            if each is not None:
                samples = resampled_length(each.frames, each.rate, audio.sample_rate)
                table[index] = (samples, each.size, state.changed_ns)
    if (table != NOT_DECODED).any():
        return table
    return None

"""Waveforms brought to the length that a batch needs.

Invariant: no sample is made up. A long waveform is cut; a short one is repeated from its start, as
the published recipes of the field do, instead of padded with zeros, which a network learns to
recognise.
"""

from __future__ import annotations

import numpy as np


def crop_start(length: int, samples: int, rng: np.random.Generator) -> int:
    """Draw where a crop of `samples` out of `length` begins; 0 when there is no choice.

    All positions are equally likely.
    """
    latest = max(length - samples, 0)
    return int(rng.integers(latest, endpoint=True))


def repeat_to(waveform: np.ndarray, samples: int, room: np.ndarray | None = None) -> np.ndarray:
    """Repeat `waveform` (T,) whole and cut it to exactly (samples,); return it if it is as long.

    Args:
        room: (R,), memory for the repetitions, used where it has the waveform's type and is large
            enough; `waveform` may lie in it.

    Raises:
        ValueError: the waveform is empty.
    """
    if len(waveform) >= samples:
        return waveform
    if len(waveform) == 0:
        raise ValueError("a waveform without samples cannot be repeated")
    if room is None or room.dtype != waveform.dtype or len(room) < samples:
        room = np.empty(samples, waveform.dtype)
    repeated = room[:samples]
    done = len(waveform)
    put(waveform, repeated[:done])
    # What is done is a whole number of repetitions, so it can be repeated in its turn.
    while done < samples:
        more = min(done, samples - done)
        repeated[done : done + more] = repeated[:more]
        done += more
    return repeated


def put(waveform: np.ndarray, target: np.ndarray) -> None:
    """Copy `waveform` to `target`, of equal shape and type, without gaps, unless it is there."""
    address = waveform.__array_interface__["data"]
    lies_there = address == target.__array_interface__["data"] and waveform.flags.c_contiguous
    if not lies_there:
        np.copyto(target, waveform)

"""Waveforms brought to the length that a batch needs.

Invariant: no sample is made up. A long waveform is cut; a short one is repeated from its start, as the published
recipes of the field do, instead of padded with zeros, which a network learns to recognise.
"""

from __future__ import annotations

import numpy as np


def crop_start(length: int, samples: int, rng: np.random.Generator) -> int:
    """Where a crop of `samples` out of `length` begins: every place is equally likely; 0 when there is no choice."""
    return int(rng.integers(max(length - samples, 0), endpoint=True))


def random_crop(waveform: np.ndarray, samples: int, rng: np.random.Generator) -> np.ndarray:
    """A random part of `waveform` (T,): exactly (samples,); a shorter waveform is repeated from its start."""
    start = crop_start(len(waveform), samples, rng)
    return repeat_to(waveform, samples)[start : start + samples]


def repeat_to(waveform: np.ndarray, samples: int, room: np.ndarray | None = None) -> np.ndarray:
    """`waveform` (T,) repeated whole and cut to exactly (samples,); as it is when it has that many or more.

    Repetitions are written into `room` (R,) where it has the type and is large enough; `waveform` may lie in it.
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
    while (
        done < samples
    ):  # what is there is a whole number of repetitions, so it can be repeated as well
        more = min(done, samples - done)
        repeated[done : done + more] = repeated[:more]
        done += more
    return repeated


def put(waveform: np.ndarray, place: np.ndarray) -> None:
    """Copy `waveform` to `place`, of equal shape and type and without gaps, unless it is there already."""
    there = (
        waveform.__array_interface__["data"] == place.__array_interface__["data"]
        and waveform.flags.c_contiguous
    )
    if not there:
        np.copyto(place, waveform)

"""Waveforms brought to the length that a batch needs.

Invariant: no sample is made up. A long waveform is cut; a short one is repeated from its start, as
the published recipes of the field do, instead of padded with zeros, which a network learns to
recognise.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator


def crop_start(length: int, samples: int, rng: Generator) -> int:
    """Draw where a crop of `samples` out of `length` begins; 0 when there is no choice.

    All positions are equally likely.
    """
    latest = max(length - samples, 0)
    return int(rng.integers(latest, endpoint=True))


def repeat_to(waveform: np.ndarray, samples: int) -> np.ndarray:
    """Repeat `waveform` (T,) whole and cut it to exactly (samples,); return it if it is as long.

    Raises:
        ValueError: the waveform is empty.
    """
    if len(waveform) >= samples:
        return waveform
    if len(waveform) == 0:
        raise ValueError("a waveform without samples cannot be repeated")
    repeated = np.empty(samples, waveform.dtype)
    done = len(waveform)
    repeated[:done] = waveform
    # What is done is a whole number of repetitions, so it can be repeated in its turn.
    while done < samples:
        more = min(done, samples - done)
        repeated[done : done + more] = repeated[:more]
        done += more
    return repeated

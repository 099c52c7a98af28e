"""Recordings of noise and a list of them, as datasets, training and scoring read them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import soundfile

from asdf.trials.lists import read_list
from asdf.trials.trial_list import TrialList


def noise_waveforms(lengths: Iterable[int]) -> list[np.ndarray]:
    """Return one waveform of uniform noise per length in samples, always the same."""
    rng = np.random.default_rng(1)
    return [rng.uniform(-0.5, 0.5, length) for length in lengths]


def write_recordings(
    folder: Path,
    waveforms: Iterable[np.ndarray],
    labels: Sequence[int] | None = None,
    suffix: str = "wav",
) -> TrialList:
    """Write waveforms of 16 kHz as 0.wav, 1.wav, ... and list.txt; return the list as it is read.

    Args:
        labels: 1 for bona fide, 0 for spoof; 0 and 1 in turn where none are passed.
    """
    lines = []
    for index, waveform in enumerate(waveforms):
        name = f"{index}.{suffix}"
        label = labels[index] if labels is not None else index % 2
        soundfile.write(folder / name, waveform, 16000)
        lines.append(f"{name} {label}\n")
    (folder / "list.txt").write_text("".join(lines))
    return read_list(folder / "list.txt", folder, "mine")

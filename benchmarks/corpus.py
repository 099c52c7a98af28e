"""A temporary corpus: FLACs with ASVspoof's lengths, of noise that compresses like speech.

Durations are log-normal: median 3 s, mean near 3.3 s, from 0.5 to 13 s, similar to ASVspoof 2019
LA. Samples are 16 bit, 16 kHz, mono: coloured noise with the rhythm of syllables.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from asdf.trials.trial_list import TrialList

RATE = 16000


@dataclass(frozen=True)
class TemporaryCorpus:
    """A list of recordings and their lengths in samples."""

    utterances: TrialList
    lengths: np.ndarray

    @property
    def paths(self) -> list[Path]:
        return [self.utterances.path(index) for index in range(len(self.utterances))]


@contextmanager
def temporary_corpus(
    count: int, seconds: float | None = None, names: int = 1
) -> Iterator[TemporaryCorpus]:
    """Make `count` recordings in a temporary folder, with ASVspoof's durations or `seconds`.

    Args:
        names: Number of names of each recording, each of which is a trial.
    """
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="asdf-bench-") as folder:
        durations = (
            np.full(count, seconds)
            if seconds
            else np.clip(rng.lognormal(np.log(3.0), 0.45, count), 0.5, 13.0)
        )
        lengths = (durations * RATE).astype(np.int64)
        ids = [f"u{index:05d}.flac" for index in range(count)]
        for name, length in zip(ids, lengths.tolist(), strict=True):
            soundfile.write(Path(folder) / name, speechlike(length, rng), RATE, subtype="PCM_16")
        recordings = list(ids)
        for number in range(1, names):
            for name in recordings:
                ids.append(f"{number}-{name}")
                os.link(Path(folder) / name, Path(folder) / ids[-1])
        labels = (np.arange(len(ids)) % 10 == 0).astype(np.int8)
        trials = TrialList(ids, labels, name="benchmark", folder=Path(folder))
        yield TemporaryCorpus(trials, np.tile(lengths, names))


def speechlike(length: int, rng: np.random.Generator) -> np.ndarray:
    """Return noise with a falling spectrum and four syllables per second: (length,), peak 0.5."""
    spectrum = np.fft.rfft(rng.standard_normal(length))
    spectrum /= 1 + (np.linspace(0, RATE / 2, len(spectrum)) / 500) ** 1.5
    syllables = 0.03 + np.sin(2 * np.pi * 2 * np.arange(length) / RATE + rng.uniform(0, np.pi)) ** 2
    noise = np.fft.irfft(spectrum, length) * syllables
    return (0.5 * noise / np.abs(noise).max()).astype(np.float32)

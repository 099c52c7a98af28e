"""From FLACs on disk to a batch; the limit is the time of decoding the same clips alone.

ASDF's side is `TrainingClips` behind `BatchLoader`, without augmentation; the field's is a Dataset
that reads the whole file, cuts or tiles it to 64,600 samples and makes a tensor, behind a
DataLoader. All on one core, from a warm disk cache; a worker is one more process, so with it the
main process only receives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import soundfile
import torch
from torch.utils.data import DataLoader, Dataset

from asdf.audio import read_audio
from asdf.data.datasets import TrainingClips
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.settings.sections import RawBoost, SpeechActivity
from benchmarks.corpus import TemporaryCorpus, temporary_corpus
from benchmarks.harness import in_turns
from benchmarks.rows import Row, compared

SAMPLES = 64600
MINIBATCH = 24
LONG_S, CROP_S = 60, 4


class FieldDataset(Dataset):
    """A data set as in published training scripts."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        samples, _ = soundfile.read(self.paths[index])
        return torch.Tensor(cut_or_tile(samples, SAMPLES)), 0


def cut_or_tile(samples: np.ndarray, length: int) -> np.ndarray:
    """Return the first `length` samples, repeating the recording if necessary."""
    if len(samples) >= length:
        return samples[:length]
    return np.tile(samples, length // len(samples) + 1)[:length]


def rows(quick: bool) -> Iterator[Row]:
    """Yield utterances per second."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with temporary_corpus(48 if quick else 480) as corpus:
            yield from _batches(corpus, 3 if quick else 15)
        with temporary_corpus(2 if quick else 6, LONG_S) as corpus:
            yield _crops(corpus, 3 if quick else 15)
    finally:
        torch.set_num_threads(threads)


def _batches(corpus: TemporaryCorpus, rounds: int) -> Iterator[Row]:
    paths = [str(path) for path in corpus.paths]
    field = {
        workers: DataLoader(FieldDataset(paths), MINIBATCH, num_workers=workers)
        for workers in (0, 1)
    }
    field[1] = DataLoader(FieldDataset(paths), MINIBATCH, num_workers=1, persistent_workers=True)
    places = np.random.default_rng(0)

    def decoding() -> None:
        for path, length in zip(paths, corpus.lengths.tolist(), strict=True):
            start = int(places.integers(max(1, length - SAMPLES + 1)))
            soundfile.read(path, SAMPLES, start, dtype="float32")

    functions: dict[str, Callable[[], Any]] = {"decoding": decoding}
    for workers in (0, 1):
        functions[f"asdf {workers}"] = _epochs(corpus, workers)
        functions[f"field {workers}"] = partial(deque, field[workers], maxlen=0)
    times = in_turns(functions, rounds)
    rates = {
        name: [len(paths) / duration for duration in seconds] for name, seconds in times.items()
    }
    for workers in (0, 1):
        what, asdf = f"batches, {workers} workers", rates[f"asdf {workers}"]
        yield compared(
            what, "utt/s", asdf, "decoding alone", rates["decoding"], more=True, target=0.9
        )
        yield compared(
            what, "utt/s", asdf, "a Dataset as in the field", rates[f"field {workers}"], more=True
        )


def _epochs(corpus: TemporaryCorpus, workers: int) -> Callable[[], None]:
    """Return a function that reads one more epoch at each call; workers persist, as in training."""
    clips = TrainingClips(
        corpus.utterances, corpus.lengths, SAMPLES, RawBoost(), SpeechActivity(), seed=0
    )
    loader = BatchLoader(clips, workers, World())
    epochs, size = count(1), len(corpus.lengths)

    def epoch() -> None:
        number = next(epochs)
        order = np.random.default_rng(number).permutation(size).tolist()
        keys = [
            [(number, index) for index in order[position : position + MINIBATCH]]
            for position in range(0, size, MINIBATCH)
        ]
        for _ in loader.batches(keys):
            pass

    return epoch


def _crops(corpus: TemporaryCorpus, rounds: int) -> Row:
    places = np.random.default_rng(0)

    def crops() -> None:
        for path in corpus.paths:
            read_audio(path, int(places.integers((LONG_S - CROP_S) * 16000)), CROP_S * 16000)

    def whole() -> None:
        for path in corpus.paths:
            start = int(places.integers((LONG_S - CROP_S) * 16000))
            soundfile.read(str(path))[0][start : start + CROP_S * 16000]

    times = in_turns({"asdf": crops, "whole": whole}, rounds)
    rates = {
        name: [len(corpus.lengths) / duration for duration in seconds]
        for name, seconds in times.items()
    }
    what = f"{CROP_S} s out of {LONG_S} s"
    return compared(
        what, "utt/s", rates["asdf"], "decoding the whole file", rates["whole"], more=True
    )

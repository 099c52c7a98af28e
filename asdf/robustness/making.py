"""Degraded copies of recordings: computed once, by any number of processes, each a whole file.

Invariant: a copy's bytes follow from the recording, its id, the condition and the seed alone, so
they are the same for any number of processes and in any order, and after a stop. A copy that
exists is not computed again, unless the list, the recordings or the way of computing have changed.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import soundfile

from asdf.arrays import Floats
from asdf.audio import read_audio
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.robustness.conditions import Condition
from asdf.robustness.degradations import DEGRADATIONS, Draw, Material
from asdf.runs.files import atomic_write, remove_unfinished, write_text
from asdf.runs.seeds import generator
from asdf.trials.trial_list import TrialList
from asdf.version import VERSION

BYTES_PER_S = 3 * SAMPLE_RATE
"""Bytes of a second of a copy at most: 24 bits, of which FLAC leaves about two thirds."""

# Higher when a degradation changes: copies of before are then computed again.
_VERSION = 1
_KEY = "made_of.txt"
_CLIPPED = re.compile(r"clipped: (\d+)")
_NAME = 60
_TASKS_AHEAD = 4


@dataclass(frozen=True)
class Task:
    """A copy that is to be made; everything that it follows from, and its path."""

    source: str
    utterance: str
    degradation: str
    grade: float
    seed: int
    target: Path


def degrade(waveform: Floats, task: Task, material: Material) -> Floats:
    """Return a waveform (T,) at 16 kHz under the condition of a task: (at least 1,) float32."""
    # Not by the grade: grades of one degradation share their draws.
    rng = generator(task.seed, "robustness", task.degradation, task.utterance)
    draw = Draw(rng, material, task.source)
    return DEGRADATIONS[task.degradation].apply(waveform, task.grade, draw)


def make(task: Task, material: Material) -> tuple[int, str]:
    """Make a copy; return how many samples are clipped, and why it could not be made."""
    try:
        degraded = degrade(read_audio(task.source), task, material)
        if not len(degraded) or not np.isfinite(degraded).all():
            return 0, f"{task.source}: {task.degradation} leaves no finite samples."
        clipped = int((np.abs(degraded) > 1).sum())
        content = io.BytesIO()
        with soundfile.SoundFile(
            content, "w", SAMPLE_RATE, 1, format="FLAC", subtype="PCM_24"
        ) as file:
            file.comment = f"{task.degradation}, {task.grade:g}; clipped: {clipped}"
            file.write(np.clip(degraded, -1, 1))
        with atomic_write(task.target, "wb") as target:
            target.write(content.getvalue())
    except AsdfError as error:
        return 0, str(error)
    except (soundfile.LibsndfileError, ValueError, IndexError) as error:
        return 0, f"{task.source} cannot be degraded by {task.degradation}: {error}."
    return clipped, ""


# What the processes of a pool draw from: with each task it would be sent again.
_MATERIAL: list[Material] = []


def _prepare_process(material: Material) -> None:
    import torch

    # Sums of several threads may end in other last bits.
    torch.set_num_threads(1)
    _MATERIAL[:] = [material]


def _make_there(task: Task) -> tuple[int, str]:
    return make(task, _MATERIAL[0])


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Maker:
    """Makes copies, in `workers` processes, or in this one without any.

    Args:
        folder: Folder in which each condition has a folder of copies.
        workers: Number of processes; 0: this one.
    """

    def __init__(
        self, trials: TrialList, folder: Path, material: Material, seed: int, workers: int
    ) -> None:
        self._trials = trials
        self._folder = folder
        self._material = material
        self._seed = seed
        self._workers = workers
        self._pool: ProcessPoolExecutor | None = None
        self._sources = [str(trials.path(index)) for index in range(len(trials))]
        self.list_digest = _digest(trials, self._sources)

    @contextmanager
    def opened(self) -> Iterator[Maker]:
        """Hold the processes while the block runs."""
        if not self._workers:
            yield self
            return
        # Spawned: a forked process would inherit the threads of this one.
        with ProcessPoolExecutor(
            self._workers,
            mp_context=get_context("spawn"),
            initializer=_prepare_process,
            initargs=(self._material,),
        ) as pool:
            self._pool = pool
            try:
                yield self
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            finally:
                self._pool = None

    def digest(self, condition: Condition) -> str:
        """Digest all that the copies of a condition follow from."""
        facts = [_VERSION, VERSION, condition.name, self._seed, self.list_digest]
        for paths in (self._material.noise, self._material.music, self._material.rooms):
            facts.append([_stamp(path) for path in paths])
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def make(self, condition: Condition) -> Iterator[tuple[int, int, str]]:
        """Make the copies that do not exist; yield (index, clipped samples, problem) of each."""
        folder = self._folder / condition.name
        self._prepare(folder, condition)
        targets = self.paths(condition)
        known: list[tuple[int, int]] = []
        tasks: list[tuple[int, Task]] = []
        for index, target in enumerate(targets):
            clipped = _clipped_samples(target)
            if clipped is not None:
                known.append((index, clipped))
                continue
            tasks.append((index, self._task(index, condition, target)))
        for index, clipped in known:
            yield index, clipped, ""
        yield from self._compute(tasks)

    def _compute(self, tasks: Sequence[tuple[int, Task]]) -> Iterator[tuple[int, int, str]]:
        if self._pool is None:
            for index, task in tasks:
                with _one_thread():
                    result = make(task, self._material)
                yield index, *result
            return
        # A few at a time, so that stopping waits for few.
        share = self._workers * _TASKS_AHEAD * 16
        for start in range(0, len(tasks), share):
            part = tasks[start : start + share]
            made = self._pool.map(_make_there, [task for _, task in part], chunksize=_TASKS_AHEAD)
            for (index, _), result in zip(part, made, strict=True):
                yield index, *result

    def paths(self, condition: Condition) -> list[Path]:
        """Return the path of each copy, in the order of the list."""
        folder = self._folder / condition.name
        paths = []
        for index, utterance in enumerate(self._trials.ids):
            stem = Path(utterance).stem
            readable = re.sub(r"[^\w.-]", "_", stem, flags=re.ASCII)[:_NAME]
            # The number keeps apart what is called alike in several folders.
            paths.append(folder / f"{index:06d}_{readable}.flac")
        return paths

    def remove(self, condition: Condition) -> None:
        """Remove the copies of a condition."""
        shutil.rmtree(self._folder / condition.name, ignore_errors=True)
        with suppress(OSError):
            self._folder.rmdir()

    def _task(self, index: int, condition: Condition, target: Path) -> Task:
        return Task(
            self._sources[index],
            self._trials.ids[index],
            condition.degradation.name,
            condition.grade,
            self._seed,
            target,
        )

    def _prepare(self, folder: Path, condition: Condition) -> None:
        """Remove copies that were made of something else, and what was half-written."""
        digest = self.digest(condition)
        key = folder / _KEY
        is_same = key.is_file() and key.read_text(encoding="utf-8").strip() == digest
        if not is_same:
            shutil.rmtree(folder, ignore_errors=True)
            write_text(key, digest + "\n")
        remove_unfinished(folder)


def _clipped_samples(path: Path) -> int | None:
    """Return how many samples of a copy were clipped; None where it does not exist."""
    try:
        with soundfile.SoundFile(path) as file:
            known = _CLIPPED.search(file.comment)
    except (OSError, soundfile.LibsndfileError):
        return None
    return int(known[1]) if known else None


def _stamp(path: str) -> str:
    """Return what changes when a recording does: its path, size and time of change."""
    # Of a recording in an archive, the archive's.
    for candidate in (path, *map(str, Path(path).parents)):
        with suppress(OSError, ValueError):
            status = os.stat(candidate)  # noqa: PTH116
            return f"{path} {status.st_size} {status.st_mtime_ns}"
    return path


def _digest(trials: TrialList, sources: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for utterance, source in zip(trials.ids, sources, strict=True):
        digest.update(os.fsencode(f"{utterance}\0{_stamp(source)}\0"))
    return digest.hexdigest()

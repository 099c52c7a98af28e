"""Degraded copies of recordings: computed once, in any number of processes, written atomically.

Invariant: the bytes of a copy depend only on the recording, its id, the condition and the seed, so
they are the same for any number of processes, in any order, and after a stop. An existing copy is
not computed again, unless the list, the recordings or the method have changed.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from asdf.arrays import Floats
from asdf.audio import read_audio
from asdf.distributed.worker_processes import WorkerProcesses
from asdf.errors import AsdfError
from asdf.extras.robustness.conditions import Condition
from asdf.extras.robustness.degradations import DEGRADATIONS, Draw, Material
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import atomic_write, remove_unfinished, write_text
from asdf.runs.seeds import generator
from asdf.trials.trial_list import TrialList
from asdf.version import VERSION

BYTES_PER_S = 3 * SAMPLE_RATE
"""Maximum size of a second of a copy, in bytes: 24 bits; FLAC reduces it to about two thirds."""

# Increased when a degradation changes, so that earlier copies are computed again.
_VERSION = 1
_KEY = "made_of.txt"
_CLIPPED = re.compile(r"clipped: (\d+)")
_NAME = 60


@dataclass(frozen=True)
class Task:
    """A copy to make: its path, and everything that it depends on."""

    source: str
    utterance: str
    # A name, since the functions of degradations are closures, which cannot be pickled.
    degradation: str
    grade: float
    seed: int
    target: Path


def degrade(waveform: Floats, task: Task, material: Material) -> Floats:
    """Return a waveform (T,) at 16 kHz under the condition of a task: (at least 1,) float32."""
    # The seed excludes the grade: grades of one degradation share their draws.
    rng = generator(task.seed, "robustness", task.degradation, task.utterance)
    draw = Draw(rng, material, task.source)
    return DEGRADATIONS[task.degradation].apply(waveform, task.grade, draw)


def make(task: Task, material: Material) -> tuple[int, str]:
    """Make a copy; return the number of clipped samples, and why it failed, if it did."""
    try:
        degraded = degrade(read_audio(task.source), task, material)
        # soundfile would fail on NaN with an AssertionError without a message.
        if not len(degraded) or not np.isfinite(degraded).all():
            return 0, f"{task.source}: {task.degradation} leaves no finite samples."
        comment = f"{task.degradation}, {task.grade:g}"
        clipped = write_copy(task.target, degraded, comment)
    except AsdfError as error:
        return 0, str(error)
    except (soundfile.LibsndfileError, ValueError, IndexError) as error:
        return 0, f"{task.source} cannot be degraded by {task.degradation}: {error}."
    return clipped, ""


def write_copy(target: Path, waveform: Floats, comment: str) -> int:
    """Write a waveform (T,) at 16 kHz as 24-bit FLAC; return the number of clipped samples."""
    clipped = int((np.abs(waveform) > 1).sum())
    content = io.BytesIO()
    with soundfile.SoundFile(content, "w", SAMPLE_RATE, 1, format="FLAC", subtype="PCM_24") as file:
        # A study that goes on counts from here: clipped samples look like others at full scale.
        file.comment = f"{comment}; clipped: {clipped}"
        file.write(np.clip(waveform, -1, 1))
    with atomic_write(target, "wb") as written:
        written.write(content.getvalue())
    return clipped


def copy_name(index: int, utterance: str) -> str:
    """Return the file name of the copy of a trial."""
    # An id may have slashes, or more characters than a file system takes.
    readable = re.sub(r"[^\w.-]", "_", Path(utterance).stem, flags=re.ASCII)[:_NAME]
    # The number distinguishes equal names in several folders.
    return f"{index:06d}_{readable}.flac"


class Maker:
    """Makes copies, in `workers` processes, or in this one.

    Args:
        folder: Folder in which each condition has a folder of copies.
        workers: Number of processes; 0: only this one.
    """

    def __init__(
        self, trials: TrialList, folder: Path, material: Material, seed: int, workers: int
    ) -> None:
        self._trials = trials
        self._folder = folder
        self._material = material
        self._seed = seed
        self._processes = WorkerProcesses(workers, material)
        self._sources = [str(trials.path(index)) for index in range(len(trials))]
        self.list_digest = list_digest(trials)

    @contextmanager
    def opened(self) -> Iterator[Maker]:
        """Keep the processes running during the block."""
        with self._processes.opened():
            yield self

    def digest(self, condition: Condition) -> str:
        """Digest everything that the copies of a condition depend on."""
        facts = [_VERSION, VERSION, condition.name, self._seed, self.list_digest]
        material = self._material
        for paths in (material.noise, material.music, material.rooms):
            facts.append([_stamp(path) for path in paths])
        if material.encodec:
            # Sorted: file systems list names in any order, and the digest must not depend on it.
            facts.append([_stamp(str(path)) for path in sorted(Path(material.encodec).iterdir())])
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    def make(self, condition: Condition) -> Iterator[tuple[int, int, str]]:
        """Make missing copies; yield (index, clipped samples, problem) for each copy."""
        folder = self._folder / condition.name
        self._prepare(folder, condition)
        targets = self.paths(condition)
        known: list[tuple[int, int]] = []
        tasks: list[tuple[int, Task]] = []
        for index, target in enumerate(targets):
            comment = ""
            # An unreadable copy counts as missing.
            with suppress(OSError, soundfile.LibsndfileError), soundfile.SoundFile(target) as file:
                comment = file.comment
            clipped = _CLIPPED.search(comment)
            if clipped:
                known.append((index, int(clipped[1])))
                continue
            tasks.append((index, self._task(index, condition, target)))
        for index, count in known:
            yield index, count, ""
        made = self._processes.compute(make, [task for _, task in tasks])
        for (index, _), result in zip(tasks, made, strict=True):
            yield index, *result

    def paths(self, condition: Condition) -> list[Path]:
        """Return the path of each copy, in the order of the list."""
        folder = self._folder / condition.name
        return [folder / copy_name(*numbered) for numbered in enumerate(self._trials.ids)]

    def remove(self, condition: Condition) -> None:
        """Remove the copies of a condition."""
        shutil.rmtree(self._folder / condition.name, ignore_errors=True)
        # This fails, as it should, while copies of other conditions lie there.
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
        """Remove outdated and partial copies."""
        digest = self.digest(condition)
        key = folder / _KEY
        is_same = key.is_file() and key.read_text(encoding="utf-8").strip() == digest
        if not is_same:
            shutil.rmtree(folder, ignore_errors=True)
            # Written before the copies, so that those of a stopped run are recognised later.
            write_text(key, digest + "\n")
        remove_unfinished(folder)


def _stamp(path: str) -> str:
    """Return the path, size and modification time of a recording."""
    # For a recording in an archive, those of the archive.
    for candidate in (path, *map(str, Path(path).parents)):
        with suppress(OSError, ValueError):
            status = os.stat(candidate)  # noqa: PTH116
            return f"{path} {status.st_size} {status.st_mtime_ns}"
    # A missing recording is reported where it is read.
    return path


def list_digest(trials: TrialList) -> str:
    """Digest the ids of a list with the paths, sizes and modification times of its recordings."""
    digest = hashlib.sha256()
    sources = [str(trials.path(index)) for index in range(len(trials))]
    for utterance, stamp in zip(trials.ids, map(_stamp, sources), strict=True):
        # fsencode: a file name that is not valid UTF-8 has surrogates, which encode() refuses.
        digest.update(os.fsencode(f"{utterance}\0{stamp}\0"))
    return digest.hexdigest()

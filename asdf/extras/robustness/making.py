"""Degraded copies of recordings: computed once, in any number of processes, written atomically.

Invariant: the bytes of a copy depend only on the recording, its id, the condition and the seed, so
they are the same for any number of processes, in any order, and after a stop. An existing copy is
not computed again, unless the list, the recordings or the method have changed.

Conditions of a study: degradations with grades, chosen by family, name or condition.

Invariant: omitted degradations are listed with the reason; an unknown name is refused.
"""

from __future__ import annotations

import hashlib
import io
import math
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch

from asdf.audio import read_audio
from asdf.commands.journal import stamp_of
from asdf.errors import AsdfError, UsageError
from asdf.extras.robustness.degradations import (
    DEGRADATIONS,
    FAMILIES,
    NOT_HERE,
    Degradation,
    Draw,
    Material,
)
from asdf.facts import SAMPLE_RATE
from asdf.runs.files import atomic_write, remove_unfinished, write_text
from asdf.runs.pool import Compute
from asdf.runs.seeds import generator
from asdf.text import aligned, did_you_mean
from asdf.trials.trial_list import TrialList
from asdf.version import VERSION

CLEAN = "clean"


@dataclass(frozen=True)
class Condition:
    """A degradation with one of its grades; `grade` is NaN if it has none."""

    degradation: Degradation
    grade: float = math.nan

    @property
    def name(self) -> str:
        """Name for files: 'white_10'."""
        if math.isnan(self.grade):
            return self.degradation.name
        # :g writes 10 and 10.0 alike, as users write the name after --only.
        return f"{self.degradation.name}_{self.grade:g}"

    @property
    def label(self) -> str:
        """Name for people: 'white 10 dB SNR'."""
        if math.isnan(self.grade):
            return self.degradation.name
        return f"{self.degradation.name} {self.grade:g} {self.degradation.unit}"


def catalogue() -> str:
    """Return all degradations with their grades, and why some are not available."""
    # Two names, so that babble, which needs another recording, counts as available.
    nothing = Material(speech=("one", "another"))
    rows: list[Sequence[str]] = [("family", "degradation", "grades", "unit", "")]
    for name, row in DEGRADATIONS.items():
        grades = " ".join(f"{grade:g}" for grade in row.grades)
        rows.append((row.family, name, grades or "-", row.unit, row.words))
    missing = {name: row.missing(nothing) for name, row in DEGRADATIONS.items()} | NOT_HERE
    reasons = [f"  {name}: {reason}" for name, reason in missing.items() if reason]
    return "\n".join([*aligned(rows), "", "not available here:", *reasons])


def choose_conditions(
    material: Material,
    only: Sequence[str] = (),
    grades: Mapping[str, Sequence[float]] | None = None,
) -> tuple[list[Condition], dict[str, str]]:
    """Return the chosen conditions, and the reasons for omitted degradations, by name.

    Args:
        only: Families, degradations or conditions ('white_10'); empty: all.
        grades: Grades by degradation, instead of its own.

    Raises:
        UsageError: a name is unknown, or nothing remains.
    """
    for name in only:
        if name in NOT_HERE:
            raise UsageError(f"{name} is not offered: {NOT_HERE[name]}.")
        known = [*FAMILIES, *DEGRADATIONS]
        if name not in known and not any(_is_of(name, row) for row in DEGRADATIONS.values()):
            near = did_you_mean(name, known)
            raise UsageError(
                f"there is no degradation {name}.{near} The command without arguments lists all."
            )
    chosen: list[Condition] = []
    # Whoever names degradations did not ask for those that nobody can have.
    left_out = {} if only else dict(NOT_HERE)
    for degradation in DEGRADATIONS.values():
        name = degradation.name
        if not only or name in only or degradation.family in only:
            # A repeated grade would be a second condition with the same name, and the same folder.
            wanted = list(dict.fromkeys((grades or {}).get(name, degradation.grades))) or [math.nan]
        else:
            # A given grade may differ from those in the table.
            wanted = [_grade(text, f"{name}_") for text in only if _is_of(text, degradation)]
        reason = degradation.missing(material) if wanted else ""
        if reason:
            left_out[name] = reason
        else:
            chosen += [Condition(degradation, grade) for grade in wanted]
    if not chosen:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise UsageError(f"no degradation is left to measure. {reasons}")
    return chosen, left_out


def _is_of(name: str, degradation: Degradation) -> bool:
    # Nothing may follow the name of a degradation that has no grades.
    return bool(degradation.grades) and name.startswith(f"{degradation.name}_")


def _grade(name: str, prefix: str) -> float:
    try:
        grade = float(name.removeprefix(prefix))
    except ValueError:
        grade = math.nan
    # float() also reads 'nan', which stands for a degradation without grades, and 'inf'.
    if not math.isfinite(grade):
        raise UsageError(f"{name}: a number is needed after {prefix}, as in {prefix}10.")
    return grade


def parse_grades(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Read grades such as 'mp3=16,8'.

    Raises:
        UsageError: a text has another form, or its degradation has no grades.
    """
    grades = {}
    for text in texts:
        name, _, numbers = text.partition("=")
        if not numbers or name not in DEGRADATIONS or not DEGRADATIONS[name].grades:
            raise UsageError(
                f"--grades {text}: name a degradation with its grades, as in mp3=16,8."
            )
        prefix = f"{name}_"
        grades[name] = tuple(_grade(f"{prefix}{number}", prefix) for number in numbers.split(","))
    return grades


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


def make(task: Task, material: Material) -> tuple[int, str]:
    """Make a copy; return the number of clipped samples, and why it failed, if it did."""
    threads = torch.get_num_threads()
    # Sums over several threads may differ in the last bits.
    torch.set_num_threads(1)
    try:
        # The seed excludes the grade: grades of one degradation share their draws.
        rng = generator(task.seed, "robustness", task.degradation, task.utterance)
        draw = Draw(rng, material, task.source)
        apply = DEGRADATIONS[task.degradation].apply
        degraded = apply(read_audio(task.source), task.grade, draw)
        # soundfile would fail on NaN with an AssertionError without a message.
        if not len(degraded) or not np.isfinite(degraded).all():
            return 0, f"{task.source}: {task.degradation} leaves no finite samples."
        clipped = int((np.abs(degraded) > 1).sum())
        content = io.BytesIO()
        kind = {"format": "FLAC", "subtype": "PCM_24"}
        with soundfile.SoundFile(content, "w", SAMPLE_RATE, 1, **kind) as file:
            # A study that goes on counts from here: clipped samples look like others at full scale.
            file.comment = f"{task.degradation}, {task.grade:g}; clipped: {clipped}"
            file.write(np.clip(degraded, -1, 1))
        with atomic_write(task.target, "wb") as written:
            written.write(content.getvalue())
    except AsdfError as error:
        return 0, str(error)
    except (soundfile.LibsndfileError, ValueError, IndexError) as error:
        return 0, f"{task.source} cannot be degraded by {task.degradation}: {error}."
    finally:
        torch.set_num_threads(threads)
    return clipped, ""


class Maker:
    """Makes copies.

    Args:
        folder: Folder in which each condition has a folder of copies.
        compute: Function of a `worker_pool`, whose shared object is the material.

    Attributes:
        list_digest: Digest of the ids of a list with the paths, sizes and modification times of its
            recordings.
    """

    def __init__(
        self, trials: TrialList, folder: Path, material: Material, seed: int, compute: Compute
    ) -> None:
        self._trials = trials
        self._folder = folder
        self._material = material
        self._seed = seed
        self._compute = compute
        self.sources = [trials.path(index) for index in range(len(trials))]
        self.list_digest = _digest([list(trials.ids), _stamps(self.sources)])

    def digest(self, condition: Condition) -> str:
        """Digest everything that the copies of a condition depend on."""
        material = self._material
        facts = [_VERSION, VERSION, condition.name, self._seed, self.list_digest]
        facts += map(_stamps, (material.noise, material.music, material.rooms))
        if material.encodec:
            # Sorted: file systems list names in any order, and the digest must not depend on it.
            facts.append(_stamps(sorted(Path(material.encodec).iterdir())))
        return _digest(facts)

    def make(self, condition: Condition) -> Iterator[tuple[int, int, str]]:
        """Make missing copies; yield (index, clipped samples, problem) for each copy."""
        folder = self._folder / condition.name
        digest = self.digest(condition)
        key = folder / _KEY
        if not key.is_file() or key.read_text(encoding="utf-8").strip() != digest:
            shutil.rmtree(folder, ignore_errors=True)
            # Written before the copies, so that those of a stopped run are recognised later.
            write_text(key, digest + "\n")
        remove_unfinished(folder)
        tasks: dict[int, Task] = {}
        for index, target in enumerate(self.paths(condition)):
            comment = ""
            # An unreadable copy counts as missing.
            with suppress(OSError, soundfile.LibsndfileError), soundfile.SoundFile(target) as file:
                comment = file.comment
            if clipped := _CLIPPED.search(comment):
                yield index, int(clipped[1]), ""
            else:
                source, utterance = str(self.sources[index]), self._trials.ids[index]
                change = (condition.degradation.name, condition.grade, self._seed)
                tasks[index] = Task(source, utterance, *change, target)
        made = self._compute(make, list(tasks.values()))
        for index, result in zip(tasks, made, strict=True):
            yield index, *result

    def paths(self, condition: Condition) -> list[Path]:
        """Return the path of each copy, in the order of the list."""
        paths = []
        for index, utterance in enumerate(self._trials.ids):
            # An id may have slashes, or more characters than a file system takes.
            readable = re.sub(r"[^\w.-]", "_", Path(utterance).stem, flags=re.ASCII)[:_NAME]
            # The number distinguishes equal names in several folders.
            paths.append(self._folder / condition.name / f"{index:06d}_{readable}.flac")
        return paths

    def remove(self, condition: Condition) -> None:
        """Remove the copies of a condition."""
        shutil.rmtree(self._folder / condition.name, ignore_errors=True)
        # This fails, as it should, while copies of other conditions lie there.
        with suppress(OSError):
            self._folder.rmdir()


def _digest(facts: Sequence[object]) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _stamps(paths: Iterable[str | Path]) -> list[tuple[str, list[int]]]:
    """Return each path with the size and modification time of its recording."""
    return [(str(path), stamp_of(str(path))) for path in paths]

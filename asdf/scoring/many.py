"""Many files: measured and read by threads while the network computes, those of equal length together.

Invariant: results come in portions of the files, in the order in which they were named, so that the
first is there soon and no more than a few portions are in memory, however long the list is. One bad
file costs no other its score. Which files are a portion, and which of them a batch, does not depend
on what is known already: a work that was stopped and goes on gives the same scores to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from asdf.data.threads import Threads
from asdf.errors import AsdfError
from asdf.scoring.ahead import pool_of_readers, read_ahead
from asdf.scoring.listening import hear_repeated, measure
from asdf.scoring.scored import Scored
from asdf.scoring.scorer import Scorer

# Files that are sorted by length together: enough that batches are full, few enough that the first
# result comes soon.
_PORTION = 48

# ValueError: a name that no file can have.
_FAILURES = (AsdfError, OSError, MemoryError, ValueError)


@dataclass(frozen=True)
class File:
    """A file to be scored.

    Attributes:
        place: its index among the files.
        speech: samples of speech in it.
        total: samples of the whole recording.
        samples: of its speech that are scored as a trial; None: it is scored in windows.
        error: why it could not be measured; ''.
        known: its result is known already; it is there for the others of its batch.
    """

    place: int
    path: Path
    speech: int = 0
    total: int = 0
    samples: int | None = None
    error: str = ""
    known: bool = False


def score_files(
    scorer: Scorer,
    paths: Iterable[Path],
    whole: bool,
    as_trial: Callable[[File, float, bool], Scored],
    in_windows: Callable[[File], Scored],
    is_known: Callable[[int], bool],
) -> Iterator[Scored]:
    """Yield a result for each file that has none yet.

    Args:
        whole: score recordings that are longer than a trial in windows.
        as_trial: makes the result of a file, the network's own score, and whether what it heard is
            silent.
        in_windows: scores a file in windows.
        is_known: whether the file at an index has a result; asked before its portion is measured.
    """
    with pool_of_readers() as pool:
        batches = _batches(scorer, pool, paths, whole, is_known)
        for batch, parts in read_ahead(pool, lambda file: _part(scorer, file), batches):
            good = [part[0] for part in parts if isinstance(part, tuple)]
            raw = iter(scorer.forward(np.stack(good)).tolist() if good else [])
            for file, part in zip(batch, parts, strict=True):
                score = next(raw) if isinstance(part, tuple) else None
                if file.known:
                    continue
                if isinstance(part, str):
                    yield Scored(file.place, file.path, error=part)
                elif part is None:
                    yield _result(file, in_windows, file)
                else:
                    yield _result(file, as_trial, file, score, part[1])


def _batches(
    scorer: Scorer,
    pool: Threads,
    paths: Iterable[Path],
    whole: bool,
    is_known: Callable[[int], bool],
) -> Iterator[list[File]]:
    """Batches with files to be scored, portion by portion; the next one is measured while this one is scored."""
    numbered = enumerate(paths)
    measured = _measure_portion(scorer, pool, numbered, is_known)
    while measured:
        files = [future.result() for future in measured]
        measured = _measure_portion(scorer, pool, numbered, is_known)
        failed = [file for file in files if file.error]
        if failed:
            yield failed
        most = scorer.most
        good = [file for file in files if not file.error]
        trials = [file for file in good if not whole or file.speech <= most]
        long = [file for file in good if whole and file.speech > most]
        batches = [[file] for file in long]
        for batch in scorer.batches([file.speech for file in trials]):
            batches.append([replace(trials[i], samples=batch.samples) for i in batch.trials])
        batches = [batch for batch in batches if not all(file.known for file in batch)]
        # Longest first, as a list is scored, would keep the first of them waiting for all others.
        yield from sorted(batches, key=lambda batch: min(file.place for file in batch))


def _measure_portion(
    scorer: Scorer,
    pool: Threads,
    numbered: Iterator[tuple[int, Path]],
    is_known: Callable[[int], bool],
) -> list[Future[File]]:
    """Begin to measure the next portion in which something is left to be scored; empty when there is none."""
    while portion := list(islice(numbered, _PORTION)):
        known = [is_known(place) for place, _ in portion]
        if not all(known):
            return [
                pool.submit(_measured, scorer, File(place, path, known=is_there))
                for (place, path), is_there in zip(portion, known, strict=True)
            ]
    return []


def _measured(scorer: Scorer, file: File) -> File:
    try:
        length = measure(scorer, file.path)
    except _FAILURES as error:
        return replace(file, error=why_failed(file.path, error))
    return replace(file, speech=length.speech, total=length.recording)


def _part(scorer: Scorer, file: File) -> tuple[np.ndarray, bool] | str | None:
    """What the network is to hear and whether it is silent; why there is nothing; None: windows are read later."""
    if file.error:
        return file.error
    if file.samples is None:
        return None
    try:
        return hear_repeated(scorer, file.path, file.samples)
    except _FAILURES as error:
        return why_failed(file.path, error)


def _result(file: File, make: Callable[..., Scored], *arguments: object) -> Scored:
    try:
        return make(*arguments)
    except _FAILURES as error:
        return Scored(file.place, file.path, error=why_failed(file.path, error))


def why_failed(path: Path, error: Exception) -> str:
    """One line on why a file has no score."""
    if isinstance(error, AsdfError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"{path} does not fit into the memory that is free: its header likely claims a length that it has not."
    reason = getattr(error, "strerror", None) or error
    return f"{path} cannot be read: {reason}."

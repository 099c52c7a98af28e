"""Many files: measured and read by threads while the network computes, equal lengths together.

Invariant: results come in portions of the files, in the order in which they were named, so that the
first comes soon and no more than a few portions are in memory, however long the list is. One bad
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

from asdf.audio import repeat_to
from asdf.audio.speech import measure_speech, read_speech
from asdf.data.threads import Threads, threads
from asdf.errors import AsdfError
from asdf.scoring.ahead import read_ahead
from asdf.scoring.listening import check_exists
from asdf.scoring.scored import Scored
from asdf.scoring.scorer import Scorer
from asdf.scoring.whole_recording import is_silent
from asdf.settings.sections import SpeechActivity

# Decoders let other threads run, so that threads do as well as processes, and need no copies.
_READERS = 4
# Files that are sorted by length together: enough that batches are full, few enough that the first
# result comes soon.
_PORTION = 48

# ValueError: a name that no file can have.
_FAILURES = (AsdfError, OSError, MemoryError, ValueError)


@dataclass(frozen=True)
class File:
    """A file to be scored.

    Attributes:
        index: among the files.
        speech: samples of speech in it.
        total: samples of the whole recording.
        samples: of its speech that are scored as a trial; None: it is scored in windows.
        error: why it could not be measured; ''.
        known: its result is known already; it is only read for the others of its batch.
    """

    index: int
    path: Path
    speech: int = 0
    total: int = 0
    samples: int | None = None
    error: str = ""
    known: bool = False


@dataclass(frozen=True)
class _Heard:
    """What the network hears of a file.

    Attributes:
        waveform: (samples,); None where it is scored in windows, which are read later, or cannot be
            read.
        silent: whether it is digital silence.
        error: why it cannot be read; ''.
    """

    waveform: np.ndarray | None = None
    silent: bool = False
    error: str = ""


@dataclass(frozen=True)
class FileScoring:
    """How files are scored.

    Attributes:
        sad: settings of speech activity detection.
        max_samples: of a trial.
        whole: score recordings that are longer than a trial in windows.
        make_trial: makes the result of a file, the network's own score, and whether what it heard
            is silent.
        score_in_windows: scores a file in windows.
        is_known: whether the file at an index has a result; called before its portion is measured.
    """

    scorer: Scorer
    sad: SpeechActivity
    max_samples: int
    whole: bool
    make_trial: Callable[[File, float, bool], Scored]
    score_in_windows: Callable[[File], Scored]
    is_known: Callable[[int], bool]

    def score(self, paths: Iterable[Path]) -> Iterator[Scored]:
        """Yield a result for each file that has none yet."""
        with threads(_READERS) as pool:
            for batch, heard in read_ahead(pool, self._hear, self._batches(pool, paths)):
                yield from self._score_batch(batch, heard)

    def _score_batch(self, batch: list[File], heard: list[_Heard]) -> Iterator[Scored]:
        waveforms = [part.waveform for part in heard if part.waveform is not None]
        scores = iter(())
        if waveforms:
            scores = iter(self.scorer.score_array(np.stack(waveforms)).tolist())
        for file, part in zip(batch, heard, strict=True):
            # Also a file that is known takes its score, or the others would get the wrong ones.
            score = None if part.waveform is None else next(scores)
            if file.known:
                continue
            if part.error:
                yield Scored(file.index, file.path, error=part.error)
            elif score is None:
                yield _make_result(file, self.score_in_windows, file)
            else:
                yield _make_result(file, self.make_trial, file, score, part.silent)

    def _batches(self, pool: Threads, paths: Iterable[Path]) -> Iterator[list[File]]:
        """Yield batches with files to be scored, portion by portion."""
        numbered = enumerate(paths)
        measured = self._measure_portion(pool, numbered)
        while measured:
            files = [future.result() for future in measured]
            # The next portion is measured while this one is scored.
            measured = self._measure_portion(pool, numbered)
            failed = [file for file in files if file.error]
            if failed:
                yield failed
            batches = self._plan_portion([file for file in files if not file.error])
            wanted = [batch for batch in batches if _has_unknown(batch)]
            # Longest first, as a list is scored, would keep the first of them waiting for all.
            yield from sorted(wanted, key=_first_index)

    def _plan_portion(self, files: list[File]) -> list[list[File]]:
        """Divide measured files into batches of equal lengths; long ones are by themselves."""
        batches = []
        trials = []
        for file in files:
            if self.whole and file.speech > self.max_samples:
                batches.append([file])
            else:
                trials.append(file)
        lengths = np.array([file.speech for file in trials], np.int64)
        for batch in self.scorer.plan_batches(lengths):
            batches.append([replace(trials[i], samples=batch.samples) for i in batch.trials])
        return batches

    def _measure_portion(
        self, pool: Threads, numbered: Iterator[tuple[int, Path]]
    ) -> list[Future[File]]:
        """Begin to measure the next portion that has a file without a result; [] at the end."""
        while portion := list(islice(numbered, _PORTION)):
            files = [File(index, path, known=self.is_known(index)) for index, path in portion]
            if _has_unknown(files):
                return [pool.submit(self._measure, file) for file in files]
        return []

    def _measure(self, file: File) -> File:
        try:
            length = measure_speech(check_exists(file.path), self.sad)
        except _FAILURES as error:
            return replace(file, error=explain_failure(file.path, error))
        return replace(file, speech=length.speech, total=length.recording)

    def _hear(self, file: File) -> _Heard:
        if file.error:
            return _Heard(error=file.error)
        if file.samples is None:
            return _Heard()
        try:
            speech = read_speech(file.path, self.sad, 0, file.samples)
            return _Heard(repeat_to(speech, file.samples), is_silent(speech))
        except _FAILURES as error:
            return _Heard(error=explain_failure(file.path, error))


def _has_unknown(files: list[File]) -> bool:
    return not all(file.known for file in files)


def _first_index(batch: list[File]) -> int:
    return min(file.index for file in batch)


def _make_result(file: File, make: Callable[..., Scored], *arguments: object) -> Scored:
    try:
        return make(*arguments)
    except _FAILURES as error:
        return Scored(file.index, file.path, error=explain_failure(file.path, error))


def explain_failure(path: Path, error: Exception) -> str:
    """Return one line on why a file has no score."""
    if isinstance(error, AsdfError):
        return str(error)
    if isinstance(error, MemoryError):
        return (
            f"{path} does not fit into the memory that is free: its header likely claims a length "
            "that it has not."
        )
    reason = getattr(error, "strerror", None) or error
    return f"{path} cannot be read: {reason}."

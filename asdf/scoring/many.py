"""Many recordings: measured and read by threads while the network computes, equal lengths together.

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
from typing import Any

import numpy as np

from asdf.audio.sources import Limits, Source
from asdf.data.threads import Threads, threads
from asdf.errors import AsdfError, UsageError
from asdf.scoring.ahead import read_ahead
from asdf.scoring.in_windows import WindowScoring
from asdf.scoring.recordings import FileRecording, Recording, as_recording, name_of
from asdf.scoring.scored import Score, Scored
from asdf.scoring.waveform_scorer import Output
from asdf.scoring.whole_recording import Trial, as_result, is_silent

# Decoders let other threads run, so that threads do as well as processes, and need no copies.
_READERS = 4
# Files that are sorted by length together: enough that batches are full, few enough that the first
# result comes soon.
_PORTION = 48

# ValueError: a name that no file can have.
_FAILURES = (AsdfError, OSError, MemoryError, ValueError)


@dataclass(frozen=True)
class File:
    """A recording to be scored, be it a file or in memory.

    Attributes:
        speech: samples of speech in it.
        total: samples of the whole recording.
        samples: Samples of its speech that are scored as a trial; None: it is scored in windows.
        error: why it could not be measured; ''.
        known: its result is known already; it is only read for the others of its batch.
    """

    recording: Recording
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
        scoring: scorer, settings of speech activity detection, and how windows are scored.
        whole: score recordings that are longer than a trial in windows.
        embedding: results have the network's embeddings.
        progress: show how far a long recording is.
        limits: Limits of what a recording may take.
        is_known: whether the file at an index has a result; called before its portion is measured.
        frames: results have the scores of frames.
    """

    scoring: WindowScoring
    whole: bool
    embedding: bool
    progress: bool
    limits: Limits
    is_known: Callable[[int], bool]
    frames: bool = False

    def score(self, recordings: Iterable[Any]) -> Iterator[Scored]:
        """Yield a result for each recording that has none yet.

        Raises:
            UsageError: one is nothing that can be scored, see `as_recording`.
        """
        with threads(_READERS) as pool:
            for batch, heard in read_ahead(pool, self._hear, self._batches(pool, recordings)):
                yield from self._score_batch(batch, heard)

    def _score_batch(self, batch: list[File], heard: list[_Heard]) -> Iterator[Scored]:
        waveforms = [part.waveform for part in heard if part.waveform is not None]
        rows = iter(range(len(waveforms)))
        output = None
        if waveforms:
            samples = max(file.samples or 0 for file in batch)
            output = self.scoring.scorer.score_batch(
                waveforms, samples, self.embedding, self.frames
            )
        for file, part in zip(batch, heard, strict=True):
            # Also a file that is known takes its row, or the others would get the wrong ones.
            row = None if part.waveform is None else next(rows)
            if file.known:
                continue
            if part.error:
                yield _make_failure(file, part.error)
            elif output is None or row is None:
                yield self._make_result(file, self._score_in_windows, file)
            else:
                yield self._make_result(file, self._describe_trial, file, part, output, row)

    def _describe_trial(self, file: File, part: _Heard, output: Output, row: int) -> Score:
        frames = None
        if self.frames and file.speech > self.scoring.max_samples:
            frames = self.scoring.score_frames(file.recording)
        elif output.frames is not None:
            frames = self.scoring.frame_scoring().of_row(output.frames[row], file.speech)
        trial = Trial(
            raw=float(output.scores[row]),
            speech=file.speech,
            total=file.total,
            silent=part.silent,
            embedding=output.embedding(row),
            frames=frames,
            sources=output.source(row),
        )
        return self.scoring.summary.describe_trial(trial)

    def _score_in_windows(self, file: File) -> Score:
        shown_samples = file.speech if self.progress else None
        return self.scoring.score_whole(file.recording, self.embedding, shown_samples, self.frames)

    def _make_result(self, file: File, make: Callable[..., Score], *arguments: object) -> Scored:
        try:
            return as_result(file.recording, make(*arguments))
        except _FAILURES as error:
            return _make_failure(file, explain_failure(file.recording.name, error))

    def _batches(self, pool: Threads, recordings: Iterable[Any]) -> Iterator[list[File]]:
        """Yield batches with files to be scored, portion by portion."""
        numbered = enumerate(recordings)
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
            if self.whole and file.speech > self.scoring.max_samples:
                batches.append([file])
            else:
                trials.append(file)
        lengths = np.array([file.speech for file in trials], np.int64)
        for batch in self.scoring.scorer.plan_batches(lengths):
            batches.append([replace(trials[i], samples=batch.samples) for i in batch.trials])
        return batches

    def _measure_portion(
        self, pool: Threads, numbered: Iterator[tuple[int, Any]]
    ) -> list[Future[File]]:
        """Begin to measure the next portion that has a file without a result; [] at the end."""
        while portion := list(islice(numbered, _PORTION)):
            files = [self._make_file(index, value) for index, value in portion]
            if _has_unknown(files):
                return [pool.submit(self._measure, file) for file in files]
        return []

    def _make_file(self, index: int, value: Any) -> File:
        try:
            recording = as_recording(value, None, index, self.limits)
        except UsageError:
            # A mistake in the program, not in a recording.
            raise
        except AsdfError as error:
            name = name_of(value, index)
            nothing = FileRecording(index, name, None, Source(name, b""))
            return File(nothing, error=str(error), known=self.is_known(index))
        return File(recording, known=self.is_known(index))

    def _measure(self, file: File) -> File:
        if file.error:
            return file
        try:
            length = file.recording.measure(self.scoring.sad)
        except _FAILURES as error:
            return replace(file, error=explain_failure(file.recording.name, error))
        return replace(file, speech=length.speech, total=length.recording)

    def _hear(self, file: File) -> _Heard:
        if file.error:
            return _Heard(error=file.error)
        if file.samples is None:
            return _Heard()
        try:
            speech = file.recording.read_speech(self.scoring.sad, file.samples)
            return _Heard(speech, is_silent(speech))
        except _FAILURES as error:
            return _Heard(error=explain_failure(file.recording.name, error))


def _has_unknown(files: list[File]) -> bool:
    return not all(file.known for file in files)


def _first_index(batch: list[File]) -> int:
    return min(file.recording.index for file in batch)


def _make_failure(file: File, error: str) -> Scored:
    recording = file.recording
    return Scored(recording.index, recording.path, error=error, name=recording.name)


def explain_failure(name: str, error: Exception) -> str:
    """Return one line on why a recording has no score."""
    if isinstance(error, AsdfError):
        return str(error)
    if isinstance(error, MemoryError):
        return (
            f"{name} does not fit into the memory that is free: its header likely claims a length "
            "that it has not."
        )
    reason = getattr(error, "strerror", None) or error
    return f"{name} cannot be read: {reason}."

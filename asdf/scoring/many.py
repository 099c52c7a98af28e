"""Scoring of many recordings: threads measure and read while the network computes.

Invariant: results come in portions of the files, in their given order, so the first results come
soon and only a few portions are in memory, for lists of any length. One bad file does not affect
the scores of others. Portions and batches do not depend on which results are already known, so a
run that is stopped and resumed gives the same scores to the last bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from asdf.audio.recording_sources import Limits, Source
from asdf.audio.speech import SpeechLength
from asdf.data.threads import Threads, threads
from asdf.errors import AsdfError, UsageError
from asdf.scoring.pipeline import Pipeline
from asdf.scoring.recordings import FileRecording, Recording, as_recording, name_of
from asdf.scoring.scored import Scored
from asdf.scoring.whole_recording import Piece, Window

# Decoders release the GIL, so threads work as well as processes and need no copies.
_READERS = 4
# Maximum number of batches in memory.
_BATCHES = 3
# Number of files that are sorted by length together: enough for full batches, few enough for an
# early first result.
_PORTION = 48

_UNKNOWN = SpeechLength(0, 0)

# ValueError: the name is not valid for a file.
_FAILURES = (AsdfError, OSError, MemoryError, ValueError)


@dataclass(frozen=True)
class File:
    """A recording to be scored, either a file or in memory.

    Attributes:
        length: Samples of speech in the recording, and of the whole recording.
        samples: Samples of speech heard as a trial; None: the recording is scored in windows.
        error: Reason why the recording could not be measured; ''.
        known: Whether its result is already known; it is then read only to fill its batch.
    """

    recording: Recording
    length: SpeechLength = _UNKNOWN
    samples: int | None = None
    error: str = ""
    known: bool = False


@dataclass(frozen=True)
class ManyRecordings:
    """Recordings in batches of their heard parts.

    Attributes:
        pipeline: Rules by which each recording is heard.
        whole: Whether recordings that are longer than a trial are scored in windows.
        progress: Whether to show the progress in a long recording.
        limits: Limits on the size of a recording.
        is_known: Function that returns whether the file at an index has a result; called before its
            portion is measured.
    """

    pipeline: Pipeline
    whole: bool
    progress: bool
    limits: Limits
    is_known: Callable[[int], bool]

    def score(self, recordings: Iterable[Any]) -> Iterator[Scored]:
        """Yield a result for each recording that does not have one yet.

        Raises:
            UsageError: one is nothing that can be scored, see `as_recording`.
        """
        with threads(_READERS) as pool:
            reading: deque[tuple[list[File], list[Future[Piece | str | None]]]] = deque()
            for batch in self._batches(pool, recordings):
                reading.append((batch, [pool.submit(self._hear, file) for file in batch]))
                if len(reading) >= _BATCHES:
                    yield from self._score_batch(*reading.popleft())
            while reading:
                yield from self._score_batch(*reading.popleft())

    def _score_batch(
        self, batch: list[File], reading: list[Future[Piece | str | None]]
    ) -> Iterator[Scored]:
        heard = [future.result() for future in reading]
        pieces = [part for part in heard if isinstance(part, Piece)]
        windows = iter(self.pipeline.score(pieces) if pieces else ())
        for file, part in zip(batch, heard, strict=True):
            # A known file takes its window too; otherwise the others would get wrong ones.
            window = next(windows) if isinstance(part, Piece) else None
            if file.known:
                continue
            try:
                if isinstance(part, str):
                    raise AsdfError(part)
                result = self._conclude(file, part, window)
            except _FAILURES as error:
                known = file.recording
                why = _explain(file, error)
                result = Scored(known.index, known.path, error=why, name=known.name)
            yield result

    def _conclude(self, file: File, piece: Piece | None, window: Window | None) -> Scored:
        """Return the score of a file whose beginning was heard as one piece, or of a long one."""
        length = file.length
        if piece is None or window is None:
            shown_samples = length.speech if self.progress else None
            return self.pipeline.score_whole(file.recording, shown_samples)
        searched: list[Window] = []
        if self.whole:
            # Only this file is searched: known results of other files must not change a last digit.
            heard = piece.waveform
            searched = self.pipeline.search_recording(file.recording, length.recording, heard=heard)
        return self.pipeline.score_beginning(file.recording, window, length, self.whole, searched)

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
            # Of equal lengths; long files are by themselves.
            batches = []
            trials = []
            for file in files:
                if self.whole and file.length.speech > self.pipeline.max_samples:
                    batches.append([file])
                elif not file.error:
                    trials.append(file)
            lengths = np.array([file.length.speech for file in trials], np.int64)
            # More than the network's grid of frames uses: levels and parts are of all samples.
            samples = self.pipeline.scorer.trial_samples
            for batch in self.pipeline.scorer.plan_batches(lengths):
                batches.append([replace(trials[i], samples=samples) for i in batch.trials])
            wanted = [batch for batch in batches if _has_unknown(batch)]
            # Sorting by length, as for lists, would delay the first result until the end.
            yield from sorted(wanted, key=lambda batch: min(file.recording.index for file in batch))

    def _measure_portion(
        self, pool: Threads, numbered: Iterator[tuple[int, Any]]
    ) -> list[Future[File]]:
        """Start to measure the next portion with a file to score; return [] at the end."""
        while portion := list(islice(numbered, _PORTION)):
            files = [self._make_file(index, value) for index, value in portion]
            # A portion whose results are all known is not even measured.
            if _has_unknown(files):
                return [pool.submit(self._measure, file) for file in files]
        return []

    def _make_file(self, index: int, value: Any) -> File:
        audio = self.pipeline.audio
        known = self.is_known(index)
        if isinstance(value, Recording):
            return File(replace(value.heard_as(audio), index=index), known=known)
        try:
            return File(as_recording(value, None, index, self.limits, audio), known=known)
        except UsageError:
            # This is an error in the program, not in a recording.
            raise
        except AsdfError as error:
            name = name_of(value, index)
            nothing = FileRecording(index, name, None, audio, Source(name, b""))
            return File(nothing, error=str(error), known=known)

    def _measure(self, file: File) -> File:
        if file.error:
            return file
        try:
            return replace(file, length=file.recording.measure(self.pipeline.sad))
        except _FAILURES as error:
            return replace(file, error=_explain(file, error))

    def _hear(self, file: File) -> Piece | str | None:
        """Return the beginning of a file, or why it cannot be read; None: it is read in windows."""
        if file.error or file.samples is None:
            return file.error or None
        try:
            return self.pipeline.make_piece(
                file.recording.read_speech(self.pipeline.sad, file.samples)
            )
        except _FAILURES as error:
            return _explain(file, error)


def _has_unknown(files: list[File]) -> bool:
    return not all(file.known for file in files)


def _explain(file: File, error: Exception) -> str:
    """Return one line on why a recording has no score."""
    name = file.recording.name
    if isinstance(error, AsdfError):
        return str(error)
    if isinstance(error, MemoryError):
        return f"{name} does not fit into free memory: its header probably states a wrong length."
    reason = getattr(error, "strerror", None) or error
    return f"{name} cannot be read: {reason}."

"""A thread that scores the pieces of all waiting recordings, batched by length.

Invariant: each forward pass takes pieces of as many waiting recordings as possible, in turns, so
that a long recording does not delay short ones. The thread never waits to fill a batch: pieces that
arrive during a pass are in the next one. A failure in a pass fails its recordings, and the thread
continues.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from asdf.errors import AsdfError
from asdf.extras.service.counts import Counts
from asdf.runs.log import LOG
from asdf.scoring.pipeline import Pieces, Pipeline
from asdf.scoring.scored import Scored, WindowScore
from asdf.scoring.whole_recording import Window

Result = tuple[Scored, list[WindowScore]]


class _Waiting:
    """A recording with pieces that have no score yet."""

    def __init__(self, pieces: Pieces, name: str, pipeline: Pipeline) -> None:
        self.pieces = pieces
        self.name = name
        self.since_s = time.monotonic()
        self.future: Future[Result] = Future()
        # Assembled once: there may be thousands.
        self.all_pieces = pieces.all
        self.windows: dict[int, Window] = {}
        # Grouped by the samples that they are scored from, which are equal in a forward pass.
        self.by_length: dict[int, deque[int]] = {}
        for index, piece in enumerate(self.all_pieces):
            length = pipeline.batch_length(piece)
            self.by_length.setdefault(length, deque()).append(index)

    @property
    def missing(self) -> int:
        """Number of pieces that have no score yet."""
        return len(self.all_pieces) - len(self.windows)

    def take(self, length: int) -> int | None:
        """Return the index of the next piece of that length; None if there is none."""
        indices = self.by_length.get(length)
        if not indices:
            return None
        index = indices.popleft()
        if not indices:
            del self.by_length[length]
        return index


class SharedPasses:
    """The scoring thread.

    Attributes:
        is_working: Whether the last forward pass succeeded; False before the first.
    """

    def __init__(self, pipeline: Pipeline, counts: Counts) -> None:
        """Start the thread."""
        self._pipeline = pipeline
        self._counts = counts
        self._changed = threading.Condition()
        self._queue: list[_Waiting] = []
        self._closed = False
        self._began_s: float | None = None
        # Samples in the current pass; those of the last passes, and how long these took.
        self._passing = 0
        self._scored = self._took_s = 0.0
        self.is_working = False
        # A daemon thread, so that the process can end even if a device hangs.
        threading.Thread(target=self._work, name="asdf-passes", daemon=True).start()

    def submit(self, pieces: Pieces, name: str = "") -> Future[Result]:
        """Score a recording, together with others.

        Cancelling its future skips the rest of its pieces. The future raises an AsdfError if the
        network has no score for it.
        """
        waiting = _Waiting(pieces, name, self._pipeline)
        with self._changed:
            if self._closed:
                waiting.future.cancel()
            self._queue.append(waiting)
            self._note_waiting()
            self._changed.notify()
        return waiting.future

    @property
    def pass_s(self) -> float:
        """Seconds that the current forward pass has taken so far; 0 between two."""
        began_s = self._began_s
        return 0.0 if began_s is None else time.monotonic() - began_s

    @property
    def seconds_left(self) -> float | None:
        """Seconds until all that waits is scored, as fast as the last passes; None if unknown."""
        waiting = self._passing
        with self._changed:
            for each in self._queue:
                for length, indices in list(each.by_length.items()):
                    waiting += length * len(indices)
        return waiting * self._took_s / self._scored if self._scored else None

    def close(self) -> None:
        """Begin no other forward pass; cancel what is waiting."""
        with self._changed:
            self._closed = True
            for waiting in self._queue:
                waiting.future.cancel()
            self._queue.clear()
            self._changed.notify()

    def _work(self) -> None:
        while batch := self._take_batch():
            self._counts.pass_pieces.observe(len(batch))
            self._began_s = time.monotonic()
            try:
                pieces = [waiting.all_pieces[index] for waiting, index in batch]
                self._passing = sum(map(self._pipeline.batch_length, pieces))
                windows = self._pipeline.score(pieces)
            # In any case, the requests of this pass get an answer and the next are served.
            except Exception as error:
                self._fail(batch, error)
            else:
                self._set_working(True)
                # The later a pass, the more it counts: the first is slow.
                self._scored = self._scored / 2 + self._passing
                self._took_s = self._took_s / 2 + time.monotonic() - self._began_s
                for (waiting, index), window in zip(batch, windows, strict=True):
                    waiting.windows[index] = window
                    if not waiting.missing:
                        self._conclude(waiting)
            self._began_s = None
            self._passing = 0
            # Waveforms must not stay in memory until the next ones arrive.
            pieces = []
            del batch

    def _take_batch(self) -> list[tuple[_Waiting, int]]:
        """Wait for pieces, and take as many as fit into a pass; [] at the end."""
        with self._changed:
            while True:
                self._queue = [w for w in self._queue if w.by_length and not w.future.cancelled()]
                self._note_waiting()
                if self._queue or self._closed:
                    break
                self._changed.wait()
            if self._closed:
                return []
            # The oldest determines the length, and the others follow in turns.
            length = next(iter(self._queue[0].by_length))
            size = self._pipeline.scorer.batch_size(length)
            batch: list[tuple[_Waiting, int]] = []
            turns = deque(self._queue)
            while turns and len(batch) < size:
                waiting = turns.popleft()
                index = waiting.take(length)
                if index is not None:
                    batch.append((waiting, index))
                    turns.append(waiting)
            return batch

    def _note_waiting(self) -> None:
        self._counts.pieces_waiting.set(sum(waiting.missing for waiting in self._queue))
        since_s = min((waiting.since_s for waiting in self._queue), default=time.monotonic())
        self._counts.queue_age_seconds.set(time.monotonic() - since_s)

    def _conclude(self, waiting: _Waiting) -> None:
        # A future that was cancelled meanwhile takes no result.
        with suppress(InvalidStateError):
            try:
                # In the order of the recording; passes may score them in another.
                windows = [waiting.windows[index] for index in range(len(waiting.all_pieces))]
                result = self._pipeline.conclude(waiting.pieces, windows, name=waiting.name)
            except AsdfError as error:
                waiting.future.set_exception(error)
            else:
                waiting.future.set_result(result)

    def _fail(self, batch: list[tuple[_Waiting, int]], error: Exception) -> None:
        self._set_working(False)
        LOG.error("a forward pass failed: %s", error, exc_info=not isinstance(error, AsdfError))
        for waiting, _ in batch:
            # Its other pieces are no longer needed.
            waiting.by_length.clear()
            # Several pieces of a recording may be in the batch, and its future may be cancelled.
            with suppress(InvalidStateError):
                waiting.future.set_exception(error)

    def _set_working(self, is_working: bool) -> None:
        self.is_working = is_working
        self._counts.ready.set(is_working)

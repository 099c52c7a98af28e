"""A thread that scores the pieces of all waiting recordings, batched by length.

Invariant: each forward pass takes pieces of as many waiting recordings as possible, in turns, so
that a long recording does not delay short ones. Windows of calls, whose scores lose value with
time, come before recordings, but only in every other pass. The thread never waits to fill a batch:
pieces that arrive during a pass are in the next one. A failure in a pass fails its recordings, and
the thread continues.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.scoring.hearing import Hearing, Piece, Pieces
from asdf.scoring.scored import Scored, WindowScore
from asdf.scoring.waveform_scorer import Outcome

Result = tuple[Scored, list[WindowScore]]


class _Waiting:
    """A recording with pieces that have no score yet.

    Attributes:
        conclude: Function that makes the result from the outcomes of its pieces.
        is_call: Whether it is a window of a call.
        since_s: Time of the monotonic clock at which it began to wait.
    """

    def __init__(
        self,
        pieces: Sequence[Piece],
        hearing: Hearing,
        conclude: Callable[[list[Outcome]], Any],
        is_call: bool = False,
    ) -> None:
        self.hearing = hearing
        self.conclude = conclude
        self.is_call = is_call
        self.since_s = time.monotonic()
        self.future: Future[Any] = Future()
        self.outcomes: dict[int, Outcome] = {}
        self.missing = len(pieces)
        # Grouped by the samples that they are scored from, which are equal in a forward pass.
        self.by_length: dict[int, deque[int]] = {}
        for index, piece in enumerate(pieces):
            length = hearing.batch_length(piece)
            self.by_length.setdefault(length, deque()).append(index)
        self.all_pieces = pieces

    def take(self, length: int) -> int | None:
        """Return the index of the next piece of that length; None if there is none."""
        indices = self.by_length.get(length)
        if not indices:
            return None
        index = indices.popleft()
        if not indices:
            del self.by_length[length]
        return index


@dataclass(frozen=True)
class _Taken:
    """A piece in a forward pass."""

    waiting: _Waiting
    index: int

    @property
    def piece(self) -> Piece:
        return self.waiting.all_pieces[self.index]


class SharedPasses:
    """The scoring thread.

    Attributes:
        is_working: Whether the last forward pass succeeded; False before the first.
    """

    def __init__(self, hearing: Hearing, observe: Callable[[int], None]) -> None:
        """Start the thread.

        Args:
            observe: Function that is called with the number of pieces of each forward pass.
        """
        self._hearing = hearing
        self._observe = observe
        self._changed = threading.Condition()
        self._queue: list[_Waiting] = []
        self._closed = False
        self._last_was_call = False
        self._began_s: float | None = None
        self.is_working = False
        # A daemon thread, so that the process can end even if a device hangs.
        threading.Thread(target=self._work, name="asdf-passes", daemon=True).start()

    def submit(
        self, pieces: Pieces, name: str = "", hearing: Hearing | None = None
    ) -> Future[Result]:
        """Score a recording, together with others of the same hearing.

        Cancelling its future skips the rest of its pieces. The future raises an AsdfError if the
        network has no score for it.

        Args:
            hearing: Hearing with a reference to compare with; None: the service's.
        """
        hearing = hearing or self._hearing
        # The pieces of a recording are assembled once: there may be thousands.
        all_pieces = pieces.all
        conclude = partial(hearing.conclude, pieces, name=name)
        return self._add(_Waiting(all_pieces, hearing, conclude))

    def submit_window(self, piece: Piece, hearing: Hearing) -> Future[Outcome]:
        """Score a window of a call, before recordings; see `submit`."""
        return self._add(_Waiting([piece], hearing, lambda outcomes: outcomes[0], is_call=True))

    def _add(self, waiting: _Waiting) -> Future[Any]:
        with self._changed:
            if self._closed:
                waiting.future.cancel()
            self._queue.append(waiting)
            self._changed.notify()
        return waiting.future

    @property
    def pieces_waiting(self) -> int:
        with self._changed:
            return sum(waiting.missing for waiting in self._queue)

    @property
    def waits_s(self) -> float:
        """Seconds that the oldest recording has waited for its last piece; 0 if none waits."""
        with self._changed:
            since = [waiting.since_s for waiting in self._queue if not waiting.future.done()]
        if since:
            return time.monotonic() - min(since)
        return 0.0

    @property
    def pass_s(self) -> float:
        """Seconds that the current forward pass has taken so far; 0 between two."""
        began_s = self._began_s
        if began_s is None:
            return 0.0
        return time.monotonic() - began_s

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
            self._observe(len(batch))
            self._began_s = time.monotonic()
            try:
                hearing = batch[0].waiting.hearing
                outcomes = hearing.score([taken.piece for taken in batch])
            # In any case, the requests of this pass get an answer and the next are served.
            except Exception as error:
                self._fail(batch, error)
            else:
                self.is_working = True
                self._deliver(batch, outcomes)
            self._began_s = None
            # Waveforms must not stay in memory until the next ones arrive.
            del batch

    def _take_batch(self) -> list[_Taken]:
        """Wait for pieces, and take as many as fit into a pass; [] at the end."""
        with self._changed:
            while True:
                self._queue = [w for w in self._queue if w.by_length and not w.future.cancelled()]
                if self._queue or self._closed:
                    break
                self._changed.wait()
            if self._closed:
                return []
            # The oldest determines the pass, so that each has its turn: calls first in every other
            # pass.
            wanted = not self._last_was_call
            of_turn = [waiting for waiting in self._queue if waiting.is_call == wanted]
            oldest = (of_turn or self._queue)[0]
            self._last_was_call = oldest.is_call
            length = next(iter(oldest.by_length))
            return self._take_in_turns(oldest, length)

    def _take_in_turns(self, oldest: _Waiting, length: int) -> list[_Taken]:
        batch: list[_Taken] = []
        size = oldest.hearing.scorer.batch_size(length)
        # Recordings with other references, or of a previous network, are in other passes.
        others = [w for w in self._queue if w.hearing is oldest.hearing and w is not oldest]
        turns = deque([oldest, *others])
        while turns and len(batch) < size:
            waiting = turns.popleft()
            index = waiting.take(length)
            if index is not None:
                batch.append(_Taken(waiting, index))
                turns.append(waiting)
        return batch

    def _deliver(self, batch: list[_Taken], outcomes: list[Outcome]) -> None:
        for taken, outcome in zip(batch, outcomes, strict=True):
            waiting = taken.waiting
            waiting.outcomes[taken.index] = outcome
            waiting.missing -= 1
            if not waiting.missing:
                self._conclude(waiting)

    def _conclude(self, waiting: _Waiting) -> None:
        # A future that was cancelled meanwhile takes no result.
        with suppress(InvalidStateError):
            try:
                # In the order of the recording; passes may score them in another.
                outcomes = [waiting.outcomes[index] for index in range(len(waiting.all_pieces))]
                result = waiting.conclude(outcomes)
            except AsdfError as error:
                waiting.future.set_exception(error)
            else:
                waiting.future.set_result(result)

    def _fail(self, batch: list[_Taken], error: Exception) -> None:
        self.is_working = False
        LOG.error("a forward pass failed: %s", error, exc_info=not isinstance(error, AsdfError))
        for taken in batch:
            # Its other pieces are no longer needed.
            taken.waiting.by_length.clear()
            # Several pieces of a recording may be in the batch, and its future may be cancelled.
            with suppress(InvalidStateError):
                taken.waiting.future.set_exception(error)

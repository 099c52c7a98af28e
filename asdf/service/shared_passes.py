"""One thread that scores the pieces of all recordings that wait, those of equal length together.

Invariant: each forward pass takes pieces of as many waiting recordings as there are, in turns, so
that a long recording holds up no short one. A window of a call, whose score is worth less each
second, is heard before recordings, but every other pass is theirs. Nothing is waited for: what
comes while the network computes is in the next pass. What fails in a pass fails the recordings in
it, and the thread goes on.
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
    """A recording some of whose pieces have no score yet.

    Attributes:
        conclude: Function that makes its result of the outcomes of its pieces.
        is_call: Whether it is a window of a call.
        since_s: Time of the monotonic clock from which on it waits.
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
        # By the samples that they are scored from: those of a forward pass have the same.
        self.by_length: dict[int, deque[int]] = {}
        for index, piece in enumerate(pieces):
            length = hearing.batch_length(piece)
            self.by_length.setdefault(length, deque()).append(index)
        self.all_pieces = pieces

    def take(self, length: int) -> int | None:
        """Return the index of the next piece of that length; None where there is none."""
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
        is_working: True if the last forward pass succeeded; False before the first.
    """

    def __init__(self, hearing: Hearing, observe: Callable[[int], None]) -> None:
        """Start the thread.

        Args:
            observe: Function called with the number of pieces of each forward pass.
        """
        self._hearing = hearing
        self._observe = observe
        self._changed = threading.Condition()
        self._queue: list[_Waiting] = []
        self._closed = False
        self._last_was_call = False
        self._began_s: float | None = None
        self.is_working = False
        # A daemon: the process can end whatever a device does.
        threading.Thread(target=self._work, name="asdf-passes", daemon=True).start()

    def submit(
        self, pieces: Pieces, name: str = "", hearing: Hearing | None = None
    ) -> Future[Result]:
        """Score a recording, together with others that are heard alike.

        Its future may be cancelled; the rest of its pieces is then left out. The future raises an
        AsdfError where the network has no score for it.

        Args:
            hearing: What hears it, where it is compared with a reference; None: the service's.
        """
        hearing = hearing or self._hearing
        # A recording's pieces are put together once: it may have thousands.
        all_pieces = pieces.all
        conclude = partial(hearing.conclude, pieces, name=name)
        return self._add(_Waiting(all_pieces, hearing, conclude))

    def submit_window(self, piece: Piece, hearing: Hearing) -> Future[Outcome]:
        """Score a window of a call, before recordings; as `submit`."""
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
        """Seconds that the oldest recording has waited for its last piece; 0 where none waits."""
        with self._changed:
            since = [waiting.since_s for waiting in self._queue if not waiting.future.done()]
        if since:
            return time.monotonic() - min(since)
        return 0.0

    @property
    def pass_s(self) -> float:
        """Seconds that the forward pass of this moment has taken so far; 0 between two."""
        began_s = self._began_s
        if began_s is None:
            return 0.0
        return time.monotonic() - began_s

    def close(self) -> None:
        """Begin no other forward pass; what waits is cancelled."""
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
            # Whatever it is, the requests of this pass get an answer and the next are served.
            except Exception as error:
                self._fail(batch, error)
            else:
                self.is_working = True
                self._deliver(batch, outcomes)
            self._began_s = None
            # Waveforms must not stay until the next ones come.
            del batch

    def _take_batch(self) -> list[_Taken]:
        """Wait for pieces, and take as many as a pass holds; [] at the end."""
        with self._changed:
            while True:
                self._queue = [w for w in self._queue if w.by_length and not w.future.cancelled()]
                if self._queue or self._closed:
                    break
                self._changed.wait()
            if self._closed:
                return []
            # The oldest decides, so that each has its turn: calls first, but every other pass not.
            wanted = not self._last_was_call
            of_turn = [waiting for waiting in self._queue if waiting.is_call == wanted]
            oldest = (of_turn or self._queue)[0]
            self._last_was_call = oldest.is_call
            length = next(iter(oldest.by_length))
            return self._take_in_turns(oldest, length)

    def _take_in_turns(self, oldest: _Waiting, length: int) -> list[_Taken]:
        batch: list[_Taken] = []
        size = oldest.hearing.scorer.batch_size(length)
        # Recordings of other references, or of a network from before, are in other passes.
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
            # Its other pieces are worth nothing now.
            taken.waiting.by_length.clear()
            with suppress(InvalidStateError):
                taken.waiting.future.set_exception(error)

"""Several processes that answer at one address, and the one above them that keeps their number.

Invariant: the process above answers nothing and computes nothing; it opens the network once, whose
memory its forks share, and has one thread, so that a fork lacks nothing. All workers take
connections from one socket, so that none is lost with a worker that ends. A worker that dies is
replaced, and said; a network that is read again is answered by new workers before those from before
take no more.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType

from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.service.board import Board

_TICK_S = 0.1
# A worker may take that long to open a network and to score something.
_START_S = 600.0
# Of workers that die one after the other, each comes later than the one before.
_FIRST_DELAY_S = 0.5
_MAX_DELAY_S = 30.0
_LIVED_S = 10.0
# So many that die before any was ready: it is not their clients that kill them.
_MAX_FAILURES = 3
# After the time that workers have to stop.
_PATIENCE_S = 15.0


@dataclass(eq=False)
class _Worker:
    """A process that answers.

    Attributes:
        row: Its row of the board.
        drains: Whether it only ends what it has.
    """

    pid: int
    row: int
    started_s: float = field(default_factory=time.monotonic)
    drains: bool = False


class Workers:
    """The workers of a service."""

    def __init__(
        self,
        count: int,
        board: Board,
        work: Callable[[int], int],
        reload: Callable[[], Callable[[], None]],
        stop_s: float,
    ) -> None:
        """Start nothing yet.

        Args:
            count: Number of workers.
            work: What a worker does, with its row of the board, in a process of its own; returns
                the exit status. It drains at SIGUSR1 and stops at SIGTERM.
            reload: Function that reads the network again, for workers that are started then; it
                returns a function that takes that back.
            stop_s: Seconds that workers have to stop.

        Raises:
            AsdfError: by `reload`, where the network cannot be read.
        """
        self._count = count
        self._board = board
        self._work = work
        self._reload = reload
        self._stop_s = stop_s
        self._workers: list[_Worker] = []
        self._free = list(range(board.rows))
        self._stops = 0
        self._is_reload_wanted = False
        self._delay_s = _FIRST_DELAY_S
        self._start_at_s = 0.0
        self._failures = 0

    def run(self) -> None:
        """Keep workers until SIGTERM or Ctrl-C.

        Raises:
            AsdfError: no worker gets ready.
        """
        signal.signal(signal.SIGTERM, self._want_stop)
        signal.signal(signal.SIGINT, self._want_stop)
        signal.signal(signal.SIGHUP, self._want_reload)
        # What is there stays in memory that is shared: collecting garbage would write to it.
        gc.collect()
        gc.freeze()
        self._start(self._count)
        try:
            while not self._stops:
                self._replace_dead()
                if self._is_reload_wanted:
                    self._is_reload_wanted = False
                    self._begin_generation()
                time.sleep(_TICK_S)
        finally:
            self._stop()

    def _want_stop(self, number: int, _: FrameType | None) -> None:
        self._stops += 1
        if self._stops > 1:
            # The second time nothing is waited for.
            self._send(self._workers, signal.SIGINT)

    def _want_reload(self, *_: object) -> None:
        self._is_reload_wanted = True

    def _start(self, count: int) -> list[_Worker]:
        """Fork workers."""
        started = []
        for _ in range(count):
            row = self._free.pop(0)
            self._board.empty(row)
            pid = os.fork()
            if not pid:
                self._be_worker(row)
            started.append(_Worker(pid, row))
        self._workers += started
        return started

    def _be_worker(self, row: int) -> None:
        """Work, and end this process."""
        status = 1
        try:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            # Of the process above: a terminal's end is said to all.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            status = self._work(row)
        except AsdfError as error:
            LOG.error("%s", error)
        except BaseException:
            LOG.exception("a worker failed")
        finally:
            os._exit(status)

    def _reap(self) -> list[_Worker]:
        """Return the workers that have ended, and forget them."""
        ended = []
        for worker in self._workers:
            pid, status = os.waitpid(worker.pid, os.WNOHANG)
            if not pid:
                continue
            ended.append(worker)
            self._board.empty(worker.row)
            self._free.append(worker.row)
            if not worker.drains and not self._stops:
                code = os.waitstatus_to_exitcode(status)
                how = f"by signal {-code}" if code < 0 else f"with status {code}"
                LOG.error("worker %d ended %s", worker.pid, how)
        self._workers = [worker for worker in self._workers if worker not in ended]
        return ended

    def _replace_dead(self) -> None:
        """Start a worker for each that has died, not faster and faster.

        Raises:
            AsdfError: they die before any is ready.
        """
        died = [worker for worker in self._reap() if not worker.drains]
        now = time.monotonic()
        if self._board.held["ready"].any():
            self._failures = 0
        for worker in died:
            lived = now - worker.started_s > _LIVED_S
            self._delay_s = _FIRST_DELAY_S if lived else min(2 * self._delay_s, _MAX_DELAY_S)
            self._start_at_s = now + (0.0 if lived else self._delay_s)
            self._failures += 1
        if self._failures >= _MAX_FAILURES * self._count:
            raise AsdfError("the workers of the service die before they are ready: see the log.")
        missing = self._count - sum(not worker.drains for worker in self._workers)
        if missing > 0 and now >= self._start_at_s:
            started = self._start(missing)
            numbers = ", ".join(str(worker.pid) for worker in started)
            LOG.info("started in the place of workers that ended: %s", numbers)

    def _begin_generation(self) -> None:
        """Read the network again, start workers with it, and let those from before end.

        Where one of the two fails, those from before stay, and the log says why.
        """
        if len(self._free) < self._count:
            LOG.error("the network is not read again: workers of two still end what they have")
            return
        before = list(self._workers)
        try:
            take_back = self._reload()
        except AsdfError as error:
            LOG.error("the network was not read again, and the one from before goes on: %s", error)
            return
        gc.freeze()
        new = self._start(self._count)
        if not self._wait_until_ready(new):
            LOG.error("workers with the new network do not get ready; those from before go on")
            self._send(new, signal.SIGTERM)
            for worker in new:
                worker.drains = True
            take_back()
            return
        for worker in before:
            worker.drains = True
        self._send(before, signal.SIGUSR1)
        LOG.info("new connections go to workers with the network as it is now")

    def _wait_until_ready(self, workers: list[_Worker]) -> bool:
        """Return whether all of these workers get ready."""
        until_s = time.monotonic() + _START_S
        while time.monotonic() < until_s and not self._stops:
            self._reap()
            if any(worker not in self._workers for worker in workers):
                return False
            if all(self._board.held["ready"][worker.row] for worker in workers):
                return True
            time.sleep(_TICK_S)
        return False

    def _stop(self) -> None:
        """End the workers, by force where they take longer than they may."""
        self._send(self._workers, signal.SIGTERM)
        until_s = time.monotonic() + self._stop_s + _PATIENCE_S
        while self._workers and time.monotonic() < until_s:
            self._reap()
            time.sleep(_TICK_S)
        self._send(self._workers, signal.SIGKILL)
        for worker in self._workers:
            os.waitpid(worker.pid, 0)

    def _send(self, workers: list[_Worker], number: signal.Signals) -> None:
        for worker in workers:
            try:
                os.kill(worker.pid, number)
            except ProcessLookupError:
                continue

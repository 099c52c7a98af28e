"""Worker processes that answer at one address, and their supervising parent.

Invariant: the parent answers and computes nothing. It opens the network once, in memory shared with
its forks, and has one thread, so that a fork lacks nothing. All workers accept connections from one
socket, so that none is lost when a worker ends. A worker that dies or stops responding is replaced,
also while others start, and this is logged. After a reload, new workers answer before the previous
ones stop accepting.
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

Work = Callable[[int], int]
"""Work of a worker, given its row of the board; returns the exit status."""

_TICK_S = 0.1
# Maximum time for a worker to open a network and to score something.
_START_S = 600.0
# A worker that answers counts ten times a second, whatever its network computes.
_SILENT_S = 60.0
# Maximum time that a step of this process counts: after the machine slept, no worker was silent.
_MAX_STEP_S = 1.0
# If workers die one after the other, each restart comes later than the one before.
_FIRST_DELAY_S = 0.5
_MAX_DELAY_S = 30.0
_LIVED_S = 10.0
# Number of workers that may die before any is ready: clients are not the cause.
_MAX_FAILURES = 3
# Additional time after workers should have stopped.
_PATIENCE_S = 15.0


@dataclass(eq=False)
class _Worker:
    """A worker process.

    Attributes:
        row: Its row of the board.
        drains: Whether it only finishes its current work.
        beats: Count on the board when this process last checked.
        silent_s: Seconds since the count last changed.
    """

    pid: int
    row: int
    started_s: float = field(default_factory=time.monotonic)
    drains: bool = False
    beats: int = 0
    silent_s: float = 0.0


@dataclass(frozen=True)
class _Coming:
    """Workers with a reloaded network, until all of them are ready.

    Attributes:
        work: Work of the workers that are started after them.
        until_s: Time of the monotonic clock by which they must be ready.
    """

    work: Work
    workers: list[_Worker]
    until_s: float


class Workers:
    """The workers of a service."""

    def __init__(
        self,
        count: int,
        board: Board,
        open_work: Callable[[], Work],
        stop_s: float,
    ) -> None:
        """Prepare the workers without starting them.

        Args:
            count: Number of workers.
            open_work: Function that reads the network, and returns a worker's work with it, which
                runs in its own process. It drains at SIGUSR1, stops at SIGTERM, and counts the
                beats of its row once it answers.
            stop_s: Time for workers to stop, in seconds.

        Raises:
            AsdfError: raised by `open_work` if the network cannot be read.
        """
        self._count = count
        self._board = board
        self._open_work = open_work
        self._work = open_work()
        self._stop_s = stop_s
        self._workers: list[_Worker] = []
        self._free = list(range(board.rows))
        self._stops = 0
        self._is_reload_wanted = False
        self._coming: _Coming | None = None
        self._looked_s = time.monotonic()
        self._delay_s = _FIRST_DELAY_S
        self._start_at_s = 0.0
        self._failures = 0

    def run(self) -> None:
        """Supervise workers until SIGTERM or Ctrl-C.

        Raises:
            AsdfError: no worker becomes ready.
        """
        signal.signal(signal.SIGTERM, self._want_stop)
        signal.signal(signal.SIGINT, self._want_stop)
        signal.signal(signal.SIGHUP, self._want_reload)
        # Existing objects stay in shared memory, which garbage collection would write to.
        gc.collect()
        gc.freeze()
        self._start(self._count, self._work)
        try:
            while not self._stops:
                self._kill_silent()
                ended = self._reap()
                self._look_at_coming(ended)
                self._replace_dead(ended)
                if self._is_reload_wanted and self._coming is None:
                    self._is_reload_wanted = False
                    self._begin_generation()
                time.sleep(_TICK_S)
        finally:
            self._stop()

    def _want_stop(self, number: int, _: FrameType | None) -> None:
        self._stops += 1
        if self._stops > 1:
            # The second signal does not wait.
            self._send(self._workers, signal.SIGINT)

    def _want_reload(self, *_: object) -> None:
        self._is_reload_wanted = True

    def _start(self, count: int, work: Work) -> list[_Worker]:
        """Fork workers."""
        started = []
        for _ in range(count):
            row = self._free.pop(0)
            self._board.empty(row)
            pid = os.fork()
            if not pid:
                self._be_worker(row, work)
            started.append(_Worker(pid, row))
        self._workers += started
        return started

    def _be_worker(self, row: int, work: Work) -> None:
        """Run the work, and end this process."""
        status = 1
        try:
            # The parent's handlers, which only take note of a signal, were inherited.
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            # Left to the parent: the end of a terminal is signalled to all processes.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            status = work(row)
        except AsdfError as error:
            LOG.error("%s", error)
        except BaseException:
            LOG.exception("a worker failed")
        finally:
            # Not `sys.exit`, which would run the parent's exit handlers in this process, too.
            os._exit(status)

    def _kill_silent(self) -> None:
        """Kill the workers that stopped responding; they are replaced like those that die."""
        now = time.monotonic()
        step_s = min(now - self._looked_s, _MAX_STEP_S)
        self._looked_s = now
        for worker in self._workers:
            beats = int(self._board.held["beats"][worker.row])
            if beats != worker.beats:
                worker.beats = beats
                worker.silent_s = 0.0
                continue
            worker.silent_s += step_s
            limit_s = _SILENT_S if beats else _START_S
            if worker.silent_s < limit_s:
                continue
            LOG.error("worker %d has not responded for %g s and is killed", worker.pid, limit_s)
            worker.silent_s = 0.0
            # A hanging worker may not handle any other signal.
            self._send([worker], signal.SIGKILL)

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

    def _look_at_coming(self, ended: list[_Worker]) -> None:
        """Replace the previous workers with new ones, once these are ready.

        If they do not become ready, the previous ones stay.
        """
        coming = self._coming
        if coming is None:
            return
        is_lost = any(worker in ended for worker in coming.workers)
        if is_lost or time.monotonic() > coming.until_s:
            LOG.error("workers with the new network do not become ready; the previous ones stay")
            self._let_go(coming.workers, signal.SIGTERM)
            self._coming = None
        elif all(self._board.held["ready"][worker.row] for worker in coming.workers):
            self._let_go(self._current(), signal.SIGUSR1)
            self._work = coming.work
            self._coming = None
            LOG.info("new connections go to workers with the current network")

    def _current(self) -> list[_Worker]:
        """Return the workers that get new connections."""
        others = [] if self._coming is None else self._coming.workers
        return [worker for worker in self._workers if not worker.drains and worker not in others]

    def _let_go(self, workers: list[_Worker], number: signal.Signals) -> None:
        self._send([worker for worker in workers if worker in self._workers], number)
        for worker in workers:
            worker.drains = True

    def _replace_dead(self, ended: list[_Worker]) -> None:
        """Start a worker for each that has died, with growing delays.

        Raises:
            AsdfError: they die before any is ready.
        """
        now = time.monotonic()
        if self._board.held["ready"].any():
            self._failures = 0
        for worker in ended:
            if worker.drains:
                continue
            lived = now - worker.started_s > _LIVED_S
            self._delay_s = _FIRST_DELAY_S if lived else min(2 * self._delay_s, _MAX_DELAY_S)
            self._start_at_s = now + (0.0 if lived else self._delay_s)
            self._failures += 1
        if self._failures >= _MAX_FAILURES * self._count:
            raise AsdfError("the workers of the service exit before they are ready: see the log.")
        missing = self._count - len(self._current())
        if missing > 0 and now >= self._start_at_s:
            started = self._start(missing, self._work)
            numbers = ", ".join(str(worker.pid) for worker in started)
            LOG.info("started to replace workers that ended: %s", numbers)

    def _begin_generation(self) -> None:
        """Read the network again, and start workers with it.

        If it cannot be read, the previous ones stay, and the reason is logged.
        """
        # Each missing worker has its own row too.
        if len(self._free) + len(self._current()) < 2 * self._count:
            LOG.error("the network is not reloaded: workers of two networks are still finishing")
            return
        try:
            work = self._open_work()
        except AsdfError as error:
            LOG.error("the network was not reloaded; the previous one stays in use: %s", error)
            return
        # The new network as well.
        gc.freeze()
        started = self._start(self._count, work)
        self._coming = _Coming(work, started, time.monotonic() + _START_S)

    def _stop(self) -> None:
        """End the workers, by force if they exceed their time."""
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

"""Reports of a hanging run: the process that is behind, its host, and the part of its work.

A thread of each process watches how long its main thread has been in one part. The first thread to
find this too long asks the others through the run's store; their threads reply with their current
part and stacks, and the asking one logs the replies. Nothing is sent while a run makes progress,
and nothing is stopped, since a process may merely be slow. `computing.timeout_s` ends a run that
does not continue.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from asdf.distributed.whereabouts import HERE, Position, Whereabouts
from asdf.runs.log import LOG
from asdf.text import and_more

THREAD = "watch for hangs"
_LOOKS_PER_REPORT = 12
_LONGEST_LOOK_S = 5.0
_ASKED = "hang/asked"
_SHOWN_RANKS = 8
_SHOWN_STACKS = 2
_SHOWN_FRAMES = 10
# CPU use below which a process is idle: computing takes most of a core, waiting almost none.
_IDLE = 0.05
# On Linux: a folder for each thread.
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True)
class Place:
    """The reply of a process.

    Attributes:
        step: Current optimiser step; 0 before the first.
        doing: Name of the part of the work; '' between parts.
        seconds: Time since the last change, in seconds.
        busy: Number of cores used by the program's own threads.
        stack: Innermost calls of the main thread, as 'file:line function', the innermost last.
    """

    rank: int
    host: str
    step: int
    doing: str
    seconds: float
    position: Position
    busy: float = 0.0
    stack: list[str] = field(default_factory=list)

    def describe(self) -> str:
        """Return 'rank 2 (host node7): waiting for data of step 512 for 121 s, idle'."""
        what = self.doing or "between two parts of its work"
        if self.step:
            what += f", step {self.step}"
        work = "idle" if self.busy < _IDLE else f"{100 * self.busy:.0f} % of a core in use"
        return f"rank {self.rank} (host {self.host}): {what}, for {self.seconds:.0f} s, {work}"


@contextmanager
def hangs_reported(
    store: Any, rank: int, size: int, report_s: float | None, timeout_s: float
) -> Iterator[None]:
    """Report in the block if the run hangs; all processes enter it.

    Args:
        store: Store that all processes reach, with keys of this group alone.
        report_s: Time in one part of the work before asking, in seconds; None for never.
        timeout_s: Time after which the run ends, in seconds, for the message.
    """
    if report_s is None:
        yield
        return
    over = threading.Event()
    # A separate connection if possible, since a main thread waiting in the store blocks its own.
    if hasattr(store, "clone"):
        store = store.clone()
    watch = HangWatch(store, rank, size, report_s, timeout_s)
    thread = threading.Thread(target=watch.run, args=(over,), name=THREAD, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        # Before the store is closed; a pending request takes only a moment.
        thread.join(timeout=_LONGEST_LOOK_S)


class HangWatch:
    """The watch of a process; `run` is executed by its thread.

    Args: as in `hangs_reported`.
        here: Whereabouts of the process.
    """

    def __init__(
        self,
        store: Any,
        rank: int,
        size: int,
        report_s: float,
        timeout_s: float,
        here: Whereabouts = HERE,
    ) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._report_s = report_s
        self._timeout_s = timeout_s
        self._here = here
        self._answered = 0
        self._moved_s = here.since_s
        self._limit_s = report_s
        self._busy = 0.0

    def run(self, over: threading.Event) -> None:
        """Watch until `over` is set."""
        look_s = min(_LONGEST_LOOK_S, self._report_s / _LOOKS_PER_REPORT)
        used_s = used_by_others_s()
        # The main rank asks first, since its log is that of the run.
        turn_s = 2 * look_s if self._rank else 0.0
        while not over.wait(look_s):
            now_s = used_by_others_s()
            # Threads that have ended take their CPU time with them.
            self._busy = max(0.0, now_s - used_s) / look_s
            used_s = now_s
            since_s = self._here.since_s
            if since_s != self._moved_s:
                self._moved_s = since_s
                self._limit_s = self._report_s
            try:
                asked = self._store.get(_ASKED).decode() if self._store.check([_ASKED]) else ""
                number = int(asked.partition(" ")[0] or 0)
                if number > self._answered:
                    self._answer(number)
                elif time.monotonic() - since_s >= self._limit_s + turn_s:
                    self._ask(asked, number + 1, over, look_s)
            except RuntimeError:  # the process with the store has gone, and the run ends
                return

    def _ask(self, before: str, number: int, over: threading.Event, look_s: float) -> None:
        """Ask as the only process, wait for the replies, and log them.

        Args:
            before: Text of the previous question in the store, which this one replaces.
        """
        # In one step: if a process dies after asking, all others reply, and the next one may ask.
        question = f"{number} {self._rank}"
        if self._store.compare_set(_ASKED, before, question).decode() != question:
            return
        self._answer(number)
        # Each of the others checks once in this time, unless it cannot run a thread.
        if over.wait(3 * look_s):
            return
        places: list[Place | None] = []
        for rank in range(self._size):
            key = _answer_key(number, rank)
            answer = json.loads(self._store.get(key)) if self._store.check([key]) else None
            places.append(answer and Place(**{**answer, "position": Position(*answer["position"])}))
            self._store.delete_key(key)
        text = describe_hang(places, self._timeout_s)
        if text:
            LOG.warning("warning: %s", text)

    def _answer(self, number: int) -> None:
        here = self._here
        seconds = time.monotonic() - here.since_s
        stack: list[str] = []
        frame = sys._current_frames().get(threading.main_thread().ident or 0)
        # Without the lines of the files, since their disk may be what hangs.
        for call, line in islice(traceback.walk_stack(frame), _SHOWN_FRAMES):
            stack.insert(0, f"{call.f_code.co_filename}:{line} {call.f_code.co_name}")
        place = Place(
            self._rank,
            socket.gethostname(),
            here.step,
            here.doing,
            seconds,
            here.position,
            self._busy,
            stack,
        )
        self._store.set(_answer_key(number, self._rank), json.dumps(asdict(place)))
        self._answered = number
        # A run that hangs longer is reported again, at growing intervals.
        self._limit_s = 2 * max(self._limit_s, seconds)


def used_by_others_s() -> float:
    """Return the CPU time of all Python threads except this one.

    Threads of libraries are excluded if the system counts threads separately, since those of NCCL
    use a core while waiting.
    """
    if not _TASKS.is_dir():
        return time.process_time()
    ticks = 0
    for thread in threading.enumerate():
        # A thread that has just ended has no file.
        with suppress(FileNotFoundError, ProcessLookupError):
            if thread is not threading.current_thread():
                text = (_TASKS / str(thread.native_id) / "stat").read_text()
                # After the name, which may contain anything: fields 14 and 15.
                numbers = text.rpartition(")")[2].split()
                ticks += int(numbers[11]) + int(numbers[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def describe_hang(places: Sequence[Place | None], timeout_s: float) -> str:
    """Return the log message for a hanging run; '' if all processes compute alike.

    Args:
        places: Replies by rank; None for a process without reply.
        timeout_s: Time after which a waiting process ends the run, in seconds.
    """
    known = [place for place in places if place is not None]
    silent = [rank for rank, place in enumerate(places) if place is None]
    furthest = max(place.position for place in known)
    behind = [place for place in known if place.position < furthest]
    waiting = [place for place in known if place.position == furthest]
    lines = []
    if silent:
        lines.append(f"no answer from {_ranks(silent)}: killed, stopped, or cut off")
    for place in behind[:_SHOWN_RANKS]:
        lines.append(f"behind: {place.describe()}")
    if len(behind) > _SHOWN_RANKS:
        lines.append(f"behind as well: {_ranks([place.rank for place in behind[_SHOWN_RANKS:]])}")
    if not lines:
        if all(place.busy >= _IDLE for place in known):
            return ""  # such as a step that takes minutes, or recordings that are measured
        lines.append("all processes are in the same part: the network, a GPU or a disk may hang")
        behind = waiting
    longest = max(waiting, key=lambda place: place.seconds)
    if behind is not waiting:
        others = _ranks([place.rank for place in waiting])
        lines.append(f"waiting for it: {others}, the longest {longest.describe()}")
    for place in behind[:_SHOWN_STACKS]:
        lines.append(f"rank {place.rank} is at")
        lines += [f"  {frame}" for frame in place.stack]
    lines.append(
        "the run is not stopped: it continues if they catch up, and ends after computing.timeout_s "
        f"= {timeout_s:g}"
    )
    stands_s = max(place.seconds for place in known)
    return "\n  ".join([f"the run has made no progress for {stands_s:.0f} s", *lines])


def _ranks(numbers: Sequence[int]) -> str:
    names = and_more([str(number) for number in numbers], _SHOWN_RANKS)
    return f"rank{'s' * (len(numbers) > 1)} {names}"


def _answer_key(number: int, rank: int) -> str:
    return f"hang/{number}/{rank}"

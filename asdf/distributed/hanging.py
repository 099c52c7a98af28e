"""A report when a run stands still: which process is behind, on which host, in which part of it.

A thread of each process watches how long its main thread has been in one part. The first that finds
it too long asks the others through the store of the run; their threads answer with what they do and
with their stacks, and the one that asked logs it. Nothing is sent while a run moves, and nothing is
stopped: a process may merely be slow. `computing.timeout_s` ends a run that does not go on.
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
# A process that computes uses most of a core; one that waits for a disk or a lock next to none.
_IDLE = 0.05
# Of Linux: a folder for each thread.
_TASKS = Path("/proc/self/task")


@dataclass(frozen=True)
class Place:
    """What a process answers.

    Attributes:
        step: Optimiser step that is being taken; 0 before the first.
        doing: Name of the part of the work; '' between parts.
        seconds: Seconds since it last changed.
        busy: Cores that the threads of the program itself use, as a number of them.
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
    """Report in the block if the run stands still; all processes open it.

    Args:
        store: Store that all processes reach, with keys of this group alone.
        report_s: Seconds in one part of the work after which is asked; None: never.
        timeout_s: Seconds after which the run ends, for the message.
    """
    if report_s is None:
        yield
        return
    over = threading.Event()
    # A connection of its own, where torch can: a main thread that waits in the store holds its one.
    if hasattr(store, "clone"):
        store = store.clone()
    watch = HangWatch(store, rank, size, report_s, timeout_s)
    thread = threading.Thread(target=watch.run, args=(over,), name=THREAD, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        # Before the store goes; a request that is under way is over in a moment.
        thread.join(timeout=_LONGEST_LOOK_S)


class HangWatch:
    """The watch of a process; `run` is what its thread does.

    Args: as of `hangs_reported`.
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
        # The main rank asks first: its log is the run's.
        turn_s = 2 * look_s if self._rank else 0.0
        while not over.wait(look_s):
            now_s = used_by_others_s()
            # Threads that have ended take their time with them.
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
        """Ask as the only process, wait for the answers, and log them.

        Args:
            before: Text of the last question in the store, for which this one comes.
        """
        # In one step: a process that dies after it asked leaves a question, which all answer, and
        # the next one may ask.
        question = f"{number} {self._rank}"
        if self._store.compare_set(_ASKED, before, question).decode() != question:
            return
        self._answer(number)
        # Each of the others looks once in this time, unless it cannot run a thread.
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
        # Without the lines of the files: the disk that has them may be what hangs.
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
        # A run that stands still longer is reported again, ever less often.
        self._limit_s = 2 * max(self._limit_s, seconds)


def used_by_others_s() -> float:
    """Return the CPU time of all threads of Python but this one.

    Threads of libraries are left out where the system counts each thread: those of NCCL use a core
    while they wait.
    """
    if not _TASKS.is_dir():
        return time.process_time()
    ticks = 0
    for thread in threading.enumerate():
        # One that has just ended has no file any more.
        with suppress(FileNotFoundError, ProcessLookupError):
            if thread is not threading.current_thread():
                text = (_TASKS / str(thread.native_id) / "stat").read_text()
                # Behind the name, which may hold anything: the 14th and the 15th number of all.
                numbers = text.rpartition(")")[2].split()
                ticks += int(numbers[11]) + int(numbers[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def describe_hang(places: Sequence[Place | None], timeout_s: float) -> str:
    """Return what the log says of a run that stands still; '' where all processes compute alike.

    Args:
        places: Answers by rank; None of a process that gave none.
        timeout_s: Seconds after which a process that waits ends the run.
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
        "nothing is stopped: it goes on if it comes, and ends after computing.timeout_s = "
        f"{timeout_s:g}"
    )
    stands_s = max(place.seconds for place in known)
    return "\n  ".join([f"the run has stood still for {stands_s:.0f} s", *lines])


def _ranks(numbers: Sequence[int]) -> str:
    names = and_more([str(number) for number in numbers], _SHOWN_RANKS)
    return f"rank{'s' * (len(numbers) > 1)} {names}"


def _answer_key(number: int, rank: int) -> str:
    return f"hang/{number}/{rank}"

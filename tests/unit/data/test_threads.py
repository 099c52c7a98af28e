"""Threads that nobody waits for: results in order, and an end whatever they are at."""

import os
import subprocess
import sys
import threading

import pytest

from asdf.data.threads import threads
from asdf.distributed.stopping import StopRequest
from asdf.errors import AsdfError
from tests.conftest import PATIENCE_S


def test_results_come_in_order_whoever_is_first():
    gates = [threading.Event() for _ in range(3)]

    def work(item: int) -> int:
        if item < 2:
            gates[item + 1].wait()  # for the one after it
        gates[item % 3].set()
        return item * item

    with threads(3) as pool:
        assert list(pool.map(work, range(3))) == [0, 1, 4]
        assert list(pool.map(abs, range(1000))) == list(range(1000))
        assert list(pool.map(abs, [])) == []
        assert pool.submit(divmod, 7, 2).result() == (3, 1)


def test_an_error_is_raised_where_its_result_is_requested():
    def work(item: int) -> int:
        if item == 2:
            raise AsdfError("two")
        return item

    with threads(2) as pool:
        results = pool.map(work, range(4))
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(AsdfError, match="two"):
            next(results)


def test_a_thread_outlives_what_is_cancelled():
    began, gate, called = threading.Event(), threading.Event(), []

    def hold() -> int:
        began.set()
        gate.wait()
        return 1

    with threads(1) as pool:
        running, waiting = pool.submit(hold), pool.submit(called.append, "cancelled")
        began.wait()
        # What runs is not given up, and what waits is never begun.
        assert (running.cancel(), waiting.cancel()) == (False, True)
        gate.set()
        assert pool.submit(abs, -2).result(PATIENCE_S) == 2
        assert (running.result(), called) == (1, [])


def test_items_are_requested_as_they_are_worked_on():
    requested = []
    with threads(1) as pool:
        next(pool.map(abs, (requested.append(item) or item for item in range(10**6))))
    assert len(requested) < 10


def test_a_stop_ends_it_while_a_thread_hangs():
    stop, gate, results = StopRequest(), threading.Event(), []

    def work(item: int) -> int:
        if item == 3:
            stop.reason = "a test"
            gate.wait()
        return item

    with threads(1) as pool:
        results += pool.map(work, range(10), stop)
    gate.set()
    assert results in ([], [0], [0, 1], [0, 1, 2])  # it does not ask for more than were there


HANGS = """
import os, sys
from asdf.data.threads import threads
with threads(2) as pool:
    pool.submit(os.open, sys.argv[1], os.O_RDONLY)
    print(pool.submit(abs, -1).result(), flush=True)
"""


def test_the_process_ends_while_a_thread_hangs(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    command = [sys.executable, "-c", HANGS, str(tmp_path / "pipe")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")

"""The report of a run that stands still: who is behind, and when nothing is said."""

import logging
import threading
import time
from pathlib import Path

import pytest
from torch.distributed import HashStore

from asdf.distributed.hanging import (
    THREAD,
    HangWatch,
    Place,
    describe_hang,
    hangs_reported,
    used_by_others_s,
)
from asdf.distributed.whereabouts import HERE, Position, Whereabouts
from asdf.distributed.world import World
from asdf.training.instruments.clock import DATA, StepClock
from tests.conftest import PATIENCE_S


def place(rank: int, doing: str, position: tuple[int, int], busy: float = 0.0) -> Place:
    stack = [f"file{rank}.py:1 work"]
    return Place(rank, f"node{rank}", 7, doing, 120.0 + rank, Position(*position), busy, stack)


def test_a_process_notes_parts_and_exchanges_in_their_order():
    here = Whereabouts()
    seen = []
    with here.part("forward"):
        seen.append((here.doing, here.position))
        with here.exchange("adding up"):
            seen.append((here.doing, here.position))
        seen.append((here.doing, here.position))
    with here.part("backward"):
        seen.append((here.doing, here.position))
    assert seen == [
        ("forward", (0, 1)),
        ("adding up", (1, 0)),
        ("forward", (1, 0)),
        ("backward", (1, 1)),
    ]
    assert here.doing == ""


def test_the_parts_of_a_step_and_the_exchanges_of_a_world_are_noted():
    clock = StepClock(World().device)
    with clock.part(DATA):
        assert HERE.doing == "waiting for data"
    found = []
    World().run_on_main(lambda: found.append(HERE.doing))
    assert found == ["work of the main process alone"]


def test_the_one_that_is_behind_is_named_first_with_its_stack():
    places = [place(0, "adding up", (5, 0)), place(1, DATA, (4, 3), 0.5), None]
    text = describe_hang(places, 1800)
    assert text.splitlines() == [
        "the run has made no progress for 121 s",
        "  no answer from rank 2: killed, stopped, or cut off",
        "  behind: rank 1 (host node1): waiting for data, step 7, for 121 s, 50 % of a core in use",
        "  waiting for it: rank 0, the longest rank 0 (host node0): adding up, step 7, for 120 s, "
        "idle",
        "  rank 1 is at",
        "    file1.py:1 work",
        "  the run is not stopped: it continues if they catch up, and ends after "
        "computing.timeout_s = 1800",
    ]


def test_processes_that_compute_alike_are_no_hang_and_idle_ones_are():
    busy = [place(rank, "forward", (4, 2), 0.9) for rank in range(2)]
    assert describe_hang(busy, 60) == ""
    idle = [place(rank, "forward", (4, 2)) for rank in range(2)]
    text = describe_hang(idle, 60)
    assert "all processes are in the same part" in text and "rank 1 is at" in text


def test_of_many_that_are_behind_some_are_shown():
    behind = [place(rank, DATA, (4, 1)) for rank in range(1, 12)]
    lines = describe_hang([place(0, "adding up", (5, 0)), *behind], 60).splitlines()
    assert sum("behind: rank" in line for line in lines) == 8
    assert "  behind as well: ranks 9, 10, 11" in lines
    assert sum(" is at" in line for line in lines) == 2


def watched(report_s: float) -> tuple[list[Whereabouts], threading.Event]:
    """Start the watches of three processes, which are threads of this one."""
    store, over = HashStore(), threading.Event()
    heres = [Whereabouts() for _ in range(3)]
    for rank, here in enumerate(heres):
        watch = HangWatch(store, rank, 3, report_s, 1800.0, here)
        threading.Thread(target=watch.run, args=(over,), daemon=True).start()
    return heres, over


def test_one_report_comes_from_whoever_asks_first(caplog):
    caplog.set_level(logging.WARNING, "asdf")
    heres, over = watched(0.3)
    with (
        heres[0].exchange("adding up"),
        heres[1].part(DATA),
        heres[2].exchange("adding up"),
    ):
        until = time.monotonic() + PATIENCE_S
        while not caplog.records and time.monotonic() < until:
            time.sleep(0.01)
        over.set()
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith("warning: the run has made no progress for 0 s")
    assert "behind: rank 1 (host" in message and ": waiting for data, for 0 s" in message
    assert "waiting for it: ranks 0, 2" in message
    # The stack is that of this thread, which waits here.
    assert "test_hanging.py:" in message


def test_a_process_that_dies_after_it_asked_does_not_end_later_reports(caplog):
    caplog.set_level(logging.WARNING, "asdf")
    store, over = HashStore(), threading.Event()
    # Of a process that is gone, and waits for no answer.
    store.set("hang/asked", "1 2")
    heres = [Whereabouts() for _ in range(2)]
    with heres[0].exchange("adding up"), heres[1].part(DATA):
        for rank, here in enumerate(heres):
            watch = HangWatch(store, rank, 3, 0.3, 1800.0, here)
            threading.Thread(target=watch.run, args=(over,), daemon=True).start()
        until = time.monotonic() + PATIENCE_S
        while not caplog.records and time.monotonic() < until:
            time.sleep(0.01)
        over.set()
    (message,) = [record.getMessage() for record in caplog.records]
    assert "no answer from rank 2" in message and "behind: rank 1" in message
    assert store.get("hang/asked") in (b"2 0", b"2 1")


def test_only_one_of_those_that_ask_at_once_reports():
    store, over = HashStore(), threading.Event()
    over.set()
    first, second = (HangWatch(store, rank, 2, 0.3, 1800.0, Whereabouts()) for rank in range(2))
    for before, number in (("", 1), ("1 0", 2)):
        first._ask(before, number, over, 0.0)
        second._ask(before, number, over, 0.0)
        assert store.get("hang/asked") == b"%d 0" % number
        assert (first._answered, second._answered) == (number, 0)


def burn() -> None:
    until_s = time.thread_time() + 0.3
    while time.thread_time() < until_s:
        pass


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are not counted here")
def test_a_watch_counts_the_programs_threads_and_not_its_own():
    before_s, own_s = used_by_others_s(), time.process_time()
    burn()
    assert used_by_others_s() - before_s < 0.2 < time.process_time() - own_s
    busy = threading.Thread(target=lambda: (burn(), ended.wait(PATIENCE_S)))
    ended = threading.Event()
    busy.start()
    until = time.monotonic() + PATIENCE_S
    while used_by_others_s() - before_s < 0.25 and time.monotonic() < until:
        time.sleep(0.01)
    assert used_by_others_s() - before_s >= 0.25
    ended.set()
    busy.join()


def test_a_run_that_moves_is_not_reported(caplog):
    caplog.set_level(logging.WARNING, "asdf")
    heres, over = watched(0.4)
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        for here in heres:
            with here.part("forward"):
                time.sleep(0.01)
    over.set()
    assert not caplog.records


@pytest.mark.parametrize(("report_s", "watches"), [(None, False), (60.0, True)])
def test_the_thread_ends_with_the_block(report_s, watches):
    with hangs_reported(HashStore(), 0, 2, report_s, 1800.0):
        assert any(thread.name == THREAD for thread in threading.enumerate()) is watches
    assert all(thread.name != THREAD for thread in threading.enumerate())

"""A pool computes tasks in order, and its processes end with their parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asdf.runs.pool import worker_pool


def scale(task, shared):
    if task == -1:
        raise ValueError("minus one")
    return shared * task, os.getpid()


def report_and_sleep(task, shared):
    Path(shared, str(os.getpid())).touch()
    time.sleep(1000)


@pytest.mark.slow_but("0")
@pytest.mark.parametrize("workers", [0, 2])
def test_results_come_in_order(workers) -> None:
    with worker_pool(workers, 10) as compute:
        results, processes = zip(*compute(scale, range(150)), strict=True)
        assert results == tuple(range(0, 1500, 10))
        assert (os.getpid() in processes) == (not workers)
        with pytest.raises(ValueError, match="minus one"):
            list(compute(scale, [1, -1, 2]))


@pytest.mark.slow
def test_processes_end_with_a_parent_that_is_killed(tmp_path) -> None:
    code = (
        "from tests.unit.runs.test_pool import *\n"
        "if __name__ == '__main__':\n"
        f"    with worker_pool(2, {str(tmp_path)!r}) as compute:\n"
        "        list(compute(report_and_sleep, range(9)))\n"
    )
    root = Path(__file__).resolve().parents[3]
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=root)
    try:
        _wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
        children = [int(path.name) for path in tmp_path.iterdir()]
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        _wait_until(lambda: not any(map(_is_running, children)))
    finally:
        parent.kill()


def _wait_until(is_so) -> None:
    for _ in range(2400):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it took longer than four minutes")


def _is_running(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    # What is dead and not yet collected by anyone is not running.
    return status.rsplit(")", 1)[1].split()[0] != "Z"

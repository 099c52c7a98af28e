"""Processes that compute tasks in order, on one thread each, and end with their parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from asdf.extras.robustness.worker_processes import worker_processes


def scale(task, shared):
    return shared * task, torch.get_num_threads()


def fail(task, shared):
    if task == 3:
        raise ValueError("three")
    return task


def report_and_sleep(task, shared):
    Path(shared, str(os.getpid())).touch()
    time.sleep(60)


def test_without_processes_tasks_are_computed_here_on_one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with worker_processes(0, 10) as compute:
            assert list(compute(scale, [1, 2, 3])) == [(10, 1), (20, 1), (30, 1)]
            assert torch.get_num_threads() == 2
            with pytest.raises(ValueError, match="three"):
                list(compute(fail, [1, 2, 3, 4]))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


@pytest.mark.slow
def test_results_of_processes_come_in_order():
    with worker_processes(2, 10, chunk=1) as compute:
        assert list(compute(scale, range(70))) == [(10 * k, 1) for k in range(70)]
        with pytest.raises(ValueError, match="three"):
            list(compute(fail, [1, 2, 3, 4]))


@pytest.mark.slow
def test_processes_end_with_a_parent_that_is_killed(tmp_path):
    code = (
        "from tests.extras.robustness.test_worker_processes import *\n"
        "if __name__ == '__main__':\n"
        f"    with worker_processes(2, {str(tmp_path)!r}, chunk=1) as compute:\n"
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


def _wait_until(is_so):
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError("it took longer than a minute")


def _is_running(process):
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    # What is dead and not yet collected by anyone is not running.
    return status.rsplit(")", 1)[1].split()[0] != "Z"

"""The acceptance run continues: checks that raise, crash, hang or are stopped, in processes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.gpu.groups import GROUPS, PATIENCE, Group, Setup
from benchmarks.gpu.running import GroupRun
from benchmarks.gpu.verdict import FAIL, NOT_RUN, PASS
from benchmarks.harness import error_line
from tests.conftest import ROOT

HERE = "tests.unit.benchmarks"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """The processes of the groups import this package."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def run_group(tmp_path: Path, name: str, budget_s: float, patience: float = 1) -> list:
    group = Group(name, "", budget_s, HERE)
    with (tmp_path / "log.txt").open("wb") as log:
        return list(GroupRun(group, Setup(True, str(tmp_path), patience), log).lines())


@pytest.mark.slow
def test_every_check_has_its_lines_whatever_the_others_do(tmp_path):
    lines = run_group(tmp_path, "broken_checks", 60)
    outcomes = [(line.what, line.verdict) for line in lines]
    sound = [("one", PASS), ("three", FAIL)]
    process = ("process", PASS)
    broken = [("breaks the device", FAIL), process, ("crashes", FAIL), process]
    expected = [("before", PASS), ("raises", FAIL), process, *broken, ("gives nothing", FAIL)]
    assert outcomes == [*sound, *expected, *sound]
    reasons = {line.what: line.reason for line in lines}
    assert reasons["raises"] == "ValueError: no such thing"
    assert reasons["breaks the device"].startswith("RuntimeError: CUDA error: an illegal")
    assert reasons["crashes"] == "its process ended with status -11; see the log"
    # A process whose device is broken, or that crashed, computes nothing any more.
    assert len({line.value for line in lines if line.what == "process"}) == 3
    assert b"not a message" in (tmp_path / "log.txt").read_bytes()


@pytest.mark.slow
def test_a_check_that_hangs_is_ended_and_the_group_with_it(tmp_path):
    # The process needs a moment to start, and the group is ended after twice its time.
    lines = run_group(tmp_path, "hanging_checks", 15)
    outcomes = [(line.what, line.verdict) for line in lines[2:]]
    assert outcomes == [("hangs", FAIL), ("after", NOT_RUN)]
    assert "it hangs" in lines[2].reason and f"{PATIENCE * 15:g} s" in lines[2].reason


@pytest.mark.slow
def test_a_group_that_has_spent_its_time_begins_no_further_check(tmp_path):
    # Patience: a busy machine may take seconds to start the process, which is not a hang.
    lines = run_group(tmp_path, "spending_checks", 4, patience=20)
    assert [(line.what, line.verdict) for line in lines] == [("slow", PASS), ("late", NOT_RUN)]
    assert lines[1].reason == "the 4 s of the group were spent"


STOPPED = """
import sys
from pathlib import Path
from benchmarks.gpu import command
from benchmarks.gpu.groups import Group, Setup
groups = [Group("hanging_checks", "", 300, "tests.unit.benchmarks")]
with open(sys.argv[1] + "/log.txt", "wb") as log:
    run = command._Run(groups, Setup(True, sys.argv[1], 1), Path(sys.argv[1]) / "report.json", log)
    sys.exit(run.all())
"""


@pytest.mark.slow
def test_ctrl_c_retains_the_results_and_ends_what_runs(tmp_path):
    command = [sys.executable, "-c", STOPPED, str(tmp_path)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, cwd=ROOT, **streams, text=True)
    begun = time.monotonic()
    while not (tmp_path / "hangs").exists() and time.monotonic() - begun < 120:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output.startswith("1 PASS, 1 FAIL, 2 NOT RUN. Send this file")
    report = json.loads((tmp_path / "report.json").read_text())
    (group,) = report["groups"]
    assert report["state"] == "stopped"
    assert [line["verdict"] for line in group["lines"]] == [PASS, FAIL, NOT_RUN, NOT_RUN]
    assert group["lines"][3]["reason"] == "stopped by the user"
    assert not processes_with(str(tmp_path))


def processes_with(word: str) -> list[str]:
    """Command lines of other processes that have this word."""
    outcomes = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if word in words and path.parent.name != str(os.getpid()):
            outcomes.append(words)
    return outcomes


def test_the_error_of_a_process_is_said_and_not_torchruns():
    output = """[rank0]: Traceback (most recent call last):
[rank0]: RuntimeError: numel: integer multiplication overflow
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
  error_file: <N/A>
============================================================"""
    assert error_line(output) == "[rank0]: RuntimeError: numel: integer multiplication overflow"
    assert error_line("no file\n====\n") == "no file"
    assert error_line("") == "nothing was printed"


@pytest.mark.slow
def test_without_a_gpu_it_says_so_and_what_it_would_check():
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "benchmarks", "gpu"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert "needs an NVIDIA GPU" in done.stderr and "--list" in done.stderr
    listed = subprocess.run([*command, "--list"], cwd=ROOT, capture_output=True, text=True)
    assert listed.returncode == 0
    names = [line.split()[0] for line in listed.stdout.splitlines()[:-1]]
    assert names == [group.name for group in GROUPS]


def test_the_time_budgets_are_twenty_minutes():
    assert sum(group.budget_s for group in GROUPS) <= 20 * 60

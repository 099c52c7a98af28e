"""The queue with real processes of a stub recipe: who gets which GPU, and what becomes of the processes."""

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

from asdf.distributed.stopping import StopRequest
from asdf.launcher import processes
from asdf.launcher.processes import start
from asdf.launcher.queue import run_queue
from asdf.launcher.slots import Slots
from asdf.launcher.states import Job
from asdf.launcher.table import Table
from tests.conftest import PATIENCE_S

STUB = '''
"""Ends with status 3 if a GPU is in use already, with 4 if the config that is to run beside it does not come."""
import os
import sys
import time
from pathlib import Path

place = Path(__file__).parent
config, *overrides = sys.argv[1:]
gpus = os.environ["CUDA_VISIBLE_DEVICES"]
(place / f"{config}.args").write_text(gpus + " " + " ".join(overrides))
marks = [place / f"gpu{gpu}" for gpu in gpus.split(",")]
for mark in marks:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        sys.exit(3)
beside = {"a": "b", "b": "a"}.get(config)
until = time.monotonic() + 240
while beside and not (place / f"{beside}.args").exists():
    if time.monotonic() > until:
        sys.exit(4)
    time.sleep(0.01)
time.sleep(0.1)
for mark in marks:
    mark.unlink()
'''

# A run with a process in a session of its own, as torchrun has them; both would stay for a quarter of an hour.
TREE = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(1000)
"""


def job(folder: Path, config: str, slots_needed: int = 1) -> Job:
    return Job(config, ["network.max_epochs=1"], folder / config, "", slots_needed)


def alive(process: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def wait_for(condition) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_every_gpu_has_one_run_at_a_time(tmp_path):
    recipe = tmp_path / "run.py"
    recipe.write_text(STUB)
    # The third needs both GPUs; those behind it may pass while one is busy.
    jobs = [job(tmp_path, config) for config in ("a", "b", "wide", "c", "d")]
    jobs[2].slots_needed = 2
    run_queue(jobs, Slots(["4", "7"], are_gpus=True), recipe, Table(io.StringIO()), StopRequest())
    assert [(one.config, one.state, one.detail) for one in jobs] == [
        (c, "done", "") for c in ("a", "b", "wide", "c", "d")
    ]
    given = {one.config: (tmp_path / f"{one.config}.args").read_text() for one in jobs}
    assert given["a"] == "4 network.max_epochs=1" and given["b"] == "7 network.max_epochs=1"
    assert given["wide"] == "4,7 network.max_epochs=1"


def test_a_job_waits_for_a_run_that_another_launcher_has_left(tmp_path):
    recipe = tmp_path / "run.py"
    recipe.write_text(STUB)
    only, slots = job(tmp_path, "c"), Slots(["0"], are_gpus=True)
    left = start(
        only,
        [sys.executable, "-c", "import sys; sys.stdin.read(); import time; time.sleep(1000)"],
        ("0",),
        "0",
    )
    assert left is not None
    assert start(job(tmp_path, "c"), [sys.executable, str(recipe), "c"], ("0",), "0") is None
    left.kill()
    again = job(tmp_path, "c")
    run_queue([again], slots, recipe, Table(io.StringIO()), StopRequest())
    assert again.state == "done" and (tmp_path / "c.args").exists()


def test_a_run_sees_its_gpus_alone_by_the_variable_of_their_maker(tmp_path, monkeypatch):
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0,1,2,3")
    monkeypatch.setattr(processes, "visibility_variable", lambda: "HIP_VISIBLE_DEVICES")
    code = "import os; print(os.environ['HIP_VISIBLE_DEVICES'], os.environ['CUDA_VISIBLE_DEVICES'])"
    run = start(job(tmp_path, "net"), [sys.executable, "-c", code], ("2", "3"), "2,3")
    assert run is not None
    wait_for(run.has_ended)
    assert run.job.log.read_text().splitlines()[-1] == "2,3 2,3"


def test_killing_a_run_leaves_none_of_its_processes(tmp_path):
    run = start(job(tmp_path, "net"), [sys.executable, "-c", TREE], ("0",), "")
    assert run is not None
    wait_for(lambda: run.job.log.read_text().rstrip().split("\n")[-1].isdigit())
    child = int(run.job.log.read_text().split()[-1])
    assert alive(child)
    run.kill()
    wait_for(lambda: not alive(child))
    assert run.has_ended() and run.job.state == "failed"
    assert run.job.detail == "killed by SIGKILL (out of memory?)"


def test_a_second_interrupt_kills(tmp_path):
    """In a process of its own, which is interrupted twice; the run takes no notice of its stop file."""
    recipe = tmp_path / "run.py"
    recipe.write_text(TREE)
    code = (
        "import sys; from pathlib import Path; from tests.unit.launcher.test_queue import *\n"
        "stop, only = StopRequest(), job(Path(sys.argv[1]), 'net')\n"
        "with stop.listening():\n"
        "    run_queue([only], Slots(['0'], True), Path(sys.argv[1]) / 'run.py', Table(sys.stdout), stop)\n"
    )
    root = Path(__file__).resolve().parents[3]
    launcher = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    log = tmp_path / "net" / "launch.log"
    wait_for(lambda: log.exists() and log.read_text().rstrip().split("\n")[-1].isdigit())
    child = int(log.read_text().split()[-1])
    launcher.send_signal(signal.SIGINT)
    wait_for((tmp_path / "net" / "launch.stop").exists)
    assert alive(child)
    launcher.send_signal(signal.SIGINT)
    output, _ = launcher.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not alive(child))
    assert (
        launcher.returncode != 0 and "signal SIGINT" in output and "net: stopped, killed" in output
    )


def test_a_folder_that_cannot_be_written_fails_that_job_alone(tmp_path):
    recipe = tmp_path / "run.py"
    recipe.write_text(STUB)
    (tmp_path / "file").write_text("")
    bad, good = job(tmp_path / "file", "c"), job(tmp_path, "d")
    run_queue([bad, good], Slots(["0"], are_gpus=True), recipe, Table(io.StringIO()), StopRequest())
    assert (bad.state, good.state) == ("failed", "done")
    assert bad.detail.startswith("could not be started: ") and bad.system.parent.name in bad.detail

"""The queue with real processes of a stub recipe: which GPU each gets, and how processes end."""

import io
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from asdf.distributed.stopping import StopRequest
from asdf.errors import UsageError
from asdf.launcher import processes
from asdf.launcher.processes import Slots, choose_gpus, run_queue, start
from asdf.launcher.states import Job, Table
from tests.conftest import PATIENCE_S

STUB = '''
"""Ends with status 3 if a GPU is in use, with 4 if its partner does not start at the same time."""
import os
import sys
import time
from pathlib import Path

folder = Path(__file__).parent
config, *overrides = sys.argv[1:]
gpus = os.environ["CUDA_VISIBLE_DEVICES"]
(folder / f"{config}.args").write_text(gpus + " " + " ".join(overrides))
marks = [folder / f"gpu{gpu}" for gpu in gpus.split(",")]
for mark in marks:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        sys.exit(3)
partner = {"a": "b", "b": "a"}.get(config)
until = time.monotonic() + 240
while partner and not (folder / f"{partner}.args").exists():
    if time.monotonic() > until:
        sys.exit(4)
    time.sleep(0.01)
time.sleep(0.1)
for mark in marks:
    mark.unlink()
'''

# A run with a process in another session, as torchrun starts them; both would stay for minutes.
TREE = """
import subprocess, sys, time
command = [sys.executable, "-c", "import time; time.sleep(1000)"]
child = subprocess.Popen(command, start_new_session=True)
print(child.pid, flush=True)
time.sleep(1000)
"""


def job(folder: Path, config: str, slots_needed: int = 1) -> Job:
    return Job(config, config, ["network.max_epochs=1"], folder / config, slots_needed=slots_needed)


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
    assert {(job.state, job.detail) for job in jobs} == {("done", "")}
    for config, gpus in (("a", "4"), ("b", "7"), ("wide", "4,7")):
        assert (tmp_path / f"{config}.args").read_text() == f"{gpus} network.max_epochs=1"


def test_a_job_waits_for_a_run_that_another_launcher_has_left(tmp_path):
    recipe = tmp_path / "run.py"
    recipe.write_text(STUB)
    only, slots = job(tmp_path, "c"), Slots(["0"], are_gpus=True)
    code = "import sys; sys.stdin.read(); import time; time.sleep(1000)"
    left = start(only, [sys.executable, "-c", code], ("0",), "0")
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


def test_a_run_that_is_asked_to_end_before_it_listens_has_stopped(tmp_path):
    """As when a job that has just begun is cancelled: nothing is wrong with it."""
    code = "import time; print('starting', flush=True); time.sleep(1000)"
    run = start(job(tmp_path, "net"), [sys.executable, "-c", code], ("0",), "")
    assert run is not None
    wait_for(lambda: run.job.log.read_text().endswith("starting\n"))
    run._process.send_signal(signal.SIGTERM)
    wait_for(run.has_ended)
    assert run.job.state == "stopped"


@pytest.mark.slow
def test_a_second_interrupt_kills(tmp_path):
    """The launcher, a process of its own, is interrupted twice; the run ignores its stop file."""
    recipe = tmp_path / "run.py"
    recipe.write_text(TREE)
    code = (
        "import sys; from pathlib import Path; from tests.unit.launcher.test_queue import *\n"
        "folder, stop, slots = Path(sys.argv[1]), StopRequest(), Slots(['0'], True)\n"
        "with stop.listening():\n"
        "    run_queue([job(folder, 'net')], slots, folder / 'run.py', Table(sys.stdout), stop)\n"
    )
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    command = [sys.executable, "-c", code, str(tmp_path)]
    launcher = subprocess.Popen(command, cwd=Path(__file__).resolve().parents[3], **outputs)
    log = tmp_path / "net" / "launch.log"
    wait_for(lambda: log.exists() and log.read_text().rstrip().split("\n")[-1].isdigit())
    child = int(log.read_text().split()[-1])
    launcher.send_signal(signal.SIGINT)
    wait_for((tmp_path / "net" / "launch.stop").exists)
    assert alive(child)
    launcher.send_signal(signal.SIGINT)
    output, _ = launcher.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not alive(child))
    assert launcher.returncode != 0
    assert "signal SIGINT" in output and "net: stopped, killed" in output


def test_a_folder_that_cannot_be_written_fails_that_job_alone(tmp_path):
    recipe = tmp_path / "run.py"
    recipe.write_text(STUB)
    (tmp_path / "file").write_text("")
    bad, good = job(tmp_path / "file", "c"), job(tmp_path, "d")
    run_queue([bad, good], Slots(["0"], are_gpus=True), recipe, Table(io.StringIO()), StopRequest())
    assert (bad.state, good.state) == ("failed", "done")
    assert bad.detail.startswith("could not be started: ") and bad.system.parent.name in bad.detail


@pytest.mark.parametrize(
    ("requested", "visible", "shown", "names"),
    [
        (None, 2, None, ("0", "1")),
        ("1,0", 2, None, ("1", "0")),
        # A scheduler's choice: numbers count within it, as computing.gpu_ids does.
        ("0,2", 3, "4,GPU-6b2e,7", ("4", "7")),
        (None, 2, "4,GPU-6b2e", ("4", "GPU-6b2e")),
    ],
)
def test_gpus_are_counted_within_what_is_visible(requested, visible, shown, names):
    assert choose_gpus(requested, visible, shown) == names


@pytest.mark.parametrize(
    ("requested", "visible", "shown", "message"),
    [
        ("0,2", 2, None, "GPU 2 does not exist: 2 visible"),
        ("0", 0, "", "--slots N uses the CPU"),
        ("1", 1, "5", "CUDA_VISIBLE_DEVICES is '5'"),
        ("0,00", 2, None, "named twice"),
        ("all", 2, None, "numbers separated by commas"),
        ("0,,1", 2, None, "numbers separated by commas"),
    ],
)
def test_a_wrong_choice_says_what_is_there(requested, visible, shown, message):
    with pytest.raises(UsageError, match=f"--gpus {requested}: .*{message.replace('(', '[(]')}"):
        choose_gpus(requested, visible, shown)


def test_gpus_go_to_one_holder_at_a_time():
    slots = Slots(["4", "5", "7"], are_gpus=True)
    assert slots.needed(2) == 2
    first = slots.take(2)
    assert first == ("4", "5") and slots.take(2) is None
    assert slots.visible_devices(first) == "4,5" and slots.describe(first) == "GPU 4,5"
    assert slots.take(1) == ("7",)
    slots.give_back(("5",))
    assert slots.take(1) == ("5",) and slots.take(1) is None


def test_a_run_on_the_cpu_takes_one_slot_and_sees_no_gpu():
    slots = Slots(["0", "1"], are_gpus=False)
    assert slots.needed(8) == 1
    assert slots.visible_devices(("1",)) == ""

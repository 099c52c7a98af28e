"""A failing process ends the others and says why; a requested stop loses nothing."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from asdf.launcher.processes import explain_failure, kill_tree
from tests.conftest import PATIENCE_S, ROOT
from tests.distributed.test_exactness import weights
from tests.distributed.test_launchers import free_port


@pytest.mark.slow
def test_a_rank_that_raises_ends_all_with_its_traceback_last(recipe):
    outcome = recipe.run("debug", processes=2, TEST_RAISE="1:3")
    assert outcome.status != 0
    last = outcome.output[outcome.output.rindex("Root Cause") :]
    assert (
        "rank      : 1" in last
        and "ValueError: broken on purpose" in last
        and "small_networks.py" in last
    )
    assert not list(recipe.system().rglob("*.part"))


def test_a_message_for_the_user_comes_once_from_the_rank_that_knows(recipe, corpus, tmp_path):
    """A recording that goes away during training: one rank meets it."""
    outcome = recipe.run("debug", processes=2, TEST_RAISE_ASDF="1:3")
    assert outcome.status != 0
    assert outcome.output.count("[rank 1] error: no more disk") == 1
    assert "rank      : 1" in outcome.output[outcome.output.rindex("Root Cause") :]


@pytest.mark.slow
def test_a_rank_that_hangs_ends_all_after_the_timeout(recipe):
    # Long enough for one process to start later than the other on a busy machine.
    options = ("debug", "computing.timeout_s=20")
    outcome = recipe.run(*options, processes=2, TEST_HANG="1:3")
    assert outcome.status != 0
    said = [line for line in outcome.output.splitlines() if "this process waited" in line]
    assert len(said) == 2  # by the process itself, and at the end of what torchrun prints
    assert said[0].startswith(
        "[rank 0] error: this process waited for another one longer than computing.timeout_s. "
        "Was one stopped"
    )
    lines = [line.strip() for line in outcome.output.splitlines() if line.strip()]
    assert explain_failure(1, lines) == f"{said[0]} (exit status 1)"
    # torchrun ends with a traceback of its own; none of its lines is in the recipe's or our code.
    for folder in (recipe.folder, ROOT / "asdf"):
        assert f'File "{folder}/' not in outcome.output
    assert "Traceback" not in (recipe.system() / "log.txt").read_text()


@pytest.mark.slow
def test_torchrun_restarts_go_on_from_the_newest_checkpoint(recipe, tmp_path):
    options = ("normed", "network.checkpoint_interval_steps=2", "recipe.end_stage=2")
    assert recipe.run(*options, "paths.system_folder=whole", processes=2).status == 0
    command = recipe.command(*options, "paths.system_folder=restarted", processes=2)
    command.insert(3, "--max-restarts=2")
    outcome = recipe.run_command(
        command, TEST_KILL_ONCE=str(tmp_path / "killed"), TEST_KILL="1:6"
    ).ok()
    assert "going on from resume.pt" in outcome.output
    first, other = (
        recipe.system(name) / "networks" / "epoch.3.pt" for name in ("whole", "restarted")
    )
    states = [torch.load(path, weights_only=True)["model_state_dict"] for path in (first, other)]
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)


@pytest.mark.slow
def test_training_goes_on_with_one_node_when_the_other_dies(recipe):
    """Two agents of torchrun, of which one is killed with its process; one is enough."""
    # An agent is to be the parent of its process.
    recipe.python = lambda: sys.executable
    port = free_port()
    torchrun = [recipe.python(), "-m", "torch.distributed.run", "--nnodes=1:2"]
    torchrun += ["--nproc_per_node=1", "--max-restarts=3", "--rdzv-id=test"]
    torchrun += ["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"]
    # How long one node waits for more, and after which silence it gives the other up.
    torchrun += ["--rdzv-conf=last_call_timeout=10,keep_alive_interval=1"]
    options = ["normed", "network.global_minibatch_size=4", "network.checkpoint_interval_steps=2"]
    words = [str(recipe.folder / "run.py"), *options, "recipe.end_stage=1"]
    first = recipe.start_command([*torchrun, *words])
    # The agent that comes first has the store of all of them.
    wait_until(lambda: is_listening(port), first)
    second = recipe.start_command([*torchrun, *words], TEST_KILL_NODE="any:5")
    output, _ = first.communicate(timeout=PATIENCE_S)
    other, _ = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == -signal.SIGKILL, output + other
    assert first.returncode == 0, output
    assert "rank 1 of 2" in output and "rank 0 of 1" in output
    assert "going on from resume.pt: epoch 0, step " in output
    assert "trained by 2 processes so far, by 1 from here on" in output
    network = torch.load(recipe.system("normed") / "networks" / "epoch.3.pt", weights_only=True)
    # Steps are as large as before, so there are as many.
    assert "7 steps per epoch" in output
    assert network["progress"]["step"] == 21


def is_listening(port: str) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(port))) == 0


FULL = """
import resource
from asdf.training.callbacks import Callback


class Full(Callback):
    def on_checkpoint(self, path):
        size = path.stat().st_size - 1000
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
"""


@pytest.mark.slow
def test_a_disk_that_is_full_ends_all_ranks_with_one_message_and_the_file_before_stays(recipe):
    (recipe.folder / "filling.py").write_text(FULL)
    outcome = recipe.run(
        "debug",
        "network.callbacks=('filling.Full',)",
        "network.checkpoint_interval_steps=1",
        processes=2,
    )
    path = recipe.system() / "networks" / "resume.pt"
    assert outcome.status != 0
    assert outcome.output.count(f"error: cannot write {path}: File too large") == 1, outcome.output
    assert "another process of this run has ended" not in outcome.output
    assert torch.load(path, weights_only=True)["progress"]["step"] == 1
    assert not list(recipe.system().rglob("*.part"))


KILLED = """
import io
import os
import signal
import sys
import threading
from pathlib import Path

import torch
from asdf.training.callbacks import Callback

SAVE, ONCE, TRAINED_ON = torch.save, Path(os.environ["TEST_KILL_ONCE"]), threading.Event()


def save(content, file):
    if content["progress"]["step"] != 4:
        return SAVE(content, file)
    whole = io.BytesIO()
    SAVE(content, whole)
    file.write(whole.getvalue()[: len(whole.getvalue()) // 2])
    file.flush()
    assert TRAINED_ON.wait(240)
    os.kill(os.getpid(), signal.SIGKILL)


class Killed(Callback):
    def on_start(self, step):
        if not ONCE.exists():
            ONCE.touch()
            torch.save = save

    def on_step(self, record):
        if record["step"] == 5:
            TRAINED_ON.set()
"""


@pytest.mark.slow
def test_a_kill_while_the_thread_writes_leaves_the_file_before_and_loses_no_bit(
    recipe, tmp_path, capsys, monkeypatch
):
    """Step 4 is half written, and step 5 has been taken; resume.pt is of step 2."""
    (recipe.folder / "killing.py").write_text(KILLED)
    once = tmp_path / "killed"
    monkeypatch.setenv("TEST_KILL_ONCE", str(once))
    options = (
        "normed",
        "network.callbacks=('killing.Killed',)",
        "network.checkpoint_interval_steps=2",
        "network.print_interval=1",
        "recipe.end_stage=1",
    )
    killed = recipe.run(*options, "paths.system_folder=killed")
    networks = recipe.system("killed") / "networks"
    assert killed.status == -signal.SIGKILL, killed.output
    assert "step 5: loss" in killed.output
    left = sorted(path.name for path in networks.iterdir())
    assert len(left) == 2 and left[0].endswith(".part") and left[1] == "resume.pt"
    assert (networks / left[0]).stat().st_size > 1000
    again = recipe.call(capsys, *options, "paths.system_folder=killed")
    assert "going on from resume.pt: epoch 0, step 2" in again.output
    assert not list(networks.glob(".*.part"))
    assert recipe.call(capsys, *options, "paths.system_folder=whole").status == 0
    first, other = (
        torch.load(recipe.system(name) / "networks" / "epoch.3.pt", weights_only=True)
        for name in ("killed", "whole")
    )
    for part in ("model_state_dict", "optimizer_state_dict"):
        torch.testing.assert_close(first[part], other[part], rtol=0, atol=0)


@pytest.mark.slow_but("1-SIGTERM", "1-SIGUSR2")
@pytest.mark.parametrize(
    ("processes", "how"),
    # Other signals do what SIGTERM does; that each is a request has a test of its own.
    [(1, "SIGTERM"), (1, "SIGUSR2"), (2, "file")],
)
def test_a_stop_saves_and_ends_cleanly(recipe, tmp_path, processes, how):
    stop_file = tmp_path / "stop"
    process = recipe.start(
        "debug", "network.max_epochs=100000", processes=processes, ASDF_STOP_FILE=str(stop_file)
    )
    wait_for(recipe.system() / "networks" / "epoch.2.pt", process)
    if how == "file":
        stop_file.touch()
    else:
        os.kill(process.pid, getattr(signal, how))
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert "the same command resumes from there" in output
    checkpoints = {
        torch.load(path, weights_only=True)["progress"]["step"] for path in networks(recipe)
    }
    if "after step" in output:
        stopped_at = int(output[output.rindex("after step ") :].split()[2].rstrip(";"))
        assert stopped_at == max(checkpoints)
    assert not (recipe.system() / "owner.lock").exists()


HELD = """
import multiprocessing
import os
import time
from pathlib import Path

from asdf.training.callbacks import Callback


def name(process):
    part = Path(os.environ["TEST_HELD"] + ".part")
    part.write_text(str(process))
    part.rename(os.environ["TEST_HELD"])


class Held(Callback):
    def on_step(self, record):
        if record["step"] == 2:
            name(os.getpid())
            # The launcher, where it is ours, turns the signal into its stop file.
            for awaited in (os.environ["TEST_SENT"], os.environ.get("ASDF_STOP_FILE", ".")):
                while not Path(awaited).exists():
                    time.sleep(0.02)
            time.sleep(1.1)  # the stop file is looked for once a second


class Named(Callback):
    def on_step(self, record):
        if record["step"] == 2:
            name(multiprocessing.active_children()[0].pid)
"""


@pytest.mark.slow_but("group-1-SIGTERM")
@pytest.mark.parametrize(
    ("whom", "processes", "name"),
    [
        # As `timeout` and a shell do.
        ("group", 1, "SIGTERM"),
        # As scancel and systemd do: every process, the loaders' too.
        ("tree", 1, "SIGTERM"),
        ("tree", 2, "SIGTERM"),
        ("tree", 2, "SIGINT"),
        ("group", 2, "SIGUSR1"),
        # It passes the signal on to the groups of its processes.
        ("torchrun", 2, "SIGTERM"),
        ("torchrun", 2, "SIGINT"),
    ],
)
def test_a_signal_to_all_processes_saves_inside_the_epoch(recipe, tmp_path, whom, processes, name):
    (recipe.folder / "holding.py").write_text(HELD)
    if processes > 1:  # started by the launcher, in its group
        recipe.python = lambda: sys.executable
    words = ["debug", "network.callbacks=('holding.Held',)", "network.minibatch_size=1"]
    words += ["network.print_interval=1", "computing.network_dataloader_workers=2"]
    held, sent = tmp_path / "held", tmp_path / "sent"
    started = recipe.command(*words, processes=processes)
    if whom != "torchrun":
        started = [*recipe.command(*words), f"computing.processes={processes}"]
    process = recipe.start_command(started, TEST_HELD=str(held), TEST_SENT=str(sent))
    wait_for(held, process)
    number = getattr(signal, name)
    program = process.pid if processes > 1 else int(held.read_text())
    if whom == "group":
        os.killpg(program, number)
    else:
        kill_tree(program, number)
    sent.touch()
    output, _ = process.communicate(timeout=PATIENCE_S)
    # The end of the user's own torchrun is its own.
    assert process.returncode == (whom == "torchrun"), output
    resumed = torch.load(recipe.system() / "networks" / "resume.pt", weights_only=True)
    step = resumed["progress"]["step"]
    assert 2 < step < 13, output
    assert f"after step {step}; the same command resumes from there" in output
    assert not (recipe.system() / "owner.lock").exists()
    if whom != "torchrun":
        assert "Traceback" not in output


def test_a_killed_loader_is_one_message(recipe, tmp_path):
    (recipe.folder / "holding.py").write_text(HELD)
    words = ["debug", "network.max_epochs=100000", "computing.network_dataloader_workers=1"]
    named = tmp_path / "named"
    words.append("network.callbacks=('holding.Named',)")
    process = recipe.start(*words, TEST_HELD=str(named))
    # It may just be sending a batch.
    wait_for(named, process)
    os.kill(int(named.read_text()), signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert output.count("error: a worker process was killed, likely by the system") == 1, output
    assert "Traceback" not in output, output


@pytest.mark.slow
def test_the_second_run_in_a_system_folder_is_refused(recipe, capsys):
    # The message names the process that is started here, not one that is forked elsewhere.
    recipe.python = lambda: sys.executable
    process = recipe.start("debug", "network.max_epochs=100000")
    wait_for(recipe.system() / "networks" / "epoch.1.pt", process)
    second = recipe.call(capsys, "debug")
    assert second.status == 1
    assert f"another run is using {recipe.system()}" in second.output
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0


@pytest.mark.slow
def test_two_runs_at_the_same_time(recipe):
    processes = [
        recipe.start(
            "debug", "network.max_epochs=1", f"paths.system_folder={name}", "computing.processes=2"
        )
        for name in ("left", "right")
    ]
    outputs = [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    left, right = (
        recipe.system(name) / "scores" / "epoch.1" / "demo-eval.txt" for name in ("left", "right")
    )
    assert left.read_bytes() == right.read_bytes()


def networks(recipe) -> list[Path]:
    return list((recipe.system() / "networks").glob("*.pt"))


def wait_for(path: Path, process) -> None:
    wait_until(path.exists, process)


def wait_until(condition: Callable[[], bool], process) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if process.poll() is not None or time.monotonic() > until:
            pytest.fail(f"{condition} did not arrive: {process.communicate()[0]}")
        time.sleep(0.02)


MAPPED = """
from asdf.data.samplers import BalancedAttacks
from asdf.distributed import shared_files

# Also the lists of a small corpus.
shared_files.MIN_BYTES = 1


class Mapped(BalancedAttacks):
    def describe(self):
        return f"ids are {type(self.utterances.ids.block).__name__}"
"""


@pytest.mark.slow
def test_a_run_with_mapped_lists_is_that_with_lists_of_its_own(recipe):
    (recipe.folder / "mapped.py").write_text(MAPPED)
    options = ("normed", "network.max_epochs=2")
    plain = ("recipe.sampler=balanced_attacks", "paths.system_folder=plain")
    mapped = ("recipe.sampler=mapped.Mapped", "paths.system_folder=mapped")
    for words in (plain, mapped):
        outcome = recipe.run(*options, *words, processes=2).ok()
    assert "ids are memmap" in outcome.output
    one, other = recipe.system("plain"), recipe.system("mapped")
    for epoch in (1, 2):
        ends = [weights(folder / "networks" / f"epoch.{epoch}.pt") for folder in (one, other)]
        assert all(ends[0][name].equal(ends[1][name]) for name in ends[0])
    files = sorted(path.relative_to(one) for path in (one / "scores").rglob("*.txt"))
    assert files
    for path in (*files, "results/results.json"):
        assert (one / path).read_bytes() == (other / path).read_bytes(), path
    assert not list(other.glob(".shared-*"))


@pytest.mark.slow
def test_a_stop_leaves_no_file_of_the_lists(recipe, tmp_path):
    (recipe.folder / "mapped.py").write_text(MAPPED)
    stop_file = tmp_path / "stop"
    words = ("normed", "network.max_epochs=100000", "recipe.sampler=mapped.Mapped")
    process = recipe.start(*words, processes=2, ASDF_STOP_FILE=str(stop_file))
    wait_for(recipe.system("normed") / "networks" / "epoch.1.pt", process)
    assert list(recipe.system("normed").glob(".shared-*"))
    stop_file.touch()
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert "the same command resumes from there" in output
    assert not list(recipe.system("normed").glob(".shared-*"))

"""Batches are the same with any number of workers; stops and failures reach the main process."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from asdf.audio import recording_files
from asdf.audio.recording_sources import Source
from asdf.data.batches import Clip
from asdf.data.loaders import BatchLoader
from asdf.data.threads import threads
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from tests.conftest import PATIENCE_S
from tests.unit.data.conftest import BOOST, clips


def test_workers_change_nothing_neither_order_nor_samples(utterances, monkeypatch):
    monkeypatch.setattr("asdf.data.loaders.usable_cores", lambda: 2)
    keys = [[(epoch, (epoch + i) % 3) for i in range(2)] for epoch in range(1, 6)]
    alone = list(BatchLoader(clips(utterances, rawboost=BOOST), 0, World()).batches(keys))
    loader = BatchLoader(clips(utterances, rawboost=BOOST), 2, World())
    # An abandoned pass leaves nothing behind for the next one.
    next(iter(loader.batches(keys[3:])))
    for _ in range(2):
        read = list(loader.batches(iter(keys)))
        assert len(read) == 5 and all(torch.equal(a, b) for a, b in zip(read, alone, strict=True))


@pytest.mark.parametrize(
    ("requested", "ranks", "workers", "cores"),
    [(10, 1, 6, 6), (4, 1, 4, 6), (10, 4, 1, 1), (0, 1, 0, 6), (10, 9, 1, 1)],
)
def test_no_more_workers_than_cores_of_the_process(
    utterances, monkeypatch, requested, ranks, workers, cores
):
    monkeypatch.setattr("asdf.data.loaders.usable_cores", lambda: 6)
    loader = BatchLoader(clips(utterances), requested, World(local_size=ranks))
    assert (loader.workers, loader.cores) == (workers, cores)


@pytest.mark.real_gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: pytest -m real_gpu")
def test_batches_reach_a_gpu_whole_while_it_is_at_work(utterances):
    keys = [[(epoch, i) for i in range(3)] for epoch in range(1, 30)]
    expected = list(BatchLoader(clips(utterances), 0, World()).batches(keys))
    world, matrix = World(device=torch.device("cuda", 0)), torch.ones(3000, 3000, device="cuda")
    sums = []
    for batch in BatchLoader(clips(utterances), 0, world).batches(keys):
        for _ in range(5):
            matrix @ matrix
        sums.append(batch.double().sum())  # the memory is free for a later copy from here on
    assert torch.stack(sums).cpu().tolist() == pytest.approx(
        [float(batch.double().sum()) for batch in expected]
    )


@pytest.mark.parametrize("workers", [0, 1])
def test_a_broken_recording_comes_out_as_its_own_message(utterances, workers):
    utterances.path(1).write_bytes(b"no audio")
    with pytest.raises(AsdfError) as caught:
        list(BatchLoader(clips(utterances), workers, World()).batches([[(1, 0)], [(1, 1), (1, 2)]]))
    assert str(caught.value).startswith(f"{utterances.path(1)} is not audio")


ONE_WORKER = """
import multiprocessing, os, signal, subprocess, sys
from pathlib import Path
import numpy as np
from asdf.data.datasets import TrainingClips
from asdf.trials.lists import read_list
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.settings.sections import RawBoost, SpeechActivity
folder = Path(sys.argv[1])
utterances, lengths = read_list(folder / "list.txt", folder), np.array([6000, 1500, 4000])
clips = TrainingClips(utterances, lengths, 4000, RawBoost(), SpeechActivity(), 0)
loader = BatchLoader(clips, 1, World())
batches = loader.batches([[(1, i % 3)] for i in range(6)])
"""
SIGNALLED = """
def signal_it():
    for name in ("TERM", "INT", "USR1", "USR2"):
        os.kill(os.getpid(), getattr(signal, f"SIG{name}"))

os.register_at_fork(after_in_child=signal_it)
next(batches)
assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
[worker] = multiprocessing.active_children()
for name in ("TERM", "INT", "USR1", "USR2"):
    code = f"import os, signal; os.kill({worker.pid}, signal.SIG{name})"
    subprocess.run([sys.executable, "-c", code], check=True)
assert len(list(batches)) == 5 and worker.is_alive()
worker.terminate()
worker.join(int(sys.argv[2]))
assert worker.exitcode == -signal.SIGKILL, worker.exitcode
"""


# The default from Python 3.14 on: workers inherit the mask of a server that may be older.
SERVER = """
import multiprocessing.forkserver
multiprocessing.set_start_method("forkserver")
multiprocessing.forkserver.ensure_running()
"""


@pytest.mark.parametrize("start", ["", SERVER])
def test_a_stop_signal_that_reaches_every_process_leaves_the_workers(
    utterances, tmp_path, warm, start
):
    """A scheduler sends them to all processes; the main one needs its workers until it has saved.

    The first come as soon as the worker exists. In a separate process, for its hooks of forks.
    """
    program = f"{start}{ONE_WORKER}{SIGNALLED}"
    command = [warm(), "-c", program, str(tmp_path), str(PATIENCE_S)]
    ended = subprocess.run(command, timeout=PATIENCE_S, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
def test_a_program_that_ends_in_the_middle_of_a_pass_does_end(utterances, tmp_path):
    """The workers ignore SIGTERM, and multiprocessing waits for them at the end of the program."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{ONE_WORKER}next(batches)\nraise SystemExit(3)", str(tmp_path)],
        timeout=PATIENCE_S,
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 3, ended.stderr


class Blocking(Dataset):
    """Its item 1 is read from a pipe that nobody writes to, as from a file server that has gone."""

    def __init__(self, pipe: Path) -> None:
        self.pipe = pipe

    def __len__(self) -> int:
        return 3

    def __getitem__(self, key: int) -> Clip:
        if key == 1:
            os.open(self.pipe, os.O_RDONLY)
        return Clip(np.full(4, key, np.float32))


def test_a_worker_that_does_not_come_back_does_not_hold_a_run_that_is_requested_to_stop(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("asdf.data.loaders._PATIENCE_S", 1.0)
    os.mkfifo(tmp_path / "pipe")
    stop = StopRequest()
    loader = BatchLoader(Blocking(tmp_path / "pipe"), 1, World(), stop=stop)
    batches = loader.batches([[0], [1], [2]])
    assert next(batches).tolist() == [[0.0] * 4]
    stop.reason = "a test"
    with pytest.raises(Stopped) as caught:
        next(batches)
    assert str(caught.value) == (
        "stopped by a test while a recording could not be read (its disk or file server does not "
        "respond), and nothing since the last checkpoint is saved; the same command resumes from "
        "there"
    )
    [worker] = loader._processes
    worker.join(PATIENCE_S)
    assert worker.exitcode == -signal.SIGKILL


def test_a_loader_that_listens_gives_the_same_batches(tmp_path):
    keys = [[0], [2], [0, 2]]
    blocking, stop = Blocking(tmp_path / "pipe"), StopRequest()
    loader = BatchLoader(blocking, 1, World(), stop=stop)
    for _ in range(2):
        batches = [batch.tolist() for batch in loader.batches(keys)]
        assert batches == [[[0.0] * 4], [[2.0] * 4], [[0.0] * 4, [2.0] * 4]]
    stop.reason = "a test"  # what comes is taken: whoever asked for it stops at the next step
    assert len(list(loader.batches(keys))) == 3


LITTLE_SHARED_MEMORY = """
import resource
import numpy as np
from torch.utils.data import Dataset
from asdf.data.batches import Clip
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.errors import AsdfError

class Large(Dataset):
    def __getitem__(self, key):
        return Clip(np.zeros(1 << 18, np.float32))

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
try:
    next(BatchLoader(Large(), 1, World()).batches([[0], [1]]))
except AsdfError as error:
    print(error)
"""


def test_too_little_shared_memory_is_one_message(warm):
    """No file may grow beyond half a megabyte in a process with this limit, nor in its forks."""
    command = [warm(), "-c", LITTLE_SHARED_MEMORY]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.startswith(
        "the loader's processes hand batches over in shared memory (/dev/shm), which is too"
    )
    assert done.stdout.rstrip().endswith("lower computing.network_dataloader_workers.")
    assert not done.stderr


def test_a_read_that_hangs_without_workers_ends_a_run_that_is_to_stop(
    utterances, monkeypatch, caplog
):
    """As a read of a file server that has gone: the recording opens, and nothing comes."""
    monkeypatch.setattr("asdf.data.loaders._POLL_S", 0.01)
    monkeypatch.setattr("asdf.data.loaders._PATIENCE_S", 0.05)
    monkeypatch.setattr("asdf.data.loaders._REMARK_S", 0.02)
    reader, writer = os.pipe()

    def open_source(source):
        return os.dup(reader) if source.name == str(utterances.path(1)) else real(source)

    real = Source.open
    monkeypatch.setattr(Source, "open", open_source)
    stop = StopRequest()
    batches = BatchLoader(clips(utterances), 0, World(), stop=stop).batches([[(1, 0)], [(1, 1)]])
    try:
        assert len(next(batches)) == 1
        stop.reason = "a test"
        with pytest.raises(Stopped) as caught:
            next(batches)
        assert f"while {utterances.path(1)} could not be read" in str(caught.value)
        assert f"{utterances.path(1)} has been read for" in caplog.text
    finally:
        os.close(writer)
        os.close(reader)


class Unanswered(Blocking):
    """Its items are opened as recordings are; the samples of item 1 never come."""

    def __getitem__(self, key: int) -> Clip:
        recording_files.open_recording(self.pipe.parent / f"{key}.wav").close()
        return super().__getitem__(key)


@pytest.mark.slow_but("0")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_read_that_hangs_ends_the_run_after_its_timeout(utterances, workers):
    pipe = utterances.path(0).parent / "pipe"
    os.mkfifo(pipe)
    loader = BatchLoader(Unanswered(pipe), workers, World(timeout_s=2.0))
    batches = loader.batches([[0], [1], [2]])
    # On a busy machine a worker takes longer to start.
    limit_s, loader._limit_s = loader._limit_s, PATIENCE_S
    assert len(next(batches)) == 1
    loader._limit_s = limit_s
    with pytest.raises(AsdfError) as caught:
        next(batches)
    name = "a recording" if workers else utterances.path(1)
    assert str(caught.value) == (
        f"{name} could not be read within 2 s: its disk or file server does not respond. Once it "
        "does, the same command continues from what is saved; if it is only slow, raise "
        "computing.timeout_s, of which a read may take nine tenths."
    )
    for process in loader._processes:
        process.join(PATIENCE_S)
        assert process.exitcode == -signal.SIGKILL


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

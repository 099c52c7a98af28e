"""What a run of a single process sees, how it is stopped, and what it says where it fails.

Tests of several processes are in tests/distributed.
"""

import json
import logging
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore

from asdf.distributed import failures
from asdf.distributed import world as worlds
from asdf.distributed.failures import record_message_for_launcher
from asdf.distributed.gpus import gpu_memory
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World, open_world
from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import Computing
from tests.conftest import PATIENCE_S


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "ASDF_STOP_FILE"):
        monkeypatch.delenv(name, raising=False)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_a_world_of_one_opens_no_process_group():
    with open_world(Computing(use_gpu=False, threads=1)) as world:
        assert (world.rank, world.size, world.is_main, world.device.type) == (0, 1, True, "cpu")
        assert not dist.is_initialized() and torch.get_num_threads() == 1
        line = world.describe()
        assert line.startswith("rank 0 of 1: host ") and line.endswith("device cpu")


def test_threads_are_shared_out_among_the_processes_of_a_node(monkeypatch):
    monkeypatch.setattr("asdf.distributed.world.usable_cores", lambda: 7)
    with open_world(Computing(use_gpu=False)):
        assert torch.get_num_threads() == 7


def test_what_one_says_is_agreed_gathered_and_summed():
    world = World()
    assert world.agree({"a": 1}) == {"a": 1} and world.gather("x") == ["x"]
    assert world.sum([0.1, 2]) == [0.1, 2.0] and world.run_on_main(lambda: 5) == 5
    world.barrier()


def test_a_failure_on_the_main_rank_is_its_own_exception():
    for error in (UsageError("wrong"), ZeroDivisionError("by zero")):
        with pytest.raises(type(error)) as caught:
            World().run_on_main(lambda error=error: (_ for _ in ()).throw(error))
        assert caught.value is error


def test_backends_that_cannot_work_here_are_refused():
    cpu = torch.device("cpu")
    assert worlds._choose_backend(Computing(), cpu) == "gloo"
    assert worlds._choose_backend(Computing(), torch.device("cuda")) == "nccl"
    with pytest.raises(UsageError, match="'nccl' needs GPUs"):
        worlds._choose_backend(Computing(backend="nccl"), cpu)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_is_a_request_while_listening(number):
    before = signal.getsignal(number)
    stop = StopRequest()
    with stop.listening():
        assert not stop
        os.kill(os.getpid(), number)
        assert stop and stop.reason == f"signal {number.name}"
    assert signal.getsignal(number) is before


def test_a_second_interrupt_ends_at_once():
    stop = StopRequest()
    with stop.listening():
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_that_torchrun_passes_on_as_well_is_the_same_request(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    stop = StopRequest()
    with stop.listening():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop and stop.reason == "signal SIGINT"


def test_a_stop_file_is_a_request_from_when_it_appears(monkeypatch, tmp_path):
    path = tmp_path / "stop"
    monkeypatch.setenv("ASDF_STOP_FILE", str(path))
    monkeypatch.setattr("asdf.distributed.stopping._POLL_S", 0.0)
    stop = StopRequest()
    assert not stop
    path.touch()
    assert stop and stop.reason == f"the stop file {path}"


def test_a_request_to_one_process_is_heard_by_the_others(monkeypatch):
    monkeypatch.setattr("asdf.distributed.stopping._POLL_S", 0.0)
    store = dist.HashStore()
    first, second = StopRequest(), StopRequest()
    with first.listening(store), second.listening(store):
        assert not first and not second
        # The handler of the one that began to listen last.
        os.kill(os.getpid(), signal.SIGUSR1)
        assert not first and second
        assert first and first.reason == "signal SIGUSR1"
    third = StopRequest()
    with third.listening(store):
        assert third
        # What another process passed on is not the first Ctrl-C of this one.
        os.kill(os.getpid(), signal.SIGINT)
        assert third.reason == "signal SIGINT"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_store_that_is_gone_requests_nothing(tmp_path):
    class Gone:
        def check(self, *_):
            raise dist.DistNetworkError("Connection reset by peer")

        set = check

    stop = StopRequest()
    with World(_store=Gone()).listening(stop):
        assert not stop
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop and stop.reason == "signal SIGTERM"


def test_the_smallest_gpu_counts_for_every_process(monkeypatch):
    assert gpu_memory(torch.device("cpu")) == World().smallest_gpu() == 0
    monkeypatch.setattr(worlds, "gpu_memory", lambda device: 85)
    main = SimpleNamespace(device=None, gather=lambda local: [local, 42], agree=lambda value: value)
    assert World.smallest_gpu(main) == 42
    other = SimpleNamespace(device=None, gather=lambda local: None, agree=lambda value: 42)
    assert World.smallest_gpu(other) == 42


def test_the_launcher_finds_the_message_in_its_own_layout(tmp_path, monkeypatch):
    file = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
    before = int(time.time())
    record_message_for_launcher("no more disk")
    message = json.loads(file.read_text())["message"]
    assert message["message"] == "no more disk"
    assert message["extraInfo"]["py_callstack"] == "\nno more disk"
    assert int(message["extraInfo"]["timestamp"]) >= before


def test_without_a_launcher_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.delenv("TORCHELASTIC_ERROR_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    record_message_for_launcher("no more disk")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow_but("False")
@pytest.mark.parametrize("abort", [True, False])
def test_a_group_is_aborted_where_an_exchange_may_never_end(abort, tmp_path, monkeypatch):
    aborted = []
    close = dist.destroy_process_group

    def abort_group() -> None:
        aborted.append(True)
        close()

    monkeypatch.setattr(failures.distributed_c10d, "_abort_process_group", abort_group)
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    failures._close(abort=abort)
    assert not dist.is_initialized()
    assert aborted == [True] * abort
    # There is nothing left to close.
    failures._close(abort=abort)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("error", [AsdfError("no more disk"), ValueError("a defect")])
def test_a_failure_is_logged_where_leaving_hangs(error, monkeypatch, caplog):
    exited, statuses = threading.Event(), []

    def leave(status):
        statuses.append(status)
        exited.set()
        raise SystemExit  # the thread ends, as the process would

    monkeypatch.setattr(failures, "_LOOK_S", 0.01)
    monkeypatch.setattr(failures, "_GRACE_S", 0.01)
    monkeypatch.setattr(failures, "_close", lambda abort: exited.wait(PATIENCE_S))
    monkeypatch.setattr(failures.os, "_exit", leave)
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(type(error)),
        failures.failing_together(HashStore(), 1, "nccl"),
    ):
        raise error
    assert statuses == [1]
    (record,) = caplog.records
    message = record.getMessage()
    assert message.startswith("rank 1: error: ") and message.endswith(str(error))
    assert ("Traceback" in message) is isinstance(error, ValueError)

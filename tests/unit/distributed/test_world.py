"""What a run of a single process sees. Tests of several processes are in tests/distributed."""

import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from asdf.distributed import world
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World, open_world
from asdf.errors import AsdfError, InUseError, UsageError
from asdf.recipe.problems import failures
from asdf.settings.sections import Computing
from tests.distributed.worlds import start_processes


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


def fail(kind: str) -> None:
    if kind == "of the project":
        raise InUseError("taken")
    if kind == "of Python":
        Path("/no/such/file").read_text()
    if kind == "of a library":
        json.loads("{")
    raise ValueError(lambda: "cannot be sent")


KINDS = ("of the project", "of Python", "of a library", "that cannot be sent")


def note_failures(rank: int, folder: Path) -> None:
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    shared = World(rank, 2, rank, 2, backend="gloo")
    lines = []
    for kind in KINDS:
        try:
            # As checks do, of which the project's errors are put together.
            collected = failures([partial(shared.run_on_main, partial(fail, kind))])
            lines.append(f"collected {collected[0]!r} {collected[0].reported_by_main}")
        except Exception as error:
            reported = getattr(error, "reported_by_main", False)
            lines.append(f"{isinstance(error, OSError | ValueError)} {error} {reported}")
    (folder / f"rank{rank}").write_text("\n".join(lines))
    dist.destroy_process_group()


def test_all_ranks_end_by_the_main_ones_error(tmp_path):
    start_processes(note_failures, (tmp_path,), 2)
    first, second = ((tmp_path / f"rank{rank}").read_text().splitlines() for rank in range(2))
    assert first[:3] == [
        "collected InUseError('taken') False",
        "True [Errno 2] No such file or directory: '/no/such/file' False",
        "True Expecting property name enclosed in double quotes: line 1 column 2 (char 1) False",
    ]
    assert second[:3] == [line.replace("False", "True") for line in first[:3]]
    assert first[3].startswith("True <function fail.<locals>.<lambda> at ")
    assert second[3].startswith("False <function fail.<locals>.<lambda> at ")


def test_backends_that_cannot_work_here_are_refused():
    cpu = torch.device("cpu")
    assert world._choose_backend(Computing(), cpu) == "gloo"
    assert world._choose_backend(Computing(), torch.device("cuda")) == "nccl"
    with pytest.raises(UsageError, match="'nccl' needs GPUs"):
        world._choose_backend(Computing(backend="nccl"), cpu)


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


def test_errors_a_user_can_mend_are_distinguished_by_their_status():
    assert (AsdfError.exit_status, UsageError.exit_status) == (1, 2)

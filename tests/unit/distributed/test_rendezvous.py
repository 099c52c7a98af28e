"""What processes agree on before a group exists: names, local ranks, and compatible devices."""

import hashlib
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from types import SimpleNamespace

import pytest
import torch.distributed as dist
from torch.distributed import HashStore

from asdf.distributed import rendezvous
from asdf.distributed.gpus import identify
from asdf.distributed.launchers import Launch
from asdf.distributed.rendezvous import agree_on_devices, agree_on_local_ranks, meet
from asdf.errors import AsdfError, UsageError
from tests.conftest import PATIENCE_S

SECOND = timedelta(seconds=1)


def on_all(function, size):
    """What `function` returns or raises for each rank, all at the same time, and with one store."""
    store = dist.HashStore()
    store.set_timeout(timedelta(seconds=PATIENCE_S))

    def run(rank):
        try:
            return function(store, Launch(rank, size, None, None, "srun", "n1", 1))
        except UsageError as error:
            return error

    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(run, range(size)))


def test_local_ranks_count_the_processes_of_a_host(monkeypatch):
    hosts = ["n1", "n2", "n1", "n2", "n2"]

    here = threading.local()
    monkeypatch.setattr(rendezvous.socket, "gethostname", lambda: here.host)

    def agree(store, launch):
        here.host = hosts[launch.rank]
        return agree_on_local_ranks(store, launch)

    launches = on_all(agree, 5)
    assert [launch.local_rank for launch in launches] == [0, 0, 1, 1, 2]
    assert [launch.local_size for launch in launches] == [2, 3, 2, 3, 3]


def test_processes_of_one_host_agree_and_known_ranks_stay():
    launches = on_all(agree_on_local_ranks, 3)
    assert [(launch.local_rank, launch.local_size) for launch in launches] == [
        (0, 3),
        (1, 3),
        (2, 3),
    ]

    def known(store, launch):
        return agree_on_local_ranks(store, Launch(launch.rank, 2, 1 - launch.rank, 2))

    assert [launch.local_rank for launch in on_all(known, 2)] == [1, 0]


def agree_with(choices):
    def agree(store, launch):
        def choose():
            choice = choices[launch.rank]
            if isinstance(choice, str):
                raise UsageError(choice)
            return choice

        return agree_on_devices(store, launch, choose, "CUDA_VISIBLE_DEVICES not set")

    return on_all(agree, len(choices))


def test_each_process_may_see_one_gpu_of_its_own_as_the_first():
    assert agree_with([("cuda:0", "A"), ("cuda:0", "B")]) == ["cuda:0", "cuda:0"]
    assert agree_with([("cpu", ""), ("cpu", "")]) == ["cpu", "cpu"]


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        (
            [("cuda:0", "A"), ("cuda:1", "B"), ("cuda:0", "A")],
            "ranks 0 and 2 would use the same GPU:\n"
            "  rank 0: host HERE, cuda:0 = GPU A\n"
            "  rank 1: host HERE, cuda:1 = GPU B\n"
            "  rank 2: host HERE, cuda:0 = GPU A\n"
            "(CUDA_VISIBLE_DEVICES not set)",
        ),
        (
            [("cuda:0", "A"), ("cpu", "")],
            "some processes have a GPU and some have none:\n  rank 0: host HERE, cuda:0 = GPU A\n",
        ),
        ([("cuda:0", "A"), "no kernels"], "rank 1: no kernels"),
        (["no kernels", "no kernels"], "no kernels"),
    ],
)
def test_devices_that_do_not_go_together_are_refused_on_every_rank(monkeypatch, choices, said):
    monkeypatch.setattr(rendezvous.socket, "gethostname", lambda: "HERE")
    errors = agree_with(choices)
    assert all(str(error).startswith(said) for error in errors)
    # All of them end, and the main one says why.
    assert [error.reported_by_main for error in errors] == [
        rank > 0 for rank in range(len(choices))
    ]


def test_a_gpu_that_torch_cannot_use_is_refused_on_every_rank():
    def agree(store, launch):
        def choose():
            if launch.rank == 1:
                raise RuntimeError("CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA")
            return "cuda:0", "A"

        return agree_on_devices(store, launch, choose, "")

    said = "rank 1: its device cannot be used: CUDA error: out of memory"
    assert [str(error) for error in on_all(agree, 2)] == [said, said]


def test_the_main_process_whose_store_it_is_ends_last():
    """It leaves after the others' last use of its store: their threads may end in any order."""
    used = []

    class SlowStore:
        def __init__(self, store):
            self.set, self.wait, self._store = store.set, store.wait, store

        def get(self, key):
            time.sleep(0.1)
            value = self._store.get(key)
            used.append("by another")
            return value

    def agree(store, launch):
        def choose():
            raise UsageError("no kernels")

        try:
            agree_on_devices(SlowStore(store) if launch.rank else store, launch, choose, "")
        finally:
            if launch.rank == 0:
                used.append("main has left")

    on_all(agree, 3)
    assert used == ["by another"] * 6 + ["main has left"]


def test_gpus_are_distinguished_by_uuid_and_position():
    def properties(uuid, bus):
        return SimpleNamespace(uuid=uuid, pci_domain_id=0, pci_bus_id=bus, pci_device_id=0)

    assert identify(properties("a", 26)) == "a at 0000:1a:00"
    assert identify(properties("0", 1)) != identify(properties("0", 2))
    assert identify(properties("a", 1)) != identify(properties("b", 1))  # parts of one GPU (MIG)


def test_a_main_process_that_cannot_listen_or_is_not_reached_says_what_to_set():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(rendezvous.AsdfError) as caught:
            rendezvous.open_store(Launch(0, 2, 0, 2, "srun", "127.0.0.1", port), SECOND)
        said = f"(started by srun) did not meet the others at 127.0.0.1:{port} within 1 s: "
        assert str(caught.value).startswith(f"rank 0 of 2 {said}")
        assert "set MASTER_PORT to a free one" in str(caught.value)
    # Bound, so that no other program takes the port, and nobody listens there.
    with socket.socket() as bound, pytest.raises(rendezvous.AsdfError) as caught:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        rendezvous.open_store(Launch(1, 2, 1, 2, "srun", "127.0.0.1", port), SECOND)
    assert str(caught.value).startswith(
        f"rank 1 of 2 (started by srun) did not reach rank 0 at 127.0.0.1:{port} within 1 s: "
    )


def test_the_main_rank_says_for_all_who_is_missing():
    """Its wait ends after that of the other, which hears of it."""
    store = HashStore()
    errors = []

    def meet_as_main():
        with pytest.raises(AsdfError) as caught:
            meet(store, 0, 3, 2.0)
        errors.append(caught.value)

    main = threading.Thread(target=meet_as_main)
    main.start()
    until = time.monotonic() + PATIENCE_S
    while not store.check(["asdf/id/0"]) and time.monotonic() < until:
        time.sleep(0.01)
    with pytest.raises(AsdfError) as caught:
        meet(store, 1, 3, 0.1)
    main.join()
    assert str(caught.value) == str(errors[0])
    assert str(caught.value).startswith(
        "rank 0 waited 2 s for the other processes of this run: rank 2 of 3 did not arrive."
    )
    assert caught.value.reported_by_main and not errors[0].reported_by_main


def test_the_name_of_a_start_is_made_of_the_processes_and_no_earlier_one_counts():
    store = HashStore()
    # What an earlier start left behind: ids of processes that are gone, and its offer.
    store.set("asdf/id/1", "gone")
    store.set("asdf/offer", "old first gone")
    store.set("asdf/known/old", "1")
    names = {}

    def meet_as(rank: int) -> None:
        names[rank] = meet(store, rank, 2, PATIENCE_S)

    threads = [threading.Thread(target=meet_as, args=(rank,)) for rank in (1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [store.get(f"asdf/id/{rank}").decode() for rank in (0, 1)]
    expected = hashlib.sha256("".join(ids).encode()).hexdigest()[:12]
    assert names == {0: expected, 1: expected} and "gone" not in ids

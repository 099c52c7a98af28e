"""Batches in memory that is used again: the same numbers as in memory of their own, while they are looked at."""

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

from asdf.data.loaders import BatchLoader
from asdf.data.slots import PREFETCHED, InSlot, Slots
from asdf.distributed.world import World
from asdf.errors import AsdfError


class Numbers(Dataset):
    """Arrays (8,) that hold their key; the key -1 cannot be read, -2 is of another type.

    Even keys are written where their batch has them, odd ones elsewhere, after the room has been spoilt.
    """

    def plan(self, key):
        return key

    def read(self, key, room):
        if key == -1:
            return AsdfError("cannot be read")
        room[:] = np.nan
        if key == -2 or key % 2 or len(room) < 8:
            return np.full(8, key, np.float16 if key == -2 else np.float32)
        room[:8] = key
        return room[:8]


@pytest.fixture(params=[0, 1, 2])
def loader(request, monkeypatch) -> BatchLoader:
    monkeypatch.setattr("asdf.data.loaders.usable_cores", lambda: 2)
    return BatchLoader(Numbers(), request.param, World(), reused=3 * 8)


def keys(batches: int, size: int = 3) -> list[list[int]]:
    return [list(range(size * place, size * place + size)) for place in range(batches)]


def wanted(batch: list[int]) -> torch.Tensor:
    return torch.tensor(batch, dtype=torch.float32)[:, None].expand(-1, 8)


def test_each_batch_is_right_while_it_is_looked_at(loader):
    for turn in range(2):
        asked = [*keys(20), [7 + turn]]  # a last one that is smaller
        for batch, got in zip(asked, loader.batches(asked), strict=True):
            assert torch.equal(got, wanted(batch))


def test_memory_is_used_again(loader):
    places = {batch.data_ptr() for batch in loader.batches(keys(40))}
    assert len(places) == PREFETCHED * loader.workers + 2


def test_a_pass_that_is_left_disturbs_no_later_one(loader):
    for _, batch in zip(range(3), loader.batches(keys(30)), strict=False):
        last = batch.clone()
    assert torch.equal(last, wanted([6, 7, 8]))
    asked = [[key + 100 for key in batch] for batch in keys(30)]
    for batch, got in zip(asked, loader.batches(asked), strict=True):
        assert torch.equal(got, wanted(batch))


def test_what_does_not_belong_in_a_slot_goes_the_usual_way(loader):
    larger, other = [1, 2, 3, 4], [-2, -2]
    first, second, third = (batch.clone() for batch in loader.batches([larger, other, [5]]))
    assert torch.equal(first, wanted(larger)) and torch.equal(third, wanted([5]))
    assert second.dtype == torch.float16 and second.shape == (2, 8)
    with pytest.raises(AsdfError, match="cannot be read"):
        list(loader.batches([[1], [2, -1], [3]]))


def test_items_of_unequal_shape_are_no_batch():
    class Ramps(Numbers):
        def read(self, key, room):
            return np.arange(key, dtype=np.float32)

    batch, items = Slots(0, 100).read(0, Ramps(), [4, 5])
    assert batch is None
    assert [item.tolist() for item in items] == [[0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_items_stay_right_where_they_overlap_their_places():
    class Shifted(Numbers):
        def read(self, key, room):
            room[:12] = np.arange(12) + key
            return room[2:8] if key == 10 else room[:12:2]

    slots = Slots(0, 20)
    batch, _ = slots.read(1, Shifted(), [10, 20])
    assert slots.view(batch).tolist() == [[12, 13, 14, 15, 16, 17], [20, 22, 24, 26, 28, 30]]


def write(slots: Slots, sent) -> None:
    batch, _ = slots.read(1, Numbers(), [6, 7])
    sent.put(tuple(batch))


def test_a_spawned_process_writes_into_the_same_memory():
    slots, context = Slots(1, 16), torch.multiprocessing.get_context("spawn")
    sent: multiprocessing.SimpleQueue = context.SimpleQueue()
    process = context.Process(target=write, args=(slots, sent))
    process.start()
    batch = InSlot(*sent.get())
    process.join()
    assert batch == InSlot(1, (2, 8))
    assert slots.view(batch).tolist() == [[6.0] * 8, [7.0] * 8]


@pytest.mark.parametrize("reused", [0, 1 << 18])
def test_too_little_shared_memory_is_said_in_one_message(reused):
    """No file may grow beyond half a megabyte here, nor in the processes that are forked from here."""
    script = f"""
import resource
import numpy as np
from torch.utils.data import Dataset
from asdf.data.loaders import BatchLoader
from asdf.distributed.world import World
from asdf.errors import AsdfError

class Large(Dataset):
    def __getitem__(self, key):
        return np.zeros(1 << 18, np.float32)

resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))
try:
    next(BatchLoader(Large(), 1, World(), reused={reused}).batches([[0], [1]]))
except AsdfError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith(
        "the loader's processes hand batches over in shared memory (/dev/shm), and there is"
    )
    assert (
        done.stdout.rstrip().endswith("lower computing.network_dataloader_workers.")
        and not done.stderr
    )

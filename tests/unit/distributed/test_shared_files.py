"""Values that the processes of a run share: made once, mapped where they are large."""

import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from asdf.data.lengths import measure_lengths
from asdf.distributed import shared_files as room
from asdf.distributed.shared_files import SharedFiles
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.settings.sections import SpeechActivity
from asdf.trials.packed_names import Names
from asdf.trials.trial_list import TrialList, pack_list, unpack_list
from tests.distributed.worlds import compute_in_worlds
from tests.recordings import noise_waveforms, write_recordings


class Main(World):
    """The main rank of two, whose messages nobody waits for."""

    def agree(self, value):
        return value

    def gather(self, value):
        return [value, ""]

    def barrier(self):
        pass


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.glob(".shared-*.part"))


def test_one_process_makes_its_values_and_writes_nothing(tmp_path):
    shared = SharedFiles(World(), tmp_path)
    array = np.arange(10**6)
    assert shared.array(lambda: array) is array
    shared.close()
    assert not list(tmp_path.iterdir())


def test_what_is_large_is_mapped_and_what_is_small_is_sent(tmp_path, monkeypatch):
    shared = SharedFiles(Main(size=2), tmp_path)
    small = np.arange(3)
    assert shared.array(lambda: small) is small and shared.array(lambda: None) is None
    assert files_of(tmp_path) == []
    monkeypatch.setattr(room, "MIN_BYTES", 1)
    for array in (
        np.arange(70),
        np.arange(6, dtype=np.int8).reshape(2, 3)[:, ::2],
        np.zeros((0, 3)),
    ):
        mapped = shared.array(partial(np.asarray, array))
        assert mapped.tolist() == array.tolist() and mapped.dtype == array.dtype
        assert isinstance(mapped, np.memmap) == bool(array.nbytes)
    both = {"some": np.arange(3), "none": np.zeros((0, 2))}
    arrays = shared.share(lambda: 0, lambda _: (both, None), lambda arrays, _: arrays)
    assert [isinstance(arrays[name], np.memmap) for name in both] == [True, False]
    assert len(files_of(tmp_path)) == 3
    # A process that maps an array reserves no memory for it.
    monkeypatch.setattr(np, "empty", None)
    assert shared.array(lambda: np.arange(70)).tolist() == list(range(70))
    shared.close()
    assert files_of(tmp_path) == []


def test_a_shared_list_is_the_list_and_is_pickled_as_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MIN_BYTES", 1)
    shared = SharedFiles(Main(size=2), tmp_path)
    ids = [f"speech/{i}.flac" for i in range(5000)]
    columns = {"attack": ["-", "A01"] * 2500}
    trials = TrialList(ids, np.arange(5000) % 2, columns=columns, name="mine")
    mapped = shared.share(lambda: trials, pack_list, unpack_list)
    assert mapped.ids == ids and mapped.columns["attack"] == columns["attack"]
    assert mapped.digest() == trials.digest() and mapped.labels.tolist() == trials.labels.tolist()
    pickled = pickle.dumps(mapped.packed())
    # Labels are there; names would be 100,000 bytes.
    assert len(pickled) < 10_000 and pickle.loads(pickled).ids == ids
    # A part of mapped names is not where the whole is.
    part = Names.of_arrays(mapped.ids.block, mapped.ids.ends[1000:])
    assert list(pickle.loads(pickle.dumps(part))) == ids[1000:]
    # Writing to it changes no other process's.
    mapped.labels[0] = 1
    assert shared.share(lambda: trials, pack_list, unpack_list).labels[0] == 0


def test_a_process_that_does_not_see_the_file_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MIN_BYTES", 1)
    shared = SharedFiles(Main(size=2), tmp_path)
    send = shared._send

    def send_and_lose(value, pack):
        sent = send(value, pack)
        sent.path.unlink()
        return sent

    monkeypatch.setattr(shared, "_send", send_and_lose)
    with pytest.raises(AsdfError, match=r"rank 0 cannot read .*\.part: .* that all nodes share\."):
        shared.array(lambda: np.arange(70))


def test_a_folder_that_cannot_be_written_costs_memory_alone(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    shared = SharedFiles(Main(size=2), tmp_path / "file")
    array = np.arange(10**6)
    assert shared.array(lambda: array) is array
    assert "each process has a copy" in caplog.text


def test_a_failure_reaches_the_caller(tmp_path):
    def fail():
        raise AsdfError("no list")

    with pytest.raises(AsdfError, match="no list"):
        SharedFiles(Main(size=2), tmp_path).array(fail)


def share_in_a_world(world: World, folder: Path) -> dict:
    """What each rank has of a list, an array and measured lengths that all share."""
    room.MIN_BYTES = 1
    system = folder / f"system{world.size}"
    shared = SharedFiles(world, system)
    made = []

    def make() -> TrialList:
        made.append(world.rank)
        return TrialList([f"{i}.wav" for i in range(40)], np.arange(40) % 2, folder=folder)

    trials = shared.share(make, pack_list, unpack_list)
    sad = folder / f"sad{world.size}"
    for check in (False, True, "once"):
        lengths = measure_lengths(trials, SpeechActivity(), sad, world, check=check, shared=shared)
    here = {
        "made": made,
        "ids": list(trials.ids),
        "lengths": lengths.tolist(),
        "mapped": isinstance(lengths, np.memmap),
    }
    ranks = world.gather(here)
    files = len(files_of(system))
    shared.close()
    return {"ranks": ranks, "files": files, "left": len(files_of(system))}


@pytest.mark.slow
def test_all_ranks_map_what_the_main_rank_made(tmp_path):
    write_recordings(tmp_path, noise_waveforms(range(4000, 4040)))
    for world_size, results in compute_in_worlds(
        partial(share_in_a_world, folder=tmp_path), tmp_path
    ).items():
        assert results["files"] > 2 and results["left"] == 0
        for rank, here in enumerate(results["ranks"]):
            assert here["made"] == ([0] if rank == 0 else [])
            assert here["ids"] == [f"{i}.wav" for i in range(40)]
            assert here["lengths"] == list(range(4000, 4040)) and here["mapped"]
        assert len(results["ranks"]) == world_size

"""Copies of whole shards: one download, never a part for the whole, the oldest removed first."""

from __future__ import annotations

import logging
import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from asdf.archives import copies_folder, local_copies, local_file, use_copies
from asdf.archives.local_copies import local_copy
from asdf.audio import read_audio
from asdf.errors import AsdfError, UsageError
from asdf.remote import ObjectState, as_path, object_state, stores
from tests.stores import RangeServer, memory_store, put, range_server
from tests.unit.archives.conftest import NAMES, pack

CONTENT = bytes(range(256)) * 4


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(stores, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(stores, "_PART", 400)
    with range_server() as running:
        yield running


@pytest.fixture
def store() -> Iterator[str]:
    pytest.importorskip("fsspec")
    with memory_store() as address:
        yield address


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with use_copies(str(tmp_path / "copies"), 3e-6):
        yield tmp_path / "copies"


def state(address: str) -> ObjectState:
    found = object_state(address)
    assert found is not None
    return found


def shard(server: RangeServer, name: str) -> tuple[str, ObjectState]:
    server.objects[f"/{name}"] = CONTENT
    address = server.address(f"/{name}")
    return address, state(address)


def downloads(server: RangeServer) -> list[str]:
    return [path for method, path, _ in server.requests if method == "GET"]


def copied(folder: Path) -> list[str]:
    return sorted(path.name.rpartition(".")[2] for path in folder.glob("[0-9a-f]*"))


def test_a_shard_is_downloaded_once(server: RangeServer, folder: Path) -> None:
    wanted = shard(server, "a")
    copy = local_copy(*wanted)
    assert copy is not None and copy.read_bytes() == CONTENT and copy.parent == folder
    assert downloads(server) == ["/a"] * 3
    assert local_copy(*wanted) == copy and len(downloads(server)) == 3
    assert local_file(as_path(wanted[0])) == copy
    assert local_file(folder / "x") == folder / "x"


def test_members_come_from_the_copy(corpus: Path, server: RangeServer, folder: Path) -> None:
    os.environ["ASDF_CACHE_GB"] = "1"
    server.objects["/LA.tar"] = pack(corpus).read_bytes()
    path = as_path(server.address("/LA.tar"))
    for name in NAMES:
        assert_array_equal(read_audio(path / name), read_audio(corpus / name))
    size = len(server.objects["/LA.tar"])
    # The tar in parts, and a look for the index that may lie next to it.
    assert len(downloads(server)) == -(-size // 400) + 1
    assert list(folder.glob("LA.tar.*.index"))


def test_names_are_cut_by_the_bytes_that_they_have(
    corpus: Path, store: str, tmp_path: Path, log: list[str]
) -> None:
    # 80 characters of four bytes each would be longer than a name may be.
    name = "a" + "𠀀" * 100 + ".tar"
    for address in (f"{store}/x/{name}", f"{store}/y/{name}"):
        put(pack(corpus), address)
    with use_copies(str(tmp_path / "copies"), 1):
        for folder in "xy":
            path = as_path(f"{store}/{folder}/{name}/LA/b.wav")
            assert_array_equal(read_audio(path), read_audio(corpus / "b.wav"))
    copies = [path.name for path in (tmp_path / "copies").iterdir()]
    ends = [each.rpartition(".𠀀")[2] for each in copies if each.endswith(".tar")]
    assert ends == ["𠀀" * 18 + ".tar"] * 2
    assert len([each for each in copies if each.endswith(".index")]) == 2
    assert not [line for line in log if "cannot be" in line]


def test_a_download_that_was_killed_goes_on(server: RangeServer, folder: Path) -> None:
    wanted = shard(server, "a")
    whole = local_copy(*wanted)
    assert whole is not None
    part = whole.with_name(f"{whole.name}.part")
    part.write_bytes(CONTENT[:600])
    whole.unlink()
    server.requests.clear()
    assert local_copy(*wanted) == whole and whole.read_bytes() == CONTENT
    assert server.requests[0][2] == "bytes=600-999"
    assert not part.exists()


def test_a_copy_of_another_size_is_not_taken_for_whole(server: RangeServer, folder: Path) -> None:
    wanted = shard(server, "a")
    copy = local_copy(*wanted)
    assert copy is not None
    copy.write_bytes(CONTENT[:-1])
    again = local_copy(*wanted)
    assert again == copy and copy.read_bytes() == CONTENT


def test_what_was_not_used_for_longest_is_removed(server: RangeServer, folder: Path) -> None:
    """Three copies of 1 kB fit into 3.07 kB; one of the last seconds is in use, and stays."""
    os.environ["ASDF_CACHE_GB"] = "3.08e-6"
    shards = {name: shard(server, name) for name in "abcdef"}
    for age, name in ((300, "a"), (200, "b"), (100, "c")):
        copy = local_copy(*shards[name])
        assert copy is not None
        os.utime(copy, (time.time() - age,) * 2)
    # Used again, so that 'b' is the oldest.
    assert local_copy(*shards["a"]) is not None
    assert local_copy(*shards["d"]) is not None
    assert copied(folder) == ["a", "c", "d"]
    assert local_copy(*shards["e"]) is not None
    assert copied(folder) == ["a", "d", "e"]
    # All of them are in use.
    assert local_copy(*shards["f"]) is None
    assert copied(folder) == ["a", "d", "e"]


def test_without_room_ranges_are_read(
    corpus: Path, server: RangeServer, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    server.objects["/LA.tar"] = pack(corpus).read_bytes()
    path = as_path(server.address("/LA.tar/b.wav"))
    assert_array_equal(read_audio(path), read_audio(corpus / "b.wav"))
    assert "no room for a copy" in caplog.text and copied(folder) == []
    with pytest.raises(AsdfError, match=r"no room for .*LA\.tar .*ASDF_CACHE_GB"):
        local_file(as_path(server.address("/LA.tar")))


def test_an_object_that_changes_while_it_is_downloaded(
    server: RangeServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, before = shard(server, "a")
    server.objects["/a"] = CONTENT[::-1]
    with pytest.raises(AsdfError, match="was changed while it was downloaded"):
        local_copy(address, before)
    assert copied(folder) == []
    copy = local_copy(address, state(address))
    assert copy is not None and copy.read_bytes() == CONTENT[::-1]


def _copy_there(address: str, known: ObjectState, connection: object) -> None:
    connection.send(str(local_copy(address, known)))  # type: ignore[attr-defined]


def test_processes_share_one_download(server: RangeServer, folder: Path) -> None:
    address, known = shard(server, "a")
    server.delay_s = 0.1
    context = multiprocessing.get_context("fork")
    ends = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(target=_copy_there, args=(address, known, theirs))
        process.start()
        ends.append((ours, process))
    copies = set()
    for ours, process in ends:
        assert ours.poll(30)
        copies.add(ours.recv())
        process.join()
    [copy] = copies
    assert Path(copy).read_bytes() == CONTENT
    assert downloads(server) == ["/a"] * 3


def test_a_disk_that_cannot_be_written_is_no_end(
    server: RangeServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with use_copies(str(tmp_path / "file"), 1.0):
        assert local_copy(*shard(server, "a")) is None
    assert "is read by ranges" in caplog.text


def test_copies_are_kept_for_a_block_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASDF_CACHE_FOLDER", raising=False)
    with use_copies(None, 1.0):
        assert copies_folder() is None
    with use_copies(str(tmp_path), 1.0):
        assert copies_folder() == tmp_path
    assert copies_folder() is None and "ASDF_CACHE_GB" not in os.environ
    monkeypatch.setenv("ASDF_CACHE_GB", "much")
    with pytest.raises(UsageError, match="'much' is not a number"):
        local_copies._limit()

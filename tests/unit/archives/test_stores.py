"""Archives and recordings in stores: the bytes of local ones, by ranges."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.archives import (
    file_size,
    file_state,
    find_member,
    list_names,
    members,
    open_file,
    use_copies,
)
from asdf.archives import index as archive_index
from asdf.archives.local_copies import local_copy
from asdf.archives.members import open_archive
from asdf.audio import read_audio
from asdf.errors import AsdfError
from asdf.remote import as_path, object_state, stores
from asdf.trials.lists import check_files, read_list
from tests.hub_server import HubServer
from tests.stores import RangeServer, memory_store, put, range_server
from tests.unit.archives.conftest import NAMES, index_of, noise, pack


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with memory_store() as address:
        yield address


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    pytest.importorskip("aiohttp")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(stores, "_FIRST_PAUSE_S", 0.001)
    with range_server() as running:
        yield running


@pytest.mark.parametrize("inside", ["LA.tar/", "LA.tar/LA/", "LA/"])
def test_members_of_a_remote_tar_are_those_of_the_folder(
    corpus: Path, store: str, inside: str
) -> None:
    put(pack(corpus), f"{store}/db/LA.tar")
    for name in NAMES:
        path = as_path(f"{store}/db") / inside / name
        assert_array_equal(read_audio(path), read_audio(corpus / name))
        assert_array_equal(read_audio(path, 100, 50), read_audio(corpus / name, 100, 50))
        assert file_size(path) == (corpus / name).stat().st_size
    assert find_member(f"{store}/db/LA.tar/no.flac") is None
    assert "b.wav" in list_names(as_path(f"{store}/db/{inside}".rstrip("/")))


def test_recordings_that_lie_loose_in_a_store(corpus: Path, store: str) -> None:
    put(corpus, f"{store}/LA")
    for name in NAMES:
        path = as_path(f"{store}/LA") / name
        assert_array_equal(read_audio(path), read_audio(corpus / name))
        assert file_state(path) == object_state(str(path))
    assert list_names(as_path(f"{store}/LA")) == {"flac", "b.wav"}
    with pytest.raises(AsdfError, match=rf"there is no file {store}/LA/no\.flac"):
        read_audio(as_path(f"{store}/LA/no.flac"))


def test_a_long_recording_is_read_in_parts(server: RangeServer, tmp_path: Path) -> None:
    """The last second of 100 s does not cost the whole recording."""
    samples = noise(1_600_000, 1)
    soundfile.write(tmp_path / "long.wav", samples, 16000, subtype="PCM_16")
    server.objects["/long.wav"] = (tmp_path / "long.wav").read_bytes()
    path = as_path(server.address("/long.wav"))
    expected = read_audio(tmp_path / "long.wav", 1_584_000, 16_000)
    assert_array_equal(read_audio(path, 1_584_000, 16_000), expected)
    ranges = [each[2] for each in server.requests if each[0] == "GET"]
    assert len(ranges) == 3 and all(ranges)


def test_a_clip_of_a_tar_is_one_request(corpus: Path, server: RangeServer) -> None:
    server.objects["/LA.tar"] = pack(corpus).read_bytes()
    path = as_path(server.address("/LA.tar"))
    read_audio(path / NAMES[0])
    before = len(server.requests)
    for name in NAMES:
        assert_array_equal(read_audio(path / name), read_audio(corpus / name))
    # The folder of each is looked up once, in the index: no request.
    assert len(server.requests) - before <= len(NAMES) + 3


def test_the_headers_of_a_remote_tar_are_read_once(
    corpus: Path, store: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(pack(corpus), f"{store}/LA.tar")
    first = open_archive(as_path(f"{store}/LA.tar"))
    [saved] = (tmp_path / "cache" / "asdf").glob("*.index")
    assert saved.name.startswith("LA.tar.")
    monkeypatch.setattr(archive_index, "scan", lambda *_: pytest.fail("headers read again"))
    again = archive_index.read_index(first.path, first.open_file())  # type: ignore[attr-defined]
    assert_array_equal(again.offsets, first.index.offsets)  # type: ignore[attr-defined]


def upload_with_index(corpus: Path, store: str) -> Path:
    """Put a tar and its index into a store; return the path of the tar on the disk."""
    archive = pack(corpus)
    open_archive(archive)
    put(archive, f"{store}/LA.tar")
    put(index_of(archive), f"{store}/LA.tar.index")
    return archive


def test_an_index_that_was_uploaded_with_its_tar_saves_the_headers(
    corpus: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = upload_with_index(corpus, store)
    with monkeypatch.context() as patched:
        patched.setattr(archive_index, "scan", lambda *_: pytest.fail("headers read"))
        path = as_path(f"{store}/LA.tar/b.wav")
        assert_array_equal(read_audio(path), read_audio(corpus / "b.wav"))
    # That of another tar is not taken.
    (corpus / "b.wav").unlink()
    put(pack(corpus, "other.tar"), f"{store}/other.tar")
    put(index_of(archive), f"{store}/other.tar.index")
    assert find_member(f"{store}/other.tar/LA/b.wav") is None
    assert find_member(f"{store}/other.tar/LA/flac/a.flac") is not None


def test_an_index_that_is_larger_than_one_of_its_tar_is_not_read_whole(
    corpus: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = upload_with_index(corpus, store)
    size = index_of(archive).stat().st_size
    monkeypatch.setattr(archive_index, "_SMALL", size - 1 - archive.stat().st_size // 8)
    scanned = []
    scan = archive_index.scan
    monkeypatch.setattr(archive_index, "scan", lambda *given: scanned.append(given) or scan(*given))
    path = as_path(f"{store}/LA.tar/b.wav")
    assert_array_equal(read_audio(path), read_audio(corpus / "b.wav"))
    assert len(scanned) == 1


def test_a_tar_of_the_hub_that_was_replaced_is_indexed_anew_at_the_next_look(
    corpus: Path, hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fsspec")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(members, "_LOOKED_EVERY_S", 0.0)
    content = pack(corpus).read_bytes()
    hub.repository("org/set").commit({"LA.tar": content})
    address = as_path("hf://datasets/org/set/LA.tar")
    first = open_archive(address)
    assert open_archive(address) is first
    # Of the same length, with another time in a header.
    os.utime(corpus / "b.wav", (1, 1))
    again = pack(corpus, "other.tar").read_bytes()
    assert len(again) == len(content) and again != content
    hub.repository("org/set").commit({"LA.tar": again})
    second = open_archive(address)
    assert second is not first and second.state != first.state
    assert_array_equal(read_audio(address / "b.wav"), read_audio(corpus / "b.wav"))


def test_a_shard_of_the_hub_that_is_replaced_while_it_is_copied_is_refused(
    hub: HubServer, tmp_path: Path
) -> None:
    pytest.importorskip("fsspec")
    hub.repository("org/set").commit({"a.tar": bytes(2000)})
    address = "hf://datasets/org/set/a.tar"
    state = object_state(address)
    assert state is not None
    hub.repository("org/set").commit({"a.tar": bytes([1]) * 2000})
    with (
        use_copies(str(tmp_path / "copies"), 1),
        pytest.raises(AsdfError, match=r"a\.tar was changed while it was downloaded"),
    ):
        local_copy(address, state)


def test_a_changed_tar_is_refused_by_its_name(corpus: Path, store: str) -> None:
    archive = pack(corpus)
    put(archive, f"{store}/LA.tar")
    path = as_path(f"{store}/LA.tar/b.wav")
    read_audio(path)
    content = archive.read_bytes()
    archive.write_bytes(bytes(1024) + content[:-1024])
    put(archive, f"{store}/LA.tar")
    with pytest.raises(AsdfError, match=rf"the archive {store}/LA\.tar is not the one"):
        read_audio(path)
    archive.write_bytes(content)
    put(archive, f"{store}/LA.tar")
    assert_array_equal(read_audio(path), read_audio(corpus / "b.wav"))


def _read_there(path: str, connection: multiprocessing.connection.Connection) -> None:
    connection.send(read_audio(as_path(path)))


def test_a_forked_process_reads_on(corpus: Path, server: RangeServer) -> None:
    server.objects["/LA.tar"] = pack(corpus).read_bytes()
    path = server.address("/LA.tar/b.wav")
    expected = read_audio(as_path(path))
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_read_there, args=(path, theirs))
    process.start()
    assert ours.poll(30)
    assert_array_equal(ours.recv(), expected)
    process.join()


def test_rows_of_a_remote_parquet_file(corpus: Path, store: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    audio = [{"bytes": (corpus / name).read_bytes(), "path": name} for name in NAMES]
    parquet.write_table(pyarrow.table({"audio": audio}), tmp_path / "a.parquet", row_group_size=2)
    put(tmp_path / "a.parquet", f"{store}/a.parquet")
    for name in NAMES:
        path = as_path(f"{store}/a.parquet") / name
        assert_array_equal(read_audio(path), read_audio(corpus / name))


def test_lists_of_stores(corpus: Path, store: str) -> None:
    put(pack(corpus), f"{store}/db/LA.tar")
    put(corpus / "b.wav", f"{store}/loose/b.wav")
    lines = [*(f"LA.tar/{name} 1" for name in NAMES), f"{store}/loose/b.wav 0"]
    text = corpus.parents[1] / "list.txt"
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    put(text, f"{store}/db/list.txt")
    folder = as_path(f"{store}/db")
    trials = read_list(folder / "list.txt", folder)
    assert str(trials.path(0)) == f"{store}/db/LA.tar/{NAMES[0]}"
    assert str(trials.path(len(NAMES))) == f"{store}/loose/b.wav"
    check_files([trials])
    for index, name in enumerate([*NAMES, "b.wav"]):
        assert_array_equal(read_audio(trials.path(index)), read_audio(corpus / name))
    put(text, f"{store}/loose/list.txt")
    folder = as_path(f"{store}/loose")
    with pytest.raises(AsdfError, match=rf"5 of the 6 files of  are not in {store}/loose"):
        check_files([read_list(folder / "list.txt", folder)])


def test_a_server_of_loose_recordings_has_no_list_of_them(
    corpus: Path, server: RangeServer
) -> None:
    for name in ("b.wav", "flac/a.flac"):
        server.objects[f"/db/{name}"] = (corpus / name).read_bytes()
    server.objects["/db/list.txt"] = b"b.wav 1\nflac/a.flac 0\n"
    folder = as_path(server.address("/db"))
    trials = read_list(folder / "list.txt", folder)
    check_files([trials])
    del server.objects["/db/b.wav"]
    with pytest.raises(AsdfError, match=r"1 of the 2 files .*\n    b\.wav"):
        check_files([trials])


def test_ranges_beyond_an_object_are_cut_as_those_of_a_file(corpus: Path, store: str) -> None:
    archive = pack(corpus)
    put(archive, f"{store}/LA.tar")
    content = archive.read_bytes()
    opened = open_archive(as_path(f"{store}/LA.tar")).open_file()  # type: ignore[attr-defined]
    assert opened.read(100, len(content) - 30) == content[-30:]
    assert opened.read(100, len(content) + 30) == b""
    assert opened.read_many(7, [0, len(content) - 3]) == [content[:7], content[-3:]]
    with open_file(f"{store}/LA.tar") as file:
        assert np.frombuffer(file.read(), np.uint8).tobytes() == content

"""The index of a tar: made once, and never used for another archive."""

import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import read_audio
from asdf.errors import AsdfError
from asdf.extras.stores import tars
from asdf.extras.stores.archives import open_archive
from asdf.extras.stores.tars import open_tar
from tests.extras.stores.conftest import index_of, noise, pack


def test_an_index_is_made_once(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = pack(corpus)
    first = open_archive(archive)
    assert index_of(archive).is_file() and not list(archive.parent.glob(".*"))
    monkeypatch.setattr(tars, "scan", lambda *arguments: pytest.fail("headers read again"))
    again = tars.read_index(archive, open_tar(first))
    for array, other in zip(vars(again).values(), vars(first.index).values(), strict=True):
        assert_array_equal(np.frombuffer(array, np.uint8), np.frombuffer(other, np.uint8))


def other_archive(corpus: Path, archive: Path) -> None:
    """Replace an archive by one of the same size and time: the same members in another order."""
    status = archive.stat()
    moved = archive.with_name("moved.tar")
    with tarfile.open(archive) as old, tarfile.open(moved, "w") as new:
        for member in sorted((m for m in old if m.isfile()), key=lambda m: m.name, reverse=True):
            new.addfile(member, old.extractfile(member))
        for member in (m for m in old.getmembers() if not m.isfile()):
            new.addfile(member)
    assert moved.stat().st_size == status.st_size
    moved.replace(archive)
    os.utime(archive, ns=(status.st_atime_ns, status.st_mtime_ns))


@pytest.mark.parametrize("size_and_time", [True, False])
def test_an_index_of_another_archive_is_not_used(corpus: Path, size_and_time: bool) -> None:
    archive = pack(corpus)
    read_audio(archive / "b.wav")
    before = index_of(archive).read_bytes()
    if size_and_time:
        other_archive(corpus, archive)
    else:
        soundfile.write(corpus / "b.wav", noise(3040, 77), 16000, subtype="PCM_16")
        os.utime(corpus / "b.wav", (0, 0))
        pack(corpus)
        index_of(archive).write_bytes(before)
    opened = open_archive(archive)  # as a new process would
    assert index_of(archive).read_bytes() != before
    assert opened.find("b.wav") is not None
    assert_array_equal(read_audio(archive / "b.wav"), read_audio(corpus / "b.wav"))


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY\x01", b"gibberish" * 100, b"PK\x03\x04" + bytes(100)]
)
def test_a_damaged_index_is_made_anew(corpus: Path, content: bytes) -> None:
    archive = pack(corpus)
    index_of(archive).write_bytes(content)
    assert_array_equal(read_audio(archive / "b.wav"), read_audio(corpus / "b.wav"))
    assert index_of(archive).read_bytes() not in (b"", content)


def test_an_index_with_any_byte_changed_is_made_anew(corpus: Path) -> None:
    """Among them the ends of names, which no header of the archive speaks of."""
    archive = pack(corpus)
    opened = open_archive(archive)
    whole = index_of(archive).read_bytes()
    for position in range(0, len(whole), 37):
        content = bytearray(whole)
        content[position] ^= 1
        index_of(archive).write_bytes(content)
        again = tars.read_index(archive, open_tar(opened))
        names = [list(map(index.name, range(len(index)))) for index in (again, opened.index)]
        assert names[0] == names[1]
        assert again.offsets.tolist() == opened.index.offsets.tolist()


def test_an_index_that_holds_a_pickle_is_not_run(corpus: Path, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return (Path.touch, (tmp_path / "ran",))

    archive = pack(corpus)
    with index_of(archive).open("wb") as file:
        np.save(file, np.array([Evil()], object), allow_pickle=True)
    assert len(read_audio(archive / "b.wav")) == 3040
    assert not (tmp_path / "ran").exists()


def test_an_archive_that_is_replaced_under_the_reader_gives_no_samples(corpus: Path) -> None:
    archive = pack(corpus)
    read_audio(archive / "b.wav")
    content = archive.read_bytes()
    with archive.open("r+b") as file:  # as `cp` does it
        file.write(bytes(1024) + content[:-1024])
    with pytest.raises(AsdfError, match="likely replaced"):
        read_audio(archive / "b.wav")
    archive.write_bytes(content)
    assert len(read_audio(archive / "b.wav")) == 3040


def test_where_the_folder_cannot_be_written_the_cache_has_the_index(corpus, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    archive = pack(corpus)
    index_of(archive).mkdir()  # permissions do not stop root
    assert len(read_audio(archive / "b.wav")) == 3040
    [saved] = (tmp_path / "cache" / "asdf").iterdir()
    assert saved.name.startswith("LA.tar.") and saved.name.endswith(".index")
    monkeypatch.setattr(tars, "scan", lambda *arguments: pytest.fail("headers read again"))
    assert tars.read_index(archive, open_tar(open_archive(archive))).find("LA/b.wav") is not None


def test_where_no_folder_can_be_written_a_warning_says_so(corpus, tmp_path, monkeypatch, log):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    archive = pack(corpus)
    index_of(archive).mkdir()
    assert len(read_audio(archive / "b.wav")) == 3040
    assert any("cannot be saved" in line and "XDG_CACHE_HOME" in line for line in log)

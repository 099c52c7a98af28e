"""Tars that must not be trusted, or cannot be read in place."""

import os
import tarfile
from pathlib import Path

import pytest

from asdf.audio import read_audio
from asdf.errors import AsdfError
from tests.extras.stores.conftest import index_of, pack, system_tar


@pytest.mark.parametrize("cut", ["in a member", "before the end mark", "in a header", "to nothing"])
def test_a_tar_that_ends_early_is_named(corpus: Path, cut: str) -> None:
    archive = pack(corpus)
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.isfile()]
        end = tar.offset
    last = members[-1]
    sizes = {"in a member": last.offset_data + last.size - 700, "before the end mark": end}
    sizes |= {"in a header": last.offset_data - 100, "to nothing": 0}
    os.truncate(archive, sizes[cut])
    for _ in range(2):
        with pytest.raises(AsdfError, match="is not a whole tar archive") as caught:
            read_audio(archive / "b.wav")
        assert str(archive) in str(caught.value)
    assert not index_of(archive).exists()


def test_a_damaged_header_in_the_middle_is_named(corpus: Path) -> None:
    archive = pack(corpus)
    with tarfile.open(archive) as tar:
        member = [member for member in tar if member.isfile()][2]
    with archive.open("r+b") as file:
        file.seek(member.offset_data - 512)
        file.write(b"\xff" * 512)
    with pytest.raises(AsdfError, match="is not a whole tar archive"):
        read_audio(archive / "b.wav")


@pytest.mark.parametrize("filler", [b"", b"\0" * 2**25])
def test_an_end_mark_in_the_middle_does_not_hide_the_rest(corpus: Path, filler: bytes) -> None:
    """Two archives in a row, as `cat` leaves them; an interrupted copy that left a hole."""
    archive = pack(corpus)
    with archive.open("ab") as file:
        file.write(filler or pack(corpus, "other.tar").read_bytes())
    with pytest.raises(AsdfError, match="neither a member nor the end mark"):
        read_audio(archive / "b.wav")


@pytest.mark.parametrize("kind", ["gz", "xz", "bz2"])
def test_compressed_archives_are_refused_with_the_way_out(corpus: Path, kind: str) -> None:
    program = {"gz": "gunzip", "xz": "unxz", "bz2": "bunzip2"}[kind]
    archive = pack(corpus, f"LA.tar.{kind}", mode=f"w:{kind}")
    folder = archive.parent / "LA"
    for path in (folder / "b.wav", archive / "b.wav"):
        with pytest.raises(AsdfError, match=f"{archive} is compressed.*`{program} {archive}`"):
            read_audio(path)
    misnamed = archive.rename(archive.with_name("LA.tar"))
    way_out = f"`mv {misnamed} {archive}; {program} {archive}`"
    with pytest.raises(AsdfError, match=f"compressed.*{way_out}"):
        read_audio(misnamed / "b.wav")


def test_zstandard_is_known_by_its_name_and_its_first_bytes(tmp_path: Path) -> None:
    for name in ("LA.tar.zst", "LA.tar"):
        (tmp_path / name).write_bytes(b"\x28\xb5\x2f\xfd" + bytes(600))
        with pytest.raises(AsdfError, match=r"unzstd .*LA\.tar\.zst"):
            read_audio(tmp_path / "LA" / "b.wav")
        (tmp_path / name).unlink()


def test_sparse_files_are_refused(corpus: Path) -> None:
    with (corpus / "hole.wav").open("wb") as file:
        file.truncate(2**22)
    archive = corpus.parents[1] / "LA.tar"
    for how in ("gnu", "pax"):
        system_tar("-C", corpus.parent, "-S", f"--format={how}", "-cf", archive, "LA")
        if archive.stat().st_size > 2**21:
            pytest.skip("this file system has no holes")
        with pytest.raises(AsdfError, match=r"sparse file.*without tar's option --sparse"):
            read_audio(archive / "b.wav")

"""Open archives: shared by threads and processes, bounded in number, and read in parts."""

import io
import os
import pickle
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import read_audio
from asdf.errors import AsdfError
from asdf.extras.stores import tars
from asdf.extras.stores.archives import find_member, known_member, open_archive
from asdf.extras.stores.tars import BLOCK, open_tar
from asdf.places import open_file
from tests.conftest import PATIENCE_S
from tests.extras.stores.conftest import NAMES, noise, pack


def test_a_folder_of_the_archives_own_name_does_not_eat_names_that_begin_like_it(corpus) -> None:
    (corpus / "LA_dev").mkdir()
    (corpus / "b.wav").rename(corpus / "LA_dev" / "a.wav")
    (corpus / "flac").rename(corpus / "LA_flac")
    archive = open_archive(pack(corpus))
    assert archive.root == "LA/"
    assert next(archive.names("LA")) == "LA_dev/a.wav" == next(archive.names())


def test_an_empty_archive_has_no_members(tmp_path: Path) -> None:
    tarfile.open(tmp_path / "LA.tar", "w").close()
    assert list(open_archive(tmp_path / "LA.tar").names()) == []
    with pytest.raises(AsdfError, match="there is no file"):
        read_audio(tmp_path / "LA" / "b.wav")


def test_threads_read_side_by_side(corpus: Path) -> None:
    for seed in range(20):
        soundfile.write(corpus / f"{seed}.flac", noise(4000, seed), 16000, subtype="PCM_16")
    archive = pack(corpus)
    names = [f"{seed % 20}.flac" for seed in range(200)]
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda name: read_audio(archive / name, 500, 3000), names))
    for name, samples in zip(names, read, strict=True):
        assert_array_equal(samples, read_audio(corpus / name, 500, 3000))


FORKED = """
import multiprocessing, sys
from pathlib import Path
from asdf.audio import read_audio
archive, names = Path(sys.argv[1]), sys.argv[2:]
expected = [read_audio(archive / name).tobytes() for name in names]
def read(_):
    for _ in range(20):
        if [read_audio(archive / name).tobytes() for name in names] != expected:
            return False
    return True
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(4) as pool:
        sys.exit(not all(pool.map(read, range(4))))
"""


def test_forked_processes_read_side_by_side(corpus: Path) -> None:
    """They share one descriptor, whose position in the file is not used."""
    command = [sys.executable, "-c", FORKED, str(pack(corpus)), *NAMES]
    ended = subprocess.run(command, capture_output=True, timeout=PATIENCE_S)
    assert ended.returncode == 0, ended.stderr


def test_an_archive_is_sent_to_another_process_by_its_path(corpus: Path) -> None:
    archive = open_archive(pack(corpus))
    sent = pickle.dumps(archive)
    assert len(sent) < 1000 and pickle.loads(sent) is archive


def test_a_folder_of_an_archive_that_was_changed_is_looked_up_again(corpus: Path) -> None:
    path = pack(corpus)
    member = find_member(path / "b.wav")
    assert known_member(path / "b.wav") == member
    os.utime(path, (0, 0))
    open_archive(path)
    assert known_member(path / "b.wav") is None
    assert find_member(path / "b.wav").archive is not member.archive


# In a process of its own: limits hold for a whole process.
UNDER_A_LIMIT = """
import multiprocessing, os, resource, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from asdf.places import open_file

folder = Path(sys.argv[1])
names = [folder / f"s{number}" / f"{number}.txt" for number in range(200)]


def read(path):
    with open_file(path) as file:
        return file.read().decode()


def check():
    for order in (names, names[::-1], names[::7]):
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(read, order)) == [path.stem * 50_000 for path in order]
    opened = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")
              if os.path.exists(f"/proc/self/fd/{name}")]
    assert sum(name.endswith(".tar") for name in opened) <= 64, opened


check()
children = [multiprocessing.get_context("fork").Process(target=check) for _ in range(2)]
for child in children:
    child.start()
check()
for child in children:
    child.join()
    assert child.exitcode == 0
print("all read")
"""


def write_tar(folder: Path, number: int, text: str) -> Path:
    (folder / "member").write_text(text)
    path = folder / f"s{number}.tar"
    with tarfile.open(path, "w") as tar:
        tar.add(folder / "member", f"{number}.txt")
    return path


def test_200_tars_are_read_where_128_files_may_be_open(tmp_path):
    for number in range(200):
        write_tar(tmp_path, number, str(number) * 50_000)
    command = [sys.executable, "-c", UNDER_A_LIMIT, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "all read\n", done.stderr


def test_what_is_being_read_stays_open(tmp_path):
    for number in range(2):
        write_tar(tmp_path, number, str(number) * 500_000)
    with open_file(tmp_path / "s0" / "0.txt") as first:
        start = first.read(10)
        open_tar.cache_clear()
        with open_file(tmp_path / "s1" / "1.txt") as second:
            assert second.read() == b"1" * 500_000
        assert start + first.read() == b"0" * 500_000


def test_a_tar_that_was_replaced_while_its_file_was_closed(tmp_path):
    first, other = (write_tar(tmp_path, number, str(number)) for number in range(2))
    archive = open_archive(first)
    member = open_archive(other).find("1.txt")
    open_tar.cache_clear()
    write_tar(tmp_path, 0, "another")
    with pytest.raises(AsdfError, match="is not the one that was opened: it was likely replaced"):
        open_tar(archive)
    with open_file(tmp_path / "s0" / "0.txt") as file:
        assert file.read() == b"another"
    other.unlink()
    with pytest.raises(AsdfError, match=r"s1.tar cannot be read: No such file or directory"):
        member.open()


def test_a_window_is_a_file(corpus: Path) -> None:
    content = bytes(np.random.default_rng(1).integers(0, 256, 300_000, np.uint8))
    (corpus / "long.bin").write_bytes(content)
    with open_file(pack(corpus) / "long.bin") as file:
        windows = ((0, 10), (32760, 20), (299_990, 100), (5, 200_000), (150_000, 0), (70_000, 7))
        for position, size in windows:
            assert file.seek(position) == position
            assert file.read(size) == content[position : position + size]
            assert file.tell() == min(position + size, len(content))
        assert file.seek(-3, io.SEEK_END) == len(content) - 3 and file.read() == content[-3:]
        file.seek(len(content) + 5)
        assert file.read(1) == b""
        assert file.seek(10) + 5 == file.seek(5, io.SEEK_CUR)
        with pytest.raises(OSError, match="Invalid"):
            file.seek(-1)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of bytes that are read of tars."""
    read: list[int] = []

    def read_at(descriptor: int, count: int, position: int) -> bytes:
        read.append(count)
        return os.pread(descriptor, count, position)

    monkeypatch.setattr(tars, "read_at", read_at)
    return read


def test_only_the_part_of_a_long_recording_is_read(corpus: Path, counted: list[int]) -> None:
    soundfile.write(corpus / "long.wav", noise(2_000_000, 9), 16000, subtype="PCM_16")
    path = pack(corpus) / "long.wav"
    find_member(path)
    counted.clear()
    part = read_audio(path, 1_900_000, 16000)
    assert_array_equal(part, read_audio(corpus / "long.wav", 1_900_000, 16000))
    assert 32000 <= sum(counted) < 250_000


def test_a_short_recording_is_read_at_once_and_is_a_file_in_memory(
    corpus: Path, counted: list[int]
) -> None:
    whole = corpus / "short.flac"
    soundfile.write(whole, noise(100_000, 9), 16000, subtype="PCM_16")
    size = whole.stat().st_size
    assert 2**15 < size < 2**18
    path = pack(corpus) / "short.flac"
    find_member(path)
    counted.clear()
    assert_array_equal(read_audio(path, 50_000, 16000), read_audio(whole, 50_000, 16000))
    assert counted == [BLOCK + size]
    with open_file(path) as file:
        assert isinstance(file, io.BytesIO) and file.read() == whole.read_bytes()

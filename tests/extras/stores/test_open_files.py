"""Any number of tars with a bounded number of open files, in threads and in forked processes."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from asdf.errors import AsdfError
from asdf.extras.stores.archives import open_archive
from asdf.extras.stores.tars import open_tar
from asdf.places import open_file

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
    done = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT, tmp_path], capture_output=True, text=True, check=False
    )
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

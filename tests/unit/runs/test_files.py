"""A file is whole or absent, however the writing ends."""

import hashlib
import os
import signal
import stat
import subprocess
import sys

import pytest
from filelock import FileLock

from asdf.errors import AsdfError, InUseError
from asdf.runs.files import (
    atomic_write,
    files_named,
    lock_work,
    one_at_a_time,
    remove_unfinished,
    sha256_of,
    write_text,
)
from tests.conftest import PATIENCE_S


def test_the_new_content_replaces_the_old(tmp_path):
    path = tmp_path / "new" / "folder" / "file.txt"
    write_text(path, "first\n")
    write_text(path, "second: ä\n")
    assert path.read_bytes() == "second: ä\n".encode()
    with atomic_write(path, "wb") as file:
        file.write(b"\x00\r\n")
    assert path.read_bytes() == b"\x00\r\n"
    assert [entry.name for entry in path.parent.iterdir()] == ["file.txt"]


def test_an_exception_leaves_what_was_there(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "old")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as file:
        file.write("half")
        raise ZeroDivisionError
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_the_permissions_are_those_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "file", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


KILLED = """
import os, signal, sys
from asdf.runs.files import atomic_write
with atomic_write(sys.argv[1]) as file:
    file.write("half" * 10000)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_leaves_what_was_there(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "old")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    left = [entry for entry in tmp_path.iterdir() if entry != path]
    assert len(left) == 1 and left[0].stat().st_size > 0
    remove_unfinished(tmp_path, output="other.txt")
    remove_unfinished(tmp_path, output="*")
    assert left[0].exists()
    remove_unfinished(tmp_path, output="file.txt")
    assert list(tmp_path.iterdir()) == [path]
    # All of it in a folder of one's own.
    subprocess.run([sys.executable, "-c", KILLED, str(path)])
    remove_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == [path]


FULL = """
import resource, sys
from asdf.errors import AsdfError, InUseError
from asdf.runs.files import write_text
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_text(sys.argv[1], "x" * 5000)
except AsdfError as error:
    print(error)
"""


def test_a_full_disk_leaves_what_was_there_and_says_what_to_do(tmp_path):
    path = tmp_path / "file.txt"
    write_text(path, "old")
    command = [sys.executable, "-c", FULL, str(path)]
    outcome = subprocess.run(command, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    message = f"cannot write {path}: File too large. The previous content is unchanged."
    assert outcome.stdout.startswith(message)
    assert "or choose another folder (of a run: paths.output_folder)" in outcome.stdout
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(AsdfError, match=r"cannot write .*file/below/x\.txt: Not a directory"):
        write_text(tmp_path / "file" / "below" / "x.txt", "new")
    with pytest.raises(AsdfError, match=r"cannot write .*file/locks"):
        lock_work(tmp_path / "file" / "locks", tmp_path / "out")
    assert (tmp_path / "file").read_text() == "old"
    with pytest.raises(AsdfError, match=r"cannot write .*: Is a directory"):
        write_text(tmp_path, "text")


def test_a_link_stays_one_and_its_file_gets_the_content(tmp_path):
    (tmp_path / "link").symlink_to("file.txt")
    write_text(tmp_path / "link", "through")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file.txt").read_text() == "through"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True)
    write_text(pipe, "through\n")
    assert reader.communicate(timeout=PATIENCE_S)[0] == "through\n"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


def test_the_digest_of_a_file_is_that_of_all_its_pieces(tmp_path):
    content = bytes(range(256)) * 10_000
    (tmp_path / "net.pt").write_bytes(content)
    assert sha256_of(tmp_path / "net.pt") == hashlib.sha256(content).hexdigest()


def test_a_folder_that_goes_while_its_file_is_written_is_what_the_message_says(tmp_path):
    folder = tmp_path / "folder"
    gone = pytest.raises(AsdfError, match=r"cannot write .*file\.txt: Not a directory")
    with gone, atomic_write(folder / "file.txt") as file:
        file.write("half")
        folder.rename(tmp_path / "moved")
        folder.touch()


def test_two_do_not_write_one_output_together(tmp_path):
    output, folder = tmp_path / "out.npz", tmp_path / ".progress"
    with lock_work(folder, output), pytest.raises(InUseError, match=r"is writing .*out\.npz"):
        lock_work(folder, output)
    with lock_work(folder, output):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_that_was_forked_meanwhile_holds_no_lock(tmp_path):
    with one_at_a_time(tmp_path / "file") as is_alone:
        assert is_alone
        read, write = os.pipe()
        child = os.fork()
        if not child:
            os.read(read, 1)
            os._exit(0)
    try:
        FileLock(tmp_path / ".file.lock").acquire(timeout=0)
    finally:
        os.write(write, b"x")
        os.waitpid(child, 0)


def test_files_of_a_folder_are_found_by_their_names(tmp_path):
    folder = tmp_path / "x"
    assert files_named(folder, "a-") == []
    for name in ["c-1.npz", "b-1.npz", "a-2.txt", "a-1.npz"]:
        write_text(folder / name, name)
    assert files_named(folder, "a-", "b", end=".npz") == [folder / "a-1.npz", folder / "b-1.npz"]
    with pytest.raises(AsdfError, match=r"cannot read .*file: Not a directory"):
        (tmp_path / "file").touch()
        files_named(tmp_path / "file", "a-")

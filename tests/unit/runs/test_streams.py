"""Standard streams that are full, closed, of another encoding or named as files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from asdf.runs.streams import descriptor_of, is_stdout
from tests.conftest import PATIENCE_S

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
CANNOT = (
    "error: cannot write to standard output: No space left on device. The output there is "
    "incomplete. Free some space or redirect it, then start the same command again.\n"
)
PROGRAM = """
import sys
from asdf.runs.files import write_text
from asdf.runs.streams import OutputError, close_streams, discard_output, open_streams, show_error

status = 0
try:
    open_streams()
    exec(sys.argv[1])
except OutputError as error:
    discard_output()
    show_error(f"error: {error}")
    status = error.exit_status
sys.exit(close_streams(status))
"""


def run(code: str, **options) -> subprocess.CompletedProcess:
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    options["env"] = {**os.environ, **options.get("env", {})}
    return subprocess.run([sys.executable, "-c", PROGRAM, code], timeout=PATIENCE_S, **options)


def shell(words: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess:
    """Run `words`, in which "$@" is the program."""
    command = ["bash", "-c", words, "bash", sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE_S, cwd=cwd)


@needs_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "code", ["print('x')", "print('x' * 100000)", "sys.stdout.buffer.write(b'x')"]
)
def test_a_full_disk_behind_stdout_is_one_message(code, unbuffered):
    with FULL.open("w") as full:
        ended = run(code, stdout=full, env={"PYTHONUNBUFFERED": unbuffered})
    assert (ended.returncode, ended.stderr.decode()) == (1, CANNOT)


def test_what_was_printed_before_the_streams_were_opened_comes_first():
    code = "print('before')\n" + PROGRAM
    command = [sys.executable, "-c", code, "print('after')"]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    ended = subprocess.run(command, capture_output=True, env=environment)
    assert ended.stdout == b"before\nafter\n"


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("latin-1", rb"\u2588 \xe9 \u6f22".replace(rb"\xe9", b"\xe9")),
        ("ascii", rb"\u2588 \xe9 \u6f22"),
        ("utf-8", "█ é 漢".encode()),
    ],
)
def test_letters_that_the_terminal_lacks_are_escaped(encoding, shown):
    code = "for stream in (sys.stdout, sys.stderr): print('█ é 漢', file=stream)"
    ended = run(code, env={"PYTHONIOENCODING": encoding})
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, shown + b"\n", shown + b"\n")


def test_bytes_of_a_file_name_that_are_no_text_are_escaped():
    ended = run(r"print('a\udcff')", env={"PYTHONIOENCODING": "utf-8"})
    assert (ended.returncode, ended.stdout) == (0, b"a\\udcff\n")


@pytest.mark.parametrize(
    "path", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "out", "link"]
)
def test_an_output_that_is_stdout_does_not_replace_the_file_behind_it(tmp_path, path):
    (tmp_path / "link").symlink_to("out")
    code = f"print('first'); write_text({path!r}, 'content\\n'); print('last')"
    ended = shell('"$@" > out', code, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert (tmp_path / "out").read_bytes() == b"first\ncontent\nlast\n"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link", "out"]


def test_the_file_of_any_descriptor_is_written_through_it(tmp_path):
    code = "write_text('/dev/fd/5', 'five\\n'); write_text('/dev/stderr', 'error\\n')"
    ended = shell('"$@" 5> five 2> errors; echo kept >&2', code, cwd=tmp_path)
    assert ended.stderr == b"kept\n"
    ended = shell('exec 5> five; echo first >&5; "$@"; echo last >&5', code, cwd=tmp_path)
    assert (tmp_path / "five").read_text() == "first\nfive\nlast\n" and ended.stderr == b"error\n"
    assert (tmp_path / "errors").read_text() == "error\n"


def test_bytes_to_a_pipe():
    code = (
        "from asdf.runs.files import atomic_write\n"
        "with atomic_write('-', 'wb') as file: file.write(bytes(range(256)))"
    )
    assert run(code).stdout == bytes(range(256))


def test_the_null_device_is_no_stream(tmp_path):
    code = "from asdf.runs.streams import is_stdout; show_error(str(is_stdout('/dev/null')))"
    assert run(code, stdout=subprocess.DEVNULL).stderr == b"False\n"


def test_other_paths_are_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    for path in ("out", "./1", "/proc/1/fd/1", "missing/-", tmp_path / "-", "loop"):
        assert descriptor_of(path) is None
    assert is_stdout("-") and is_stdout(Path("-"))

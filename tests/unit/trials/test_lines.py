"""Text files that are read line by line: standard input and pipes among them."""

import gzip
import os
import subprocess
import sys

import pytest

from asdf.trials.lines import numbered_lines

TWICE = """
import sys
from asdf.errors import AsdfError
from asdf.trials.lines import numbered_lines
try:
    for _ in range(2):
        print(list(numbered_lines(sys.argv[1])))
except AsdfError as error:
    print(error)
"""


def twice(words: str, path: str, data: bytes = b"") -> list[str]:
    command = ["bash", "-c", words, "bash", sys.executable, "-c", TWICE, path]
    return subprocess.run(command, input=data, capture_output=True).stdout.decode().splitlines()


@pytest.mark.parametrize("path", ["-", "/dev/stdin", "/dev/fd/0"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_standard_input_can_be_gone_through_again(path, pack):
    lines = twice('"$@"', path, pack(b"\xef\xbb\xbfone 1\n\n two \n"))
    assert lines == ["[(1, 'one 1'), (3, 'two')]"] * 2


def test_a_pipe_of_the_shell_can_be_gone_through_again():
    lines = twice('"$1" "$2" "$3" <(echo one)', "")
    assert lines == ["[(1, 'one')]"] * 2


def test_a_closed_standard_input_is_an_error():
    (line,) = twice('"$@" <&-', "-")
    assert line == "cannot read standard input: Bad file descriptor. Check the path."


def test_standard_input_without_an_end_is_refused():
    limited = TWICE.replace(
        "try:", "import asdf.trials.lines\nasdf.trials.lines.MOST_CHARACTERS = 9\ntry:"
    )
    command = ["bash", "-c", '"$@"', "bash", sys.executable, "-c", limited, "-"]
    ended = subprocess.run(command, input=b"x\n" * 5, capture_output=True)
    said = "standard input: more than 9 bytes came, as no list, protocol or score file has.\n"
    assert ended.stdout.decode() == said
    assert subprocess.run(command, input=b"x\n" * 4, capture_output=True).stdout.count(b"x") == 8


def test_a_file_is_read_again_each_time(tmp_path):
    path = tmp_path / "file"
    for text in ("one", "two"):
        path.write_text(text)
        assert list(numbered_lines(path)) == [(1, text)]
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["bash", "-c", f"echo piped > {tmp_path / 'pipe'}"]):
        assert list(numbered_lines(tmp_path / "pipe")) == [(1, "piped")]

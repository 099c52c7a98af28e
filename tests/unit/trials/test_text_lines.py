"""Text files that are read line by line: any line ends, standard input and pipes.

Files that are no text, or expand to far more of it, are one message each and take no memory.
"""

import gzip
import os
import subprocess
import sys
import tracemalloc
from collections import deque
from pathlib import Path

import pytest

from asdf.errors import AsdfError
from asdf.trials import text_lines as room
from asdf.trials.text_lines import LONGEST_LINE, numbered_lines

TWICE = """
import sys
from asdf.errors import AsdfError
from asdf.trials.text_lines import numbered_lines
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
        "try:", "import asdf.trials.text_lines\nasdf.trials.text_lines.MOST_CHARACTERS = 9\ntry:"
    )
    command = ["bash", "-c", '"$@"', "bash", sys.executable, "-c", limited, "-"]
    ended = subprocess.run(command, input=b"x\n" * 5, capture_output=True)
    assert ended.stdout.decode() == "standard input: more than 9 bytes are too many.\n"
    assert subprocess.run(command, input=b"x\n" * 4, capture_output=True).stdout.count(b"x") == 8


def test_a_file_is_read_again_each_time(tmp_path):
    path = tmp_path / "file"
    for text in ("one", "two"):
        path.write_text(text)
        assert list(numbered_lines(path)) == [(1, text)]
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["bash", "-c", f"echo piped > {tmp_path / 'pipe'}"]):
        assert list(numbered_lines(tmp_path / "pipe")) == [(1, "piped")]


def message_of(path: Path) -> str:
    with pytest.raises(AsdfError) as caught:
        deque(numbered_lines(path), maxlen=0)
    return str(caught.value)


def test_lines_have_their_numbers_with_any_line_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("\ufeffone \r\n\n two\rthree".encode())
    assert list(numbered_lines(path)) == [(1, "one"), (3, "two"), (4, "three")]
    path.write_bytes(gzip.compress(b"a\t\n"))
    assert list(numbered_lines(path, "\r\n")) == [(1, "a\t")]


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_end_takes_no_memory(tmp_path, packed):
    path = tmp_path / "a.txt"
    content = b"good 1\n" + (bytes(5 * 10**7) if packed else b"x" * 10**7)
    path.write_bytes(gzip.compress(content) if packed else content)
    tracemalloc.start()
    try:
        assert message_of(path) == (
            f"{path}, line 2: the line has more than 100,000 characters, too many for a list. "
            "Is it the right file?"
        )
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()


def test_a_device_without_end():
    assert "/dev/zero, line 1: the line has more than 100,000" in message_of(Path("/dev/zero"))


def test_the_longest_line_there_may_be(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("x" * (LONGEST_LINE - 1) + "\nlast")
    assert [len(line) for _, line in numbered_lines(path)] == [LONGEST_LINE - 1, 4]


def test_a_nul_character_names_its_line(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a.flac 1\nx\0y/b.flac 1\n")
    assert message_of(path) == (
        f"{path}, line 2: it contains a NUL character: it is UTF-16 (save it as UTF-8) or damaged. "
        "Is it the right file?"
    )


def test_more_text_than_any_list_has(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MOST_CHARACTERS", 1000)
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(b"\n" * 2000))
    assert "line 1001: it has more than 1,000 characters up to here" in message_of(path)
    # The last line may lack its end.
    for end in ("ab", "a\n", "abc", "ab\n"):
        path.write_text("x\n" * 499 + end)
        if len(end) == 2:
            assert sum(1 for _ in numbered_lines(path)) == 500
        else:
            assert "line 500: it has more than 1,000 characters" in message_of(path)


def test_a_pipe_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MOST_CHARACTERS", 1000)
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["bash", "-c", f"yes > {tmp_path / 'pipe'}"], stderr=subprocess.DEVNULL):
        assert message_of(tmp_path / "pipe") == (
            f"{tmp_path / 'pipe'}: more than 1,000 bytes are too many."
        )

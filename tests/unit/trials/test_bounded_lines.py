"""Files that are no text, or expand to far more of it: one message each, and no memory taken."""

import gzip
import os
import subprocess
import tracemalloc
from collections import deque
from pathlib import Path

import pytest

from asdf.errors import AsdfError
from asdf.trials import lines as room
from asdf.trials.lines import LONGEST_LINE, numbered_lines


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
    content = b"good 1\n" + (bytes(5 * 10**7) if packed else b"x" * 10**6)
    path.write_bytes(gzip.compress(content) if packed else content)
    tracemalloc.start()
    try:
        assert message_of(path) == (
            f"{path}, line 2: the line has more than 100,000 characters, as no list, protocol or "
            "score file has. Is it the right file?"
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
        f"{path}, line 2: a NUL character stands in it, as in no text. It was likely damaged by a "
        "copy: copy or write it again."
    )


def test_more_text_than_any_list_has(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MOST_CHARACTERS", 1000)
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(b"\n" * 2000))
    assert "line 1001: it has more than 1,000 characters up to here" in message_of(path)


def test_a_pipe_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "MOST_CHARACTERS", 1000)
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["bash", "-c", f"yes > {tmp_path / 'pipe'}"], stderr=subprocess.DEVNULL):
        assert message_of(tmp_path / "pipe") == (
            f"{tmp_path / 'pipe'}: more than 1,000 bytes came, as no list, protocol or score file "
            "has."
        )

"""A member is read as a file of its own, and no more of it than is needed."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import read_audio
from asdf.extras.stores import tars
from asdf.extras.stores.archives import find_member
from asdf.extras.stores.tars import BLOCK
from asdf.places import open_file
from tests.extras.stores.conftest import noise, pack


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

"""Open archives: opened once, shared by threads and processes, and anew when they change."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import read_audio
from asdf.errors import AsdfError
from asdf.extras.stores.archives import find_member, known_member, open_archive
from tests.conftest import PATIENCE_S
from tests.extras.stores.conftest import NAMES, noise, pack


def test_a_folder_of_the_archives_own_name_does_not_eat_the_names_that_begin_like_it(
    corpus: Path,
) -> None:
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
    ended = subprocess.run(
        [sys.executable, "-c", FORKED, str(pack(corpus)), *NAMES],
        capture_output=True,
        timeout=PATIENCE_S,
    )
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

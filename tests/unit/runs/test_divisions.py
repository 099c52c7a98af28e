"""The whole of some work and its parts do not write together."""

from __future__ import annotations

import pytest

from asdf.errors import AsdfError, InUseError
from asdf.runs.divisions import Part, lock_work


def test_the_whole_and_parts_do_not_write_together(tmp_path):
    output = tmp_path / "out.npz"
    folder = tmp_path / ".progress"
    with lock_work(folder, output, Part(1, 2)), lock_work(folder, output, Part(2, 2)):
        with pytest.raises(InUseError, match=r"another process is writing .*out\.npz"):
            lock_work(folder, output, None)
        with pytest.raises(InUseError):
            lock_work(folder, output, Part(2, 2))
        # A part of another division has some of the same work.
        with pytest.raises(InUseError):
            lock_work(folder, output, Part(1, 3))
    with lock_work(folder, output, None):
        for part in (Part(1, 2), None):
            with pytest.raises(InUseError):
                lock_work(folder, output, part)
    lock_work(folder, output, Part(1, 2)).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AsdfError, match=r"cannot write .*file/locks"):
        lock_work(tmp_path / "file" / "locks", tmp_path / "out", None)

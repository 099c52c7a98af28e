"""Two processes do not write one output."""

from __future__ import annotations

import pytest

from asdf.errors import AsdfError, InUseError
from asdf.runs.files import lock_work


def test_two_do_not_write_together(tmp_path):
    output = tmp_path / "out.npz"
    folder = tmp_path / ".progress"
    with lock_work(folder, output), pytest.raises(InUseError, match=r"is writing .*out\.npz"):
        lock_work(folder, output)
    with lock_work(folder, output):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AsdfError, match=r"cannot write .*file/locks"):
        lock_work(tmp_path / "file" / "locks", tmp_path / "out")

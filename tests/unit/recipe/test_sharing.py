"""The files of lists that processes share, which go with the run."""

from pathlib import Path

import numpy as np

from asdf.distributed import shared_files
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import AsdfError
from asdf.recipe.lists import RunLists
from asdf.recipe.run_folders import Folders
from asdf.settings.sections import Sections
from tests.unit.distributed.test_shared_files import Main, files_of


def end_with(folder: Path, error: BaseException | None) -> int:
    """Return how many files are left once `error` has ended the block of a run."""
    folders = Folders(folder, folder, folder, folder / "system", folder / "sad")
    lists = RunLists({}, Sections(), folders, Main(size=2), StopRequest())
    try:
        with lists.sharing():
            assert lists._shared is not None
            lists._shared.array(lambda: np.arange(10))
            assert len(files_of(folders.system)) == 1
            if error is not None:
                raise error
    except type(error) as raised:
        assert raised is error
    return len(files_of(folders.system))


def test_the_files_of_lists_go_with_a_run_that_ends_or_is_asked_to_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(shared_files, "MIN_BYTES", 1)
    stopped = Stopped("the stop file", "after step 3")
    assert end_with(tmp_path / "ended", None) == 0
    assert end_with(tmp_path / "stopped", stopped) == 0
    # As it reaches a run whose program ends with a status.
    left = SystemExit(0)
    left.__context__ = stopped
    assert end_with(tmp_path / "left", left) == 0
    # After a failure another process may still read them.
    assert end_with(tmp_path / "failed", AsdfError("no list")) == 1

"""Small trees laid out as the corpora are distributed."""

import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from asdf.corpora import Reading, choose, read_known
from asdf.trials.lists import open_tree
from asdf.trials.trial_list import TrialList

Lay = Callable[..., Path]
Read = Callable[[str, Path], tuple[TrialList, Reading]]


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """Write label files with their text below a folder, and empty files for the recordings."""

    def lay(files: Mapping[str, str] | None = None, empty: str = "", folder: str = ".") -> Path:
        for name, text in {
            **(files or {}),
            **dict.fromkeys(empty.split("\n") if empty else [], ""),
        }.items():
            path = tmp_path / folder / name.strip()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path / folder

    return lay


@pytest.fixture
def read() -> Read:
    def read(name: str, folder: Path) -> tuple[TrialList, Reading]:
        return read_known(choose(name), open_tree(folder))

    return read


def move_into_tar(folder: Path, archive: Path, within: str) -> None:
    """Move a folder into a tar, in which it is called `within`."""
    with tarfile.open(archive, "w") as tar:
        tar.add(folder, within)
    shutil.rmtree(folder)

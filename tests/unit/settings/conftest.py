"""Every test gets its own singleton, its own current folder, and files by their bare names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from asdf.settings import Settings

Write = Callable[[str], str]


@pytest.fixture(autouse=True)
def fresh_singleton() -> Iterator[None]:
    Settings._instance = None
    yield
    Settings._instance = None


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def init(here: Path) -> Write:
    """Writes init.py, reads it in, and returns its name."""

    def write(text: str) -> str:
        (here / "init.py").write_text(text, encoding="utf-8")
        Settings("init.py")
        return "init.py"

    return write


@pytest.fixture
def runs(here: Path) -> Write:
    """Writes runs.py and returns its name."""

    def write(text: str) -> str:
        (here / "runs.py").write_text(text, encoding="utf-8")
        return "runs.py"

    return write

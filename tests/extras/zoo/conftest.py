"""What tests of the zoo share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from asdf.__main__ import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command; its exit status, output and errors."""

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main([str(word) for word in words])
        return status, *capsys.readouterr()

    return run

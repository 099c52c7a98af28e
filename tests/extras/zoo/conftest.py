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


@pytest.fixture
def done(run: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Run a command that has to succeed; its output."""

    def done(*words: object) -> str:
        status, said, errors = run(*words)
        assert status == 0, errors
        return said

    return done


@pytest.fixture
def failed(run: Callable[..., tuple[int, str, str]]) -> Callable[..., str]:
    """Run a command that has to end with a status and without output; its errors."""

    def failed(status: int, *words: object) -> str:
        ended, said, errors = run(*words)
        assert (ended, said) == (status, ""), errors
        return errors

    return failed

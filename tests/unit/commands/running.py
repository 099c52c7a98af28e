"""Commands that run in this process, and the numbers that they show."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from asdf.__main__ import main


def runner(command: str) -> Callable[..., tuple[int, str, str]]:
    """Return a function of capsys and words that returns status, output and errors."""

    def run(capsys: Any, *words: object) -> tuple[int, str, str]:
        status = main([command, *map(str, words)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def value(out: str, name: str) -> str:
    """Return the first word behind a name at the beginning of a line."""
    return re.search(rf"^ *{re.escape(name)} +(\S+)", out, re.MULTILINE)[1]

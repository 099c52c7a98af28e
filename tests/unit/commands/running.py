"""Commands that run in this process, and the numbers that they show."""

import re
from dataclasses import dataclass
from typing import Any

from asdf.__main__ import main


@dataclass(frozen=True)
class Runner:
    """A command: called with capsys and words it returns status, output and errors."""

    command: str

    def __call__(self, capsys: Any, *words: object) -> tuple[int, str, str]:
        status = main([self.command, *map(str, words)])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    def ok(self, capsys: Any, *words: object) -> str:
        """Return the output of a command that has to succeed."""
        status, out, err = self(capsys, *words)
        assert status == 0, err
        return out

    def refused(self, capsys: Any, expected: int, message: str, *words: object) -> None:
        """Check the status of a command that has to fail, and that its errors say why."""
        status, _, err = self(capsys, *words)
        assert status == expected, err
        assert message in err


def value(out: str, name: str) -> str:
    """Return the first word behind a name at the beginning of a line."""
    return re.search(rf"^ *{re.escape(name)} +(\S+)", out, re.MULTILINE)[1]

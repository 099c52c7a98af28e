"""`metrics.jsonl`: one line per logged step or evaluation, for plots and for other programs.

Invariant: each step and each evaluation of the run has one line, however often the run was killed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.files import write_advice, write_text
from asdf.runs.layout import Layout
from asdf.settings.sections import Sections
from asdf.training.callbacks import Callback


@dataclass(frozen=True)
class _Line:
    """A readable line of the file."""

    text: str
    kind: str
    step: float


class MetricsFile(Callback):
    """Appends records; lines of what a resumed run does again are removed first."""

    def __init__(self, settings: Sections, folder: Path) -> None:
        super().__init__(settings, folder)
        self.path = Layout(folder).metrics
        self._evaluated_steps: set[float] = set()

    def on_start(self, step: int) -> None:
        """Remove the lines of later steps, an end that was none, and unreadable lines.

        A kill or a broken disk leaves those.
        """
        if not self.path.exists():
            return
        lines = [line for line in self._read() if line.step <= step and line.kind != "end"]
        self._write(lines)
        self._evaluated_steps = {line.step for line in lines if line.kind == "evaluation"}

    def on_step(self, record: dict[str, Any]) -> None:
        self._append({"kind": "step", **record})

    def on_evaluation(self, record: dict[str, Any]) -> None:
        # A run that is killed after this line and before evaluations.json is written evaluates
        # once more.
        if record["step"] in self._evaluated_steps:
            step = record["step"]
            lines = self._read()
            self._write([line for line in lines if line.kind != "evaluation" or line.step != step])
        self._append({"kind": "evaluation", **record})

    def on_end(self, record: dict[str, Any]) -> None:
        self._append({"kind": "end", **record})

    def _read(self) -> list[_Line]:
        lines = []
        for text in self.path.read_bytes().splitlines(keepends=True):
            line = _parse_line(text)
            if line is not None:
                lines.append(line)
        return lines

    def _write(self, lines: list[_Line]) -> None:
        write_text(self.path, "".join(line.text for line in lines))

    def _append(self, record: dict[str, Any]) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise AsdfError(write_advice(self.path, error)) from error


def _parse_line(line: bytes) -> _Line | None:
    """Return the line, or None if it is not whole, no record, or not even text."""
    if not line.endswith(b"\n"):
        return None
    try:
        text = line.decode()
        record = json.loads(text)
        return _Line(text, str(record["kind"]), float(record["step"]))
    except (ValueError, KeyError, TypeError):
        return None

"""`metrics.jsonl`: one line a printed step or evaluation, for plots and for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.files import write_advice, write_text
from asdf.settings.sections import Sections
from asdf.training.callbacks import Callback


class MetricsFile(Callback):
    """Appends records; what a resumed run is going to do again is taken out first."""

    def __init__(self, settings: Sections, folder: Path) -> None:
        super().__init__(settings, folder)
        self.path = folder / "metrics.jsonl"

    def on_start(self, step: int) -> None:
        """Drop the lines of later steps, an end that was none, and a last line that a kill left unfinished."""
        if not self.path.exists():
            return
        kept = [line for line in self.path.read_text(encoding="utf-8").splitlines(True) if _step(line) <= step]
        write_text(self.path, "".join(kept))

    def on_step(self, record: dict[str, Any]) -> None:
        self._append({"kind": "step", **record})

    def on_evaluation(self, record: dict[str, Any]) -> None:
        self._append({"kind": "evaluation", **record})

    def on_end(self, record: dict[str, Any]) -> None:
        self._append({"kind": "end", **record})

    def _append(self, record: dict[str, Any]) -> None:
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
        except OSError as error:
            raise AsdfError(write_advice(self.path, error)) from error


def _step(line: str) -> float:
    """The step that a line is about; infinity for one that does not stay."""
    try:
        record = json.loads(line)
        return float(record["step"]) if line.endswith("\n") and record["kind"] != "end" else float("inf")
    except (ValueError, KeyError, TypeError):
        return float("inf")

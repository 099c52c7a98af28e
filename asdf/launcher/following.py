"""What a run tells of itself in its files, for those who watch it from outside."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

from asdf.distributed.stopping import STOPPED
from asdf.runs.evaluations import first_eer
from asdf.trials.how_scored import in_precision

# Python's last line of a traceback, the recipes' own errors, torchrun's word on a killed process.
_ERROR = re.compile(
    r"(\[rank ?\d+\]:? )?(error: |[\w.]+(Error|Exception|Interrupt)(: \S|$))|.*Signal \d+ \(SIG\w+\)"
)
_KILLED = re.compile(r"Signal (\d+) \(SIG\w+\)")
_TAIL_BYTES = 1 << 16


class Metrics:
    """Follows a metrics.jsonl: the newest epoch, and the newest EER (a fraction) on the first validation set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.epoch: float | None = None
        self.eer: float | None = None
        self._scored = ""
        self._file, self._place = 0, 0

    def look(self) -> str:
        """Read what is new; the place of the run in words, e.g. 'epoch 3.4, EER 2.113 %'."""
        try:
            with self.path.open("rb") as file:
                status = self.path.stat()
                # A resumed run replaces the file by a shorter one.
                if status.st_ino != self._file or status.st_size < self._place:
                    self._file, self._place = status.st_ino, 0
                file.seek(self._place)
                new = file.read()
        except OSError:
            new = b""
        whole = new[: new.rfind(b"\n") + 1]
        self._place += len(whole)
        for line in whole.splitlines():
            self._take(line)
        words = [] if self.epoch is None else [f"epoch {self.epoch:.1f}"]
        eer = [] if self.eer is None else [f"EER {100 * self.eer:.3f} %{self._scored}"]
        return ", ".join(words + eer)

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            self.epoch = float(record["epoch"])
            if record["kind"] == "evaluation":
                self.eer = float(first_eer(record["eer"]))
                self._scored = in_precision(record.get("scoring_precision"))
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
            return


def log_lines(path: Path, start: int) -> list[str]:
    """The last lines of a log that are not empty, none from before byte `start`."""
    try:
        with path.open("rb") as file:
            file.seek(max(start, path.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.strip() for line in re.split(r"[\r\n]+", text) if line.strip()]


def explain_failure(status: int, lines: list[str]) -> str:
    """Why a run failed, the reason first: a table shows only as much as its line holds.

    Args:
        status: as `subprocess` gives it; -9 where SIGKILL ended the run.
        lines: of the log; the last that names an error is the reason. A last line of another kind
            is shown as what it is: how far the run came, not why it ended.
    """
    errors = [line for line in lines if _ERROR.match(line)]
    worded = [line for line in lines if re.search(r"\w", line)]
    reason = errors[-1] if errors else ""
    killed = _KILLED.search(reason)
    if killed:
        return f"a process was {_describe_kill(int(killed[1]))}"
    if status < 0:
        after = f", after {reason}" if reason else ""
        return f"{_describe_kill(-status)}{after}"
    if reason:
        return f"{reason} (exit status {status})"
    last = f"the last line is: {worded[-1]}" if worded else "it is empty"
    return f"exit status {status}, no reason in its log; {last}"


def _describe_kill(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:  # a real-time signal
        name = f"signal {number}"
    return f"killed by {name}{' (out of memory?)' * (name == 'SIGKILL')}"


def was_stopped(lines: list[str]) -> bool:
    """Whether a run says that it was asked to stop and did; its exit status is that of a run with no more to do."""
    return any(line.startswith(f"{STOPPED} ") for line in lines)

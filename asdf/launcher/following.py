"""Observation of a run: its progress from metrics.jsonl, and its failure from its log."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from asdf.distributed.stopping import STOPPED
from asdf.runs.evaluations import first_value
from asdf.trials.how_scored import in_precision

# The last line of a Python traceback, errors of recipes, and torchrun's message on a killed
# process.
_ERROR = re.compile(
    r"(\[rank ?\d+\]:? )?(error: |[\w.]+(Error|Exception|Interrupt)(: \S|$))"
    r"|.*Signal \d+ \(SIG\w+\)"
)
_KILLED = re.compile(r"Signal (\d+) \(SIG\w+\)")
_WORD = re.compile(r"\w")
_TAIL_BYTES = 1 << 16


class Progress:
    """Reads the newest epoch, and the newest results on the first validation set, from a
    metrics.jsonl.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epoch = ""
        self._eer = ""
        self._inode = 0
        self._position = 0

    def read(self) -> str:
        """Read new lines; return the progress of the run, such as 'epoch 3.4, EER 2.113 %'."""
        for line in self._read_new_lines():
            self._take(line)
        return ", ".join(filter(None, [self._epoch, self._eer]))

    def _read_new_lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                status = self._path.stat()
                # A resumed run replaces the file by a shorter one.
                if status.st_ino != self._inode or status.st_size < self._position:
                    self._inode = status.st_ino
                    self._position = 0
                file.seek(self._position)
                new = file.read()
        except OSError:
            return []
        # The last line may be incomplete: it is read again when it is complete.
        end = new.rfind(b"\n") + 1
        self._position += end
        return new[:end].splitlines()

    def _take(self, line: bytes) -> None:
        """Read epoch and EER from a line; a malformed line changes nothing further."""
        try:
            record = json.loads(line)
            self._epoch = f"epoch {float(record['epoch']):.1f}"
            if record["kind"] == "evaluation":
                # The results on the first validation set: 'EER 2.113 %, min_dcf 0.1234'.
                text = f"EER {100 * float(first_value(record['eer'])):.3f} %"
                metric = record.get("validation_metric")
                if metric is not None:
                    text += f", {metric} {float(first_value(record[metric])):.4f}"
                self._eer = text + in_precision(record.get("scoring_precision"))
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration):
            return


def log_lines(path: Path, start: int) -> list[str]:
    """Return the last non-empty lines of a log, starting at byte `start` at the earliest."""
    try:
        with path.open("rb") as file:
            # A log may have gigabytes; the reason of a failure is near its end.
            file.seek(max(start, path.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = map(str.strip, re.split(r"[\r\n]+", text))
    return list(filter(None, lines))


def explain_failure(status: int, lines: Sequence[str]) -> str:
    """Return why a run failed, the reason first, because a table shows only one line.

    Args:
        status: Exit status as in `subprocess`; -9 if SIGKILL ended the run.
        lines: Lines of the log; the last one that states an error is the reason. If there is none,
            the last line is shown as the progress of the run.
    """
    reason = _last_match(_ERROR.match, lines)
    killed = _KILLED.search(reason)
    if killed:
        return f"a process was {_describe_kill(int(killed[1]))}"
    if status < 0:
        after = f", after {reason}" if reason else ""
        return f"{_describe_kill(-status)}{after}"
    if reason:
        return f"{reason} (exit status {status})"
    last = _last_match(_WORD.search, lines)
    where = f"the last line is: {last}" if last else "it is empty"
    return f"exit status {status}, no reason in its log; {where}"


def was_stopped(lines: Sequence[str]) -> bool:
    """Whether a run reports that it stopped on request.

    Its exit status is the same as that of a run with nothing left to do.
    """
    return any(line.startswith(f"{STOPPED} ") for line in lines)


def _last_match(match: Callable[[str], re.Match[str] | None], lines: Sequence[str]) -> str:
    """Return the last line that matches; '' if none does."""
    for line in reversed(lines):
        if match(line):
            return line
    return ""


def _describe_kill(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        # A real-time signal has no name.
        return f"killed by signal {number}"
    # The log cannot say so: the kernel kills silently when memory runs out.
    cause = " (out of memory?)" if name == "SIGKILL" else ""
    return f"killed by {name}{cause}"

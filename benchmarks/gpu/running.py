"""Runs groups of checks, each in a separate process.

Invariant: whatever a check does (raise, crash, hang, break the device), all later checks and groups
still run, and every check has at least one line. A process that ends early is restarted for the
remaining checks; one that takes too long is killed with its descendants.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import IO

from asdf.launcher import kill_tree
from benchmarks.gpu.groups import PATIENCE, Group, Setup
from benchmarks.gpu.verdict import Line, failed, not_run
from benchmarks.harness import ROOT


@dataclass
class Outcome:
    """The lines of a group, and its duration in seconds."""

    group: Group
    lines: list[Line] = field(default_factory=list)
    seconds: float = 0.0


class GroupRun:
    """A running group; `lines` yields its results as they arrive.

    Args:
        log: File for the output of its process, open for writing.
    """

    def __init__(self, group: Group, setup: Setup, log: IO[bytes]) -> None:
        self.group, self._setup, self._log = group, setup, log
        self._waiting = list(import_module(group.module).CHECKS)
        self._limit_s = PATIENCE * setup.patience * group.budget_s
        self._deadline = time.monotonic() + self._limit_s
        self._process: subprocess.Popen[bytes] | None = None

    def lines(self) -> Iterator[Line]:
        """Yield results; at the end each check has at least one."""
        while self._waiting:
            before = len(self._waiting)
            yield from self._lines_of_a_process()
            if len(self._waiting) == before:
                # It ended before its first check.
                yield from self.give_up(f"its process ended with status {self._status()}")

    def give_up(self, reason: str) -> list[Line]:
        """End the process and return NOT RUN for all remaining checks."""
        self.end()
        lines = [not_run(check, reason) for check in self._waiting]
        self._waiting = []
        return lines

    def end(self) -> None:
        """End the process and its descendants."""
        if self._process is not None and self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.wait()

    def _status(self) -> int | None:
        return self._process.wait() if self._process is not None else None

    def _lines_of_a_process(self) -> Iterator[Line]:
        running = ""
        has_line = False
        for message in self._messages():
            if message is None:
                self.end()
                if running:
                    self._waiting.remove(running)
                    yield failed(
                        running, f"not done when the group had run {self._limit_s:g} s: it hangs"
                    )
                yield from self.give_up("the time of the group was spent")
                return
            if "check" in message:
                running = message["check"]
                has_line = False
            elif "line" in message:
                has_line = True
                yield Line(**message["line"])
            else:
                self._waiting.remove(message["done"])
                if not has_line:
                    yield failed(running, "it gave no result")
                running = ""
        if running:
            self._waiting.remove(running)
            yield failed(running, f"its process ended with status {self._status()}; see the log")

    def _messages(self) -> Iterator[dict | None]:
        """Yield the messages of the process until its end; None when the time is over."""
        setup = json.dumps(asdict(self._setup))
        words = [self.group.module, str(self.group.budget_s), setup, *self._waiting]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu.worker", *words],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # Ctrl-C reaches the parent alone
        )
        assert self._process.stdout is not None
        texts: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(
            target=_forward, args=(self._process.stdout, texts.put), daemon=True
        ).start()
        while True:
            try:
                text = texts.get(timeout=max(0.01, self._deadline - time.monotonic()))
            except queue.Empty:
                yield None
                return
            if text is None:
                return
            yield json.loads(text)


def _forward(stream: IO[bytes], put: Callable[[bytes | None], None]) -> None:
    """Forward each line, and None at the end."""
    for line in stream:
        put(line)
    put(None)

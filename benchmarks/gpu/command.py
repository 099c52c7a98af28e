"""The command line of `python -m benchmarks gpu`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType
from typing import IO, Any

import benchmarks.gpu
from benchmarks.gpu.groups import GROUPS, Group, Setup
from benchmarks.gpu.report import NAME, counts, title, totals, write_report
from benchmarks.gpu.running import GroupRun, Outcome
from benchmarks.gpu.verdict import FAIL
from benchmarks.harness import log_line

NO_GPU, STOPPED = 2, 130


def main(words: list[str]) -> int:
    options = _arguments(words)
    chosen = [group for group in GROUPS if not options.only or group.name in options.only]
    if options.list:
        print(listing(chosen))
        return 0
    import torch

    gpus = torch.cuda.device_count()
    if not gpus:
        print(
            "error: python -m benchmarks gpu needs an NVIDIA GPU, and torch sees none here "
            f"(torch {torch.__version__}). `python -m benchmarks gpu --list` lists its checks; "
            "without "
            "a GPU, `python -m benchmarks` measures what a CPU can.",
            file=sys.stderr,
        )
        return NO_GPU
    options.output.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="asdf-gpu-", ignore_cleanup_errors=True) as folder,
        (options.output / "log.txt").open("wb") as log,
    ):
        setup = Setup(options.quick, folder, gpus, options.patience)
        return _Run(chosen, setup, options.output / NAME, log).all()


def listing(groups: list[Group]) -> str:
    """Return the list of checks."""
    lines = [f"{group.name:11}{group.budget_s:4g} s  {group.about}" for group in groups]
    total = sum(group.budget_s for group in groups)
    return "\n".join([*lines, f"{'':11}{total:4g} s  at most, on one GPU"])


class _Run:
    """Runs the groups in turn; `all` returns the exit status."""

    def __init__(self, groups: list[Group], setup: Setup, path: Path, log: IO[bytes]) -> None:
        self._groups, self._setup, self._path, self._log = groups, setup, path, log
        self._outcomes: list[Outcome] = []
        self._machine: dict[str, Any] = {}

    def all(self) -> int:
        from benchmarks.gpu.machine import describe

        self._machine = describe()
        log_line(self._machine["line"])
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            for position, group in enumerate(self._groups, 1):
                log_line(f"\n[{position} of {len(self._groups)}] {group.name}: {group.about}")
                self._run_group(group)
                self._write("running")
            state = "finished"
        except KeyboardInterrupt:
            state = "stopped"
        finally:
            signal.signal(signal.SIGTERM, before)
        self._write(state)
        print(f"{totals(self._outcomes)}. Send this file to the project: {self._path}")
        if state == "stopped":
            return STOPPED
        return 1 if counts(self._outcomes)[FAIL] else 0

    def _run_group(self, group: Group) -> None:
        outcome, began = Outcome(group), time.monotonic()
        self._outcomes.append(outcome)
        run = GroupRun(group, self._setup, self._log)
        try:
            for line in run.lines():
                outcome.lines.append(line)
                log_line(f"  {line.text()}")
        except KeyboardInterrupt:
            outcome.lines += run.give_up("stopped by the user")
            raise
        finally:
            run.end()
            outcome.seconds = time.monotonic() - began
        log_line(f"  {title(outcome)}")

    def _write(self, state: str) -> None:
        write_report(self._path, self._machine, self._setup.quick, self._outcomes, state)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks gpu", description=benchmarks.gpu.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    names = [group.name for group in GROUPS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="GROUP", help="these groups")
    parser.add_argument("--list", action="store_true", help="say what is checked, and end")
    parser.add_argument("--quick", action="store_true", help="everything small")
    parser.add_argument(
        "--patience", type=float, default=1.0, metavar="N", help="multiply all time limits"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("asdf-gpu-report"),
        metavar="FOLDER",
        help=f"where {NAME} and log.txt are written (asdf-gpu-report); the log may name paths",
    )
    return parser.parse_args(words)

"""What a launch shows: states while it goes on, EERs when it is over.

On a terminal the states are a table that is drawn anew in its place; elsewhere each change of a state is a line.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from asdf.launcher.states import Job
from asdf.text import printable

_ORDER = ("running", "failed", "waiting", "stopped", "done")


class Table:
    """Shows the states of jobs on `screen`."""

    def __init__(self, screen: TextIO) -> None:
        self._screen, self._in_place = screen, screen.isatty()
        self._shown: list[str] = []
        self._told: dict[str, str] = {}

    def say(self, text: str) -> None:
        """A line that stays; the table goes on below it."""
        self._screen.write(printable(text) + "\n")
        self._screen.flush()
        self._shown = []

    def show(self, jobs: Sequence[Job]) -> None:
        """Bring what is shown up to date."""
        if self._in_place:
            self._draw(jobs)
            return
        for job in jobs:
            # A running job's progress is in its log; a line for each epoch of each run would only bury the others.
            words = f"log {shown_path(job.log)}" if job.state == "running" else _words(job)
            told = ", ".join(filter(None, [f"{job.config}: {job.state}", words]))
            if told != self._told.get(job.config, f"{job.config}: waiting"):
                self.say(told)
            self._told[job.config] = told

    def _draw(self, jobs: Sequence[Job]) -> None:
        columns, height = shutil.get_terminal_size()
        width = max(len(job.config) for job in jobs)
        rows = [f"{job.config:<{width}}  {job.state:<7}  {_words(job)}".rstrip() for job in jobs]
        most = max(height - 2, 1)
        if len(rows) > most:
            # What does not fit could not be drawn over: the jobs that matter most now are shown.
            by_interest = sorted(range(len(jobs)), key=lambda i: _ORDER.index(jobs[i].state))
            rows = [rows[i] for i in by_interest[: most - 1]] + [_counts(jobs)]
        rows = [printable(row, one_line=True)[: columns - 1] for row in rows]
        if rows == self._shown:
            return
        up = f"\x1b[{len(self._shown)}A" if self._shown else ""
        # Each line is cleared behind its text, and what an earlier table left below this one.
        self._screen.write(up + "".join(f"{row}\x1b[K\n" for row in rows) + "\x1b[J")
        self._screen.flush()
        self._shown = rows


def summary(jobs: Sequence[Job]) -> str:
    """The end of a launch: EERs by config and evaluation set, then what failed and what is unfinished."""
    lines = []
    sets = list(dict.fromkeys(name for job in jobs for _, name in job.results))
    if sets:
        rows = [["config", "epoch", *sets]]
        for job in jobs:
            for epoch in dict.fromkeys(epoch for epoch, _ in job.results):
                eers = [job.results.get((epoch, name)) for name in sets]
                rows.append(
                    [
                        job.config,
                        epoch,
                        *("-" if eer is None else f"{100 * eer:.3f}" for eer in eers),
                    ]
                )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines.append("EER %")
        for row in rows:
            names = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
            eers_cells = [
                cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)
            ]
            lines.append("  ".join(names + eers_cells))
    lines += [
        f"{job.config} failed: {job.detail}\n  log: {job.log}"
        for job in jobs
        if job.state == "failed"
    ]
    unfinished = [job.config for job in jobs if job.state in ("stopped", "waiting")]
    if unfinished:
        lines.append(f"unfinished: {', '.join(unfinished)}. The same command goes on with them.")
    return "\n".join([_counts(jobs), *lines])


def shown_path(path: Path) -> str:
    """A path as short as it can be typed here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _counts(jobs: Sequence[Job]) -> str:
    states = [job.state for job in jobs]
    counts = [f"{states.count(state)} {state}" for state in reversed(_ORDER) if state in states]
    return f"{len(jobs)} runs: {', '.join(counts)}"


def _words(job: Job) -> str:
    if job.state == "failed":
        return f"{job.detail}, log {shown_path(job.log)}"
    if job.results:
        first = next(iter(job.results))[0]
        eers = [
            f"{name} {100 * eer:.3f} %"
            for (epoch, name), eer in job.results.items()
            if epoch == first
        ]
        return ", ".join(filter(None, [f"EER of {first}: {', '.join(eers)}", job.detail]))
    return job.detail

"""Display of a launch: states while it runs, EERs and other selection metrics at its end.

On a terminal, the states are a table that is redrawn in place; elsewhere, each change of a state is
a line.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from asdf.launcher.states import Job, JobResult, State
from asdf.text import aligned, printable

# The states in the order of interest, highest first.
_BY_INTEREST: tuple[State, ...] = ("running", "failed", "waiting", "stopped", "done")
# Terminal commands: move up by a number of lines, clear the rest of a line, clear everything below.
_UP = "\x1b[{}A"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"


class _Value(NamedTuple):
    """A number in a run's results."""

    config: str
    network: str
    set: str
    number: float


class Table:
    """Shows the states of jobs on `screen`."""

    def __init__(self, screen: TextIO) -> None:
        self._screen = screen
        self._is_terminal = screen.isatty()
        self._drawn: list[str] = []
        self._printed: dict[str, str] = {}

    def print_line(self, text: str) -> None:
        """Print a permanent line; the table continues below it."""
        self._screen.write(printable(text) + "\n")
        self._screen.flush()
        self._drawn = []

    def show(self, jobs: Sequence[Job]) -> None:
        """Update the display."""
        if self._is_terminal:
            self._draw(jobs)
        else:
            self._print_changes(jobs)

    def _print_changes(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            words = _detail(job)
            if job.state == "running":
                # A line for each epoch of each run would hide the others; epochs are in the run's
                # log.
                words = f"log {shown_path(job.log)}"
            line = ", ".join(filter(None, [f"{job.label}: {job.state}", words]))
            # All jobs wait at first, which needs no line.
            if line != self._printed.get(job.label, f"{job.label}: waiting"):
                self.print_line(line)
            self._printed[job.label] = line

    def _draw(self, jobs: Sequence[Job]) -> None:
        columns, height = shutil.get_terminal_size()
        # The cursor and a prompt need lines below the table. Rows beyond the screen could not be
        # redrawn.
        max_rows = max(height - 2, 1)
        fits = len(jobs) <= max_rows
        shown: Sequence[Job] = jobs
        if not fits:
            by_interest = sorted(jobs, key=lambda job: _BY_INTEREST.index(job.state))
            shown = by_interest[: max_rows - 1]
        width = max(len(job.label) for job in jobs)
        texts = [_row(job, width) for job in shown]
        if not fits:
            texts.append(_counts(jobs))
        # A longer line would wrap, and moving up would be one line short.
        rows = [printable(text, one_line=True)[: columns - 1] for text in texts]
        if rows == self._drawn:
            return
        parts = [_UP.format(len(self._drawn))] if self._drawn else []
        for row in rows:
            parts += [row, _CLEAR_LINE, "\n"]
        # An earlier table may have been longer.
        parts.append(_CLEAR_BELOW)
        # Written at once, so that the terminal does not flicker.
        self._screen.write("".join(parts))
        self._screen.flush()
        self._drawn = rows


def summary(jobs: Sequence[Job], with_results: bool = True) -> str:
    """Return the end of a launch: results by config and set, failed and unfinished runs.

    Results are EERs and, for runs that chose networks by other metrics, a table of each metric.

    Args:
        with_results: Whether to include results; False for folds, whose sets differ and which have
            another table.
    """
    lines = [_counts(jobs)]
    if with_results:
        lines += _result_lines(jobs)
    for job in jobs:
        if job.state == "failed":
            lines.append(f"{job.label} failed: {job.detail}\n  log: {job.log}")
    unfinished = [job.label for job in jobs if job.state in ("stopped", "waiting")]
    if unfinished:
        lines.append(f"unfinished: {', '.join(unfinished)}. The same command continues them.")
    return "\n".join(lines)


def _result_lines(jobs: Sequence[Job]) -> list[str]:
    """Return the tables of EERs and of other selection metrics."""
    rates = [_Value(job.label, row.network, row.set, 100 * row.eer) for job, row in _rows(jobs)]
    lines = _value_lines("EER %", rates, digits=3)
    for metric in dict.fromkeys(row.metric for _, row in _rows(jobs) if row.metric):
        values = []
        for job, row in _rows(jobs):
            if row.metric == metric and row.value is not None:
                values.append(_Value(job.label, row.network, row.set, row.value))
        lines += _value_lines(metric, values, digits=4)
    return lines


def list_runs(jobs: Sequence[Job]) -> str:
    """Return the runs of a launch that is not started, with their folders, one per line."""
    rows = []
    for job in jobs:
        state = f"{job.state}, {job.detail}" if job.detail else job.state
        rows.append([job.label, state, shown_path(job.system)])
    return "\n".join(aligned(rows))


def shown_path(path: Path) -> str:
    """Return a path as short as possible, relative to the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _row(job: Job, width: int) -> str:
    return f"{job.label:<{width}}  {job.state:<7}  {_detail(job)}".rstrip()


def _detail(job: Job) -> str:
    """Return details of a job besides its state."""
    if job.state == "failed":
        return f"{job.detail}, log {shown_path(job.log)}"
    if not job.results:
        return job.detail
    first = job.results[0].network
    values = []
    # A line has room for one network; the summary at the end shows all.
    for result in job.results:
        if result.network == first:
            shown = f"{result.set} {100 * result.eer:.3f} %"
            if result.value is not None:
                shown += f" ({result.metric} {result.value:.4f})"
            values.append(shown)
    words = f"EER of {first}: {', '.join(values)}"
    return f"{words}, {job.detail}" if job.detail else words


def _counts(jobs: Sequence[Job]) -> str:
    """Return the number of jobs in each state, the finished ones first."""
    counts = Counter(job.state for job in jobs)
    words = []
    for state in reversed(_BY_INTEREST):
        if counts[state]:
            words.append(f"{counts[state]} {state}")
    return f"{len(jobs)} runs: {', '.join(words)}"


def _rows(jobs: Sequence[Job]) -> Iterator[tuple[Job, JobResult]]:
    for job in jobs:
        for result in job.results:
            yield job, result


def _value_lines(title: str, values: Sequence[_Value], digits: int) -> list[str]:
    """Return a row per config and network, a column per set; [] without values."""
    if not values:
        return []
    sets = list(dict.fromkeys(value.set for value in values))
    by_network: dict[tuple[str, str], dict[str, float]] = {}
    for value in values:
        by_network.setdefault((value.config, value.network), {})[value.set] = value.number
    rows = [["config", "epoch", *sets]]
    for (config, network), numbers in by_network.items():
        cells = []
        for name in sets:
            cells.append(f"{numbers[name]:.{digits}f}" if name in numbers else "-")
        rows.append([config, network, *cells])
    return [title, *aligned(rows, right=range(2, len(rows[0])))]

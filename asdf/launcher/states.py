"""The runs of a launch and their states, in memory, in `launch.json` and on the screen.

Invariant: a run counts as done only if it ended successfully with the settings that it would get
now, and nothing else has run in its system folder since. It may have been run by a launch, a
cluster job, or by hand. The state is stored in that folder and disappears with it.

On a terminal, the states are a table that is redrawn in place; elsewhere, each change of a state is
a line.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from asdf.runs.layout import Layout
from asdf.runs.start_records import read_starts, was_finished
from asdf.settings import Sections
from asdf.settings.loading import read_init_config
from asdf.text import aligned, and_more, count_of, printable
from asdf.trials.how_scored import described_set

State = Literal["waiting", "running", "done", "failed", "stopped"]

# Settings that change only where or how fast a run computes: a finished run stays finished if they
# change.
_PLACE_OR_SPEED = (
    "use_gpu",
    "gpu_ids",
    "backend",
    "timeout_s",
    "threads",
    "network_dataloader_workers",
    "profile_steps",
)

# The states in the order of interest, highest first.
_BY_INTEREST: tuple[State, ...] = ("running", "failed", "waiting", "stopped", "done")
# Terminal commands: move up by a number of lines, clear the rest of a line, clear everything below.
_UP = "\x1b[{}A"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"


@dataclass(frozen=True)
class JobResult:
    """The EER (a fraction) of a network on a set.

    Attributes:
        network: Name of the network: 'epoch.20', 'best', ...
        set: Name of the set, with the precision of its scores if it is not fp32.
        metric: Selection metric of the networks; '' if it is the EER.
        value: Value of that metric on the set.
    """

    network: str
    set: str
    eer: float
    metric: str = ""
    value: float | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any], set_name: str) -> JobResult:
        """Return the result in a row of results.json, or of launch.json.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: the row is malformed.
        """
        metric = row.get("validation_metric")
        if metric is None:
            return cls(str(row["epoch"]), set_name, float(row["eer"]))
        value = float(row["validation_value"])
        return cls(str(row["epoch"]), set_name, float(row["eer"]), str(metric), value)

    def row(self) -> dict[str, Any]:
        """Return the row of launch.json, which `from_row` reads."""
        row: dict[str, Any] = {"epoch": self.network, "set": self.set, "eer": self.eer}
        if self.metric:
            row |= {"validation_metric": self.metric, "validation_value": self.value}
        return row


@dataclass
class Job:
    """One run of a launch: a config with a point applied, and its state.

    Attributes:
        name: Name of the config and the point, for the screen.
        overrides: Arguments after the config's name on the run's command line.
        output: Folder of all systems, which usually contains that of the run.
        modules: Folder of the recipe, for modules of your own.
        slots_needed: Number of slots that the run takes.
        detail: Text that the table shows after the state.
        results: Rows of the run's results.json.
    """

    name: str
    config: str
    overrides: list[str]
    system: Path
    settings: Sections = field(default_factory=Sections)
    output: Path = Path()
    modules: Path | None = None
    slots_needed: int = 1
    state: State = "waiting"
    detail: str = ""
    results: list[JobResult] = field(default_factory=list)

    @property
    def digest(self) -> str:
        """A digest of the settings that the run's outcome depends on."""
        # Sorted, because a later version may define the same settings in another order.
        text = json.dumps(outcome_settings(self.settings), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def layout(self) -> Layout:
        """The paths in the run's folder."""
        return Layout(self.system)

    @property
    def log(self) -> Path:
        """All output of the run, one start after another."""
        return self.layout.launch_log

    def restore_state(self) -> None:
        """Mark the job as done if the run is finished and nothing has changed since."""
        try:
            saved = json.loads(self.layout.launch_state.read_text(encoding="utf-8"))
            is_done = (
                saved["state"] == "done"
                and saved["digest"] == self.digest
                and saved["last_run"] == self._last_run_digest()
            )
            results = [JobResult.from_row(row, row["set"]) for row in saved["results"]]
            database = saved.get("database")
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # An unreadable state counts as none: the run waits.
            is_done = False
        if is_done:
            self.mark_done(results, "by an earlier launch", database)
            return
        # A run by hand, or a task of a job array, may have ended successfully here.
        if not was_finished(self.layout.environment):
            return
        try:
            last = read_init_config(self.layout.settings, self.modules).sections()
        except AsdfError:
            return
        # Digests would not do: a default of 20 becomes 20.0 when it is read from a file.
        if outcome_settings(last) == outcome_settings(self.settings):
            results = read_results(self.layout.results_json)
            self.mark_done(results, "by an earlier run", last.paths.database_folder)

    def mark_done(self, results: list[JobResult], how: str = "", database: object = None) -> None:
        """Mark the job as done; the detail names another database folder, and other settings of
        earlier steps, that its results rest on."""
        self.state, self.results = "done", results
        starts = read_starts(self.layout.environment)
        changes = [start["changes"] for start in starts if "changes" in start]
        words = [how, and_more(changes[-1], 1) if changes else ""]
        if database not in (None, self.settings.paths.database_folder):
            words.append(f"paths.database_folder was {database}")
        self.detail = ", ".join(filter(None, words))

    def save_state(self) -> None:
        """Save the state for a later launch.

        Raises:
            AsdfError: the system folder cannot be written.
        """
        saved: dict[str, Any] = {
            "config": self.config,
            "state": self.state,
            "detail": self.detail,
            "digest": self.digest,
            "database": self.settings.paths.database_folder,
            "last_run": self._last_run_digest(),
            "results": [result.row() for result in self.results],
        }
        text = json.dumps(saved, indent=1, ensure_ascii=False)
        write_text(self.layout.launch_state, text + "\n")

    def _last_run_digest(self) -> str:
        """Return a digest of the settings of the last run in the folder; '' without one."""
        try:
            return hashlib.sha256(self.layout.settings.read_bytes()).hexdigest()
        except FileNotFoundError:
            return ""


def outcome_settings(settings: Sections) -> dict[str, dict[str, Any]]:
    """Return the settings that a run's outcome depends on, by section and name.

    These exclude folders, and settings that change only where or how fast the run computes.
    """
    values = {section: dict(named) for section, named in settings.plain().items()}
    del values["paths"]
    for name in _PLACE_OR_SPEED:
        values["computing"].pop(name, None)
    return values


def read_results(path: Path) -> list[JobResult]:
    """Return the rows of a results.json; [] if the file is missing or malformed.

    The name of a set scored in another precision than fp32 includes it: 'dev, in bf16'.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [JobResult.from_row(row, described_set(row)) for row in rows]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


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
            return
        for job in jobs:
            # A line for each epoch of each run would hide the others; epochs are in the run's log.
            is_running = job.state == "running"
            words = f"log {shown_path(job.log)}" if is_running else _detail(job)
            line = ", ".join(filter(None, [f"{job.name}: {job.state}", words]))
            # All jobs wait at first, which needs no line.
            if line != self._printed.get(job.name, f"{job.name}: waiting"):
                self.print_line(line)
            self._printed[job.name] = line

    def _draw(self, jobs: Sequence[Job]) -> None:
        columns, height = shutil.get_terminal_size()
        # The cursor and a prompt need lines below the table. Rows beyond the screen could not be
        # redrawn.
        max_rows = max(height - 2, 1)
        shown = list(jobs)
        if len(jobs) > max_rows:
            shown.sort(key=lambda job: _BY_INTEREST.index(job.state))
            del shown[max_rows - 1 :]
        width = max(len(job.name) for job in jobs)
        texts = [f"{job.name:<{width}}  {job.state:<7}  {_detail(job)}".rstrip() for job in shown]
        if len(shown) < len(jobs):
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
    results = [(job.name, result) for job in jobs if with_results for result in job.results]
    cells_of = {"EER %": [(label, row, f"{100 * row.eer:.3f}") for label, row in results]}
    for label, row in results:
        if row.metric and row.value is not None:
            cells_of.setdefault(row.metric, []).append((label, row, f"{row.value:.4f}"))
    for title, cells in cells_of.items():
        sets = list(dict.fromkeys(row.set for _, row, _ in cells))
        by_network: dict[tuple[str, str], dict[str, str]] = {}
        for label, row, cell in cells:
            by_network.setdefault((label, row.network), {})[row.set] = cell
        table = [["config", "epoch", *sets]]
        for names, known in by_network.items():
            table.append([*names, *(known.get(name, "-") for name in sets)])
        if cells:
            lines += [title, *aligned(table, right=range(2, len(table[0])))]
    for job in jobs:
        if job.state == "failed":
            lines.append(f"{job.name} failed: {job.detail}\n  log: {job.log}")
    unfinished = [job.name for job in jobs if job.state in ("stopped", "waiting")]
    if unfinished:
        lines.append(f"unfinished: {', '.join(unfinished)}. The same command continues them.")
    return "\n".join(lines)


def list_runs(jobs: Sequence[Job]) -> str:
    """Return the runs of a launch that is not started, with their folders, one per line."""
    states = [f"{job.state}, {job.detail}" if job.detail else job.state for job in jobs]
    rows = [[job.name, x, shown_path(job.system)] for job, x in zip(jobs, states, strict=True)]
    return "\n".join(aligned(rows))


def shown_path(path: Path) -> str:
    """Return a path as short as possible, relative to the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _detail(job: Job) -> str:
    """Return details of a job besides its state."""
    if job.state == "failed":
        return f"{job.detail}, log {shown_path(job.log)}"
    if not job.results:
        return job.detail
    # A line has room for one network; the summary at the end shows all.
    first = job.results[0].network
    values = []
    for result in [result for result in job.results if result.network == first]:
        value = "" if result.value is None else f" ({result.metric} {result.value:.4f})"
        values.append(f"{result.set} {100 * result.eer:.3f} %{value}")
    words = f"EER of {first}: {', '.join(values)}"
    return f"{words}, {job.detail}" if job.detail else words


def _counts(jobs: Sequence[Job]) -> str:
    """Return the number of jobs in each state, the finished ones first."""
    counts = Counter(job.state for job in jobs)
    words = [f"{counts[state]} {state}" for state in reversed(_BY_INTEREST) if counts[state]]
    return f"{count_of(len(jobs), 'run')}: {', '.join(words)}"

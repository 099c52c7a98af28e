"""The profile of some optimiser steps (`computing.profile_steps`): a trace, and a table of times.

Invariant: a profile does not change any result of training. It includes work between the steps,
such as a checkpoint, but not an evaluation of the network: the profile ends before that, or with
the epoch, and its files are named by the steps that they contain.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity

from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.runs.files import atomic_write, write_text
from asdf.runs.log import LOG
from asdf.training.instruments.clock import BACKWARD, COMMUNICATION, FORWARD, PARTS, StepClock

_NOTE = (
    "Times include the profiler's own. Waiting for slower processes is part of the communication; "
    "communication that overlaps with computing is not counted. Open the .json.gz in "
    "https://ui.perfetto.dev."
)


class Interval(NamedTuple):
    """An interval from `start` to `end`, in any unit of time."""

    start: float
    end: float


class _Change(NamedTuple):
    """The start (+1) or end (-1) of an interval of a set; sorted by time."""

    time: float
    set_number: int
    step: int


def length_alone(
    what: Iterable[Interval], without: Iterable[Interval], inside: Iterable[Interval]
) -> float:
    """Return the time covered by `what` and by `inside`, but not by `without`.

    The intervals of each may overlap and come in any order.
    """
    changes = []
    for set_number, intervals in enumerate((what, without, inside)):
        for start, end in intervals:
            changes.append(_Change(start, set_number, 1))
            changes.append(_Change(end, set_number, -1))
    changes.sort()
    open_intervals = [0, 0, 0]
    total = 0.0
    for change, following in pairwise(changes):
        open_intervals[change.set_number] += change.step
        what_count, without_count, inside_count = open_intervals
        # A count may be -1 for no time: the end of an interval of zero length sorts first.
        if what_count > 0 and without_count <= 0 and inside_count > 0:
            total += following.time - change.time
    return total


class StepProfile:
    """Profiles this process, the main rank's, during the requested steps.

    Args:
        steps: Numbers of the first and the last step; None for no profile.
        folder: Folder of `steps.FIRST-LAST.json.gz`, a trace for Perfetto, and `.txt`, the table.

    Raises:
        UsageError: the first step comes after the last.
    """

    def __init__(
        self, steps: tuple[int, int] | None, folder: Path, clock: StepClock, world: World
    ) -> None:
        if steps is not None and steps[0] > steps[1]:
            raise UsageError(
                f"computing.profile_steps = {steps}: the first step comes after the last. "
                "Write them as (first, last)."
            )
        self.steps = steps if world.is_main else None
        self.folder = folder
        self.clock = clock
        self.world = world
        self._running: torch.profiler.profile | None = None
        self._first_step = 0
        self._last_step = 0
        self._seconds_before: dict[str, float] = {}

    def begin(self, done: int) -> None:
        """Log if some of the requested steps are among the `done` steps taken before."""
        self._last_step = done
        if self.steps is not None and self.steps[1] <= done:
            LOG.info(
                "computing.profile_steps = %s: nothing is profiled, step %d is done already",
                self.steps,
                done,
            )
            self.steps = None

    def before_step(self, step: int) -> None:
        """Start with the first requested step."""
        self._last_step = step
        if self.steps is None or self._running is not None:
            return
        first, last = self.steps
        if not first <= step <= last:
            return
        activities = [ProfilerActivity.CPU]
        if self.world.device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        else:
            # The profiler would report on stderr that it finds no GPU.
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._running = torch.profiler.profile(activities=activities)
        self._running.start()
        self._first_step = step
        self._seconds_before = self.clock.seconds(wait=True)

    def after_step(self, step: int) -> None:
        """Write the profile after the last requested step."""
        if self.steps is not None and step >= self.steps[1]:
            self.end()

    def end(self) -> None:
        """Write the profile if one is running; it is not restarted if it ended early.

        Raises:
            AsdfError: the files cannot be written.
        """
        profile = self._running
        if profile is None:
            return
        seconds = {}
        for part, now in self.clock.seconds(wait=True).items():
            seconds[part] = now - self._seconds_before[part]
        self.close()
        if self.world.size > 1:
            _move_communication(seconds, profile.events() or (), self.world.device)
        stem = f"steps.{self._first_step}-{self._last_step}"
        path = self.folder / f"{stem}.json.gz"
        _write_trace(profile, path)
        table = self._table(seconds)
        write_text(self.folder / f"{stem}.txt", f"{table}\n\n{_NOTE}\n")
        LOG.info("%s\nprofile written to %s", table, path)

    def close(self) -> None:
        """Stop profiling without writing anything; log if it never began."""
        if self._running is not None:
            self._running.stop()
        elif self.steps is not None:
            LOG.info(
                "computing.profile_steps = %s: nothing was profiled, step %d was the last",
                self.steps,
                self._last_step,
            )
        self._running = None
        self.steps = None

    def _table(self, seconds: Mapping[str, float]) -> str:
        """Return the milliseconds per step of each part, and its percentage."""
        world = self.world
        title = f"steps {self._first_step} to {self._last_step}"
        count = self._last_step - self._first_step + 1
        total = sum(seconds.values())
        lines = [f"{title}, rank {world.rank} of {world.size} on {world.device}", ""]
        lines.append(f"{'':20}{'ms per step':>12}{'%':>8}")
        for part in (*PARTS, "total"):
            value = total if part == "total" else seconds[part]
            lines.append(f"{part:20}{1000 * value / count:12.3f}{100 * value / total:8.1f}")
        return "\n".join(lines)


def _write_trace(profile: torch.profiler.profile, path: Path) -> None:
    # The profiler opens a path by itself, so the file could not appear as a whole.
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(plain))
        with (
            plain.open("rb") as trace,
            atomic_write(path, "wb") as file,
            gzip.open(file, "wb", 6) as packed,
        ):
            shutil.copyfileobj(trace, packed)


def _move_communication(
    seconds: dict[str, float], events: Sequence[FunctionEvent], device: torch.device
) -> None:
    """Move the time of communication from the forward and backward pass to its own part.

    Only time without computation is moved. DistributedDataParallel averages gradients while others
    are still computed, and waits for the rest at the end of the backward pass. Buffers are sent at
    the beginning of the forward pass.
    """
    for part in (FORWARD, BACKWARD):
        if device.type == "cuda":
            communication, computing = _kernels_of(events, part)
            # The host, which has the ranges of the parts, runs ahead of the GPU.
            inside = [Interval(float("-inf"), float("inf"))]
        else:
            communication = _intervals(event for event in events if event.name.startswith("gloo:"))
            computing = _intervals(event for event in events if event.name.startswith("aten::"))
            inside = _intervals(event for event in events if event.name == part)
        alone_us = length_alone(communication, computing, inside)
        exposed = min(alone_us / 1e6, seconds[part])
        seconds[part] -= exposed
        seconds[COMMUNICATION] += exposed


def _kernels_of(
    events: Sequence[FunctionEvent], part: str
) -> tuple[list[Interval], list[Interval]]:
    """Return the times of communication in a part of the step, and of all computing, on a GPU."""
    communication = []
    computing = []
    for event in events:
        if event.device_type.name != "CUDA" or event.is_user_annotation:
            continue
        name = event.name.lower()
        if "nccl" not in name:
            computing.append(event)
        # Gradients are reduced, buffers are broadcast.
        elif ("reduce" in name) == (part == BACKWARD):
            communication.append(event)
    return _intervals(communication), _intervals(computing)


def _intervals(events: Iterable[FunctionEvent]) -> list[Interval]:
    return [Interval(event.time_range.start, event.time_range.end) for event in events]

"""The profile of some optimiser steps (`computing.profile_steps`): a trace to look at, and a table of where time went.

Invariant: a profile changes no number of the training. What lies between the steps, such as a checkpoint, is in it;
an evaluation of the network is not: the profile ends before it, or with the epoch, and its files are named after the
steps that it really holds.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity

from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.runs.files import atomic_write, write_text
from asdf.runs.log import LOG
from asdf.training.instruments.clock import BACKWARD, COMMUNICATION, FORWARD, PARTS, StepClock
from asdf.training.instruments.overlap import Interval, length_alone

_NOTE = (
    "Times include the profiler's own. Waiting for slower processes is part of the communication; what of it happens "
    "behind the computing is not counted. Open the .json.gz in https://ui.perfetto.dev."
)


class StepProfile:
    """Profiles this process, which is the main rank's, during the steps that are asked for.

    Args:
        steps: numbers of the first and the last one; None: none.
        folder: where `steps.FIRST-LAST.json.gz`, a trace for Perfetto, and `.txt`, the table, are written.

    Raises:
        UsageError: the first step comes after the last.
    """

    def __init__(
        self, steps: tuple[int, int] | None, folder: Path, clock: StepClock, world: World
    ) -> None:
        if steps is not None and steps[0] > steps[1]:
            raise UsageError(
                f"computing.profile_steps = {steps}: the first step comes after the last. Write them as (first, last)."
            )
        self.steps = steps if world.is_main else None
        self.folder, self.clock, self.world = folder, clock, world
        self._running: torch.profiler.profile | None = None
        self._first = self._last = 0
        self._before: dict[str, float] = {}

    def begin(self, done: int) -> None:
        """Say so if the steps are among the `done` that were taken before."""
        self._last = done
        if self.steps is not None and self.steps[1] <= done:
            LOG.info(
                "computing.profile_steps = %s: nothing is profiled, step %d is done already",
                self.steps,
                done,
            )
            self.steps = None

    def before_step(self, step: int) -> None:
        """Start with the first step that is asked for."""
        self._last = step
        if (
            self.steps is None
            or self._running is not None
            or not self.steps[0] <= step <= self.steps[1]
        ):
            return
        activities = [ProfilerActivity.CPU]
        if self.world.device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        else:
            # The profiler would complain on stderr that it finds no GPU.
            os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        self._running = torch.profiler.profile(activities=activities)
        self._running.start()
        self._first = step
        self._before = self.clock.seconds(wait=True)

    def after_step(self, step: int) -> None:
        """Write the profile after the last step that is asked for."""
        if self.steps is not None and step >= self.steps[1]:
            self.end()

    def end(self) -> None:
        """Write what there is, if anything; a profile that ended before its time is not begun again.

        Raises:
            AsdfError: the files cannot be written.
        """
        profile, count = self._running, self._last - self._first + 1
        if profile is None:
            return
        seconds = {
            part: now - self._before[part] for part, now in self.clock.seconds(wait=True).items()
        }
        self.close()
        if self.world.size > 1:
            _move_communication(seconds, profile, self.world.device)
        path = self.folder / f"steps.{self._first}-{self._last}.json.gz"
        _write_trace(profile, path)
        table = _table(seconds, count, f"steps {self._first} to {self._last}", self.world)
        write_text(path.with_name(path.name.replace(".json.gz", ".txt")), f"{table}\n\n{_NOTE}\n")
        LOG.info("%s\nprofile written to %s", table, path)

    def close(self) -> None:
        """Stop profiling without writing anything; say so if it never began."""
        if self._running is not None:
            self._running.stop()
        elif self.steps is not None:
            LOG.info(
                "computing.profile_steps = %s: nothing was profiled, step %d was the last",
                self.steps,
                self._last,
            )
        self._running = self.steps = None


def _table(seconds: Mapping[str, float], count: int, title: str, world: World) -> str:
    """Milliseconds a step of each part, and its percentage."""
    total = sum(seconds.values())
    rows = [(part, seconds[part]) for part in PARTS] + [("total", total)]
    lines = [f"{title}, rank {world.rank} of {world.size} on {world.device}", ""]
    lines += [f"{'':20}{'ms a step':>12}{'%':>8}"]
    lines += [
        f"{part:20}{1000 * value / count:12.3f}{100 * value / total:8.1f}" for part, value in rows
    ]
    return "\n".join(lines)


def _write_trace(profile: torch.profiler.profile, path: Path) -> None:
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
    seconds: dict[str, float], profile: torch.profiler.profile, device: torch.device
) -> None:
    """Count the communication inside the forward and backward pass as such, where nothing is computed beside it.

    DistributedDataParallel averages gradients while others are still computed; the rest of that averaging is waited
    for at the end of the backward pass. It sends the buffers at the beginning of the forward pass.
    """
    events = profile.events() or ()
    for part in (FORWARD, BACKWARD):
        if device.type == "cuda":
            # A GPU's kernels are not told apart by the ranges of the host, which runs ahead of them.
            kernels = [
                one
                for one in events
                if one.device_type.name == "CUDA" and not one.is_user_annotation
            ]
            sent = [one for one in kernels if "nccl" in one.name.lower()]
            moving = _intervals(
                one for one in sent if ("reduce" in one.name.lower()) == (part == BACKWARD)
            )
            busy = _intervals(one for one in kernels if "nccl" not in one.name.lower())
            inside = [(float("-inf"), float("inf"))]
        else:
            moving = _intervals(one for one in events if one.name.startswith("gloo:"))
            busy = _intervals(one for one in events if one.name.startswith("aten::"))
            inside = _intervals(one for one in events if one.name == part)
        exposed = min(length_alone(moving, busy, inside) / 1e6, seconds[part])
        seconds[part] -= exposed
        seconds[COMMUNICATION] += exposed


def _intervals(events: Iterable[torch.autograd.profiler_util.FunctionEvent]) -> list[Interval]:
    """In microseconds."""
    return [(one.time_range.start, one.time_range.end) for one in events]

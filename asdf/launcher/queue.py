"""The queue of a launch: no slot stays free while a run that fits is waiting.

Invariant: each slot has one run at a time, and runs in `running` have processes, which a second
Ctrl-C kills.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from asdf.distributed.stopping import StopRequest
from asdf.errors import AsdfError
from asdf.launcher.processes import RunningJob, start
from asdf.launcher.slots import Slots
from asdf.launcher.state_table import Table
from asdf.launcher.states import Job

_LOOK_EVERY_S = 0.5


class Feed(Protocol):
    """Source of further jobs while the queue runs, such as a search.

    Attributes:
        slots_needed: Number of slots that each job takes.
        is_over: Whether there was no further job for this process at the last request.
    """

    slots_needed: int
    is_over: bool

    def more(self) -> Job | None:
        """Return a job to run now; None if there is none."""

    def look(self, run: RunningJob) -> None:
        """Inspect a run of a job, and ask it to stop if it is not promising."""

    def ended(self, job: Job) -> None:
        """Record how a job ended."""


def run_queue(
    jobs: list[Job],
    slots: Slots,
    recipe: Path,
    table: Table,
    stop: StopRequest,
    feed: Feed | None = None,
) -> None:
    """Run all waiting jobs of `recipe` (its run.py); a failure does not stop the others.

    Args:
        feed: Source of further jobs, which are added to `jobs`.

    If `stop` is requested, all runs are asked to save and end, and no other is started.

    Raises:
        KeyboardInterrupt: a second SIGINT; all runs have been killed.
        AsdfError: a state cannot be saved. The runs save and end as soon as this process has ended.
    """
    running: list[RunningJob] = []
    stop_was_requested = False
    try:
        while running or not (stop or is_over(jobs, feed)):
            for run in list(running):
                if run.has_ended():
                    # First, so that a second Ctrl-C at any time does not mark an ended run as
                    # killed.
                    running.remove(run)
                    slots.give_back(run.slots)
                    if feed is not None:
                        feed.ended(run.job)
                    run.job.save_state()
            if stop and not stop_was_requested:
                stop_was_requested = True
                table.print_line(
                    f"{stop.reason}: {len(running)} runs are asked to save and stop; a second "
                    "Ctrl-C kills them"
                )
                for run in running:
                    run.ask_to_stop()
            if not stop:
                running += _start_all(jobs, slots, recipe, feed)
            for run in running:
                _look_at(run, slots, None if stop else feed)
            table.show(jobs)
            time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        kill_all(running)
        table.show(jobs)
        raise
    table.show(jobs)


def kill_all(running: Sequence[RunningJob]) -> None:
    """Kill runs; the same command resumes them."""
    for run in running:
        run.kill()
        run.job.state = "stopped"
        run.job.detail = "killed"
        run.job.save_state()


def is_over(jobs: Sequence[Job], feed: Feed | None) -> bool:
    """Whether no job is waiting, and none may come."""
    if feed is not None and not feed.is_over:
        return False
    return all(job.state != "waiting" for job in jobs)


def _look_at(run: RunningJob, slots: Slots, feed: Feed | None) -> None:
    """Update the displayed state of a run."""
    if feed is not None:
        feed.look(run)
    words = [slots.describe(run.slots), run.progress()]
    run.job.detail = ", ".join(filter(None, words))


def _start_all(jobs: list[Job], slots: Slots, recipe: Path, feed: Feed | None) -> list[RunningJob]:
    """Start waiting jobs, and those of the feed, while slots are free."""
    started = _start_what_fits(jobs, slots, recipe)
    while feed is not None and slots.free >= feed.slots_needed:
        job = feed.more()
        if job is None:
            break
        jobs.append(job)
        started += _start_what_fits([job], slots, recipe)
        if job.state == "failed":
            feed.ended(job)
        if job.state == "waiting":
            # Another launch is working there: the next round tries again.
            break
    return started


def _start_what_fits(jobs: Sequence[Job], slots: Slots, recipe: Path) -> list[RunningJob]:
    """Start waiting jobs in their order."""
    started = []
    for job in jobs:
        if job.state != "waiting":
            continue
        taken = slots.take(job.slots_needed)
        if taken is None:
            # It waits until enough slots are free; smaller jobs behind it may overtake it.
            continue
        run = _start(job, taken, slots.visible_devices(taken), recipe)
        if run is None:
            slots.give_back(taken)
        else:
            started.append(run)
    return started


def _start(
    job: Job,
    taken: tuple[str, ...],
    visible_devices: str,
    recipe: Path,
) -> RunningJob | None:
    """Start a job in the slots that were taken for it; None if it cannot be started."""
    command = [sys.executable, str(recipe), job.config, *job.overrides]
    try:
        run = start(job, command, taken, visible_devices)
    except (AsdfError, OSError) as error:
        job.state = "failed"
        job.detail = f"could not be started: {error}"
        return None
    job.detail = "" if run else f"another launch is using {job.system}"
    return run

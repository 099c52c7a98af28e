"""The queue of a launch: no slot stays free while a run that fits is waiting.

Invariant: each slot has one run at a time, and runs in `running` have processes, which a second
Ctrl-C kills.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from asdf.distributed.stopping import StopRequest
from asdf.errors import AsdfError
from asdf.launcher.processes import RunningJob, start
from asdf.launcher.slots import Slots
from asdf.launcher.state_table import Table
from asdf.launcher.states import Job

_LOOK_EVERY_S = 0.5


def run_queue(
    jobs: Sequence[Job], slots: Slots, recipe: Path, table: Table, stop: StopRequest
) -> None:
    """Run all waiting jobs of `recipe` (its run.py); a failure does not stop the others.

    If `stop` is requested, all runs are asked to save and end, and no other is started.

    Raises:
        KeyboardInterrupt: a second SIGINT; all runs have been killed.
        AsdfError: a state cannot be saved. The runs save and end as soon as this process has ended.
    """
    running: list[RunningJob] = []
    stop_was_requested = False
    try:
        while running or (not stop and any(job.state == "waiting" for job in jobs)):
            for run in list(running):
                if run.has_ended():
                    # First, so that a second Ctrl-C at any time does not mark an ended run as
                    # killed.
                    running.remove(run)
                    slots.give_back(run.slots)
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
                running += _start_what_fits(jobs, slots, recipe)
            for run in running:
                words = [slots.describe(run.slots), run.progress()]
                run.job.detail = ", ".join(filter(None, words))
            table.show(jobs)
            time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        for run in running:
            run.kill()
            run.job.state = "stopped"
            run.job.detail = "killed"
            run.job.save_state()
        table.show(jobs)
        raise
    table.show(jobs)


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
    job: Job, taken: tuple[str, ...], visible_devices: str, recipe: Path
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

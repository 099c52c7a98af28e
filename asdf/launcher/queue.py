"""The queue of a launch: as long as something waits and fits, no slot is free.

Invariant: each slot has one run at a time, and a job is in `running` from its start until its end is written down.
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
from asdf.launcher.states import Job
from asdf.launcher.table import Table

_LOOK_EVERY_S = 0.5


def run_queue(
    jobs: Sequence[Job], slots: Slots, recipe: Path, table: Table, stop: StopRequest
) -> None:
    """Run all jobs of `recipe` (its run.py) that wait; a job that fails does not keep the others from running.

    When `stop` is asked for, all runs are asked to save and end, and no other is started.

    Raises:
        KeyboardInterrupt: a second SIGINT; all runs have been killed.
        AsdfError: a state cannot be written down. The runs save and end as soon as this process has ended.
    """
    running: list[RunningJob] = []
    asked = False
    try:
        while running or (not stop and any(job.state == "waiting" for job in jobs)):
            for run in [run for run in running if run.has_ended()]:
                running.remove(run)
                slots.give_back(run.slots)
                run.job.keep()
            if stop and not asked:
                asked = True
                table.say(
                    f"{stop.reason}: {len(running)} runs are asked to save and end; a second Ctrl-C kills them"
                )
                for run in running:
                    run.ask_to_stop()
            if not stop:
                running += _start_what_fits(jobs, slots, recipe)
            for run in running:
                run.job.detail = ", ".join(filter(None, [slots.describe(run.slots), run.place()]))
            table.show(jobs)
            time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        for run in running:
            run.kill()
            run.job.state, run.job.detail = "stopped", "killed"
            run.job.keep()
        table.show(jobs)
        raise
    table.show(jobs)


def _start_what_fits(jobs: Sequence[Job], slots: Slots, recipe: Path) -> list[RunningJob]:
    """Start waiting jobs in their order; one that needs more slots than are free lets smaller ones pass."""
    started = []
    for job in jobs:
        taken = slots.take(job.slots_needed) if job.state == "waiting" else None
        if taken is None:
            continue
        try:
            command = [sys.executable, str(recipe), job.config, *job.overrides]
            run = start(job, command, taken, slots.visible_devices(taken))
        except (AsdfError, OSError) as error:
            job.state, job.detail = "failed", f"could not be started: {error}"
            run = None
        else:
            job.detail = "" if run else f"another launch is at work in {job.system}"
        if run is None:
            slots.give_back(taken)
            continue
        started.append(run)
    return started

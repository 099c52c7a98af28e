"""The queue of a launch: no slot (a GPU, or a place on the CPU) stays free while a run fits.

Invariant: each slot has one run at a time, and runs in `running` have processes, which a second
Ctrl-C kills.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from asdf.distributed.stopping import StopRequest
from asdf.errors import AsdfError, UsageError
from asdf.launcher.processes import RunningJob, start
from asdf.launcher.states import Job, Table

_LOOK_EVERY_S = 0.5


class Slots:
    """Free slots, handed out in their order.

    Args:
        names: Names of GPUs as in CUDA_VISIBLE_DEVICES, or any names of slots on the CPU.
        are_gpus: Whether slots are GPUs, of which a run of N processes takes N; on the CPU it takes
            one slot.
    """

    def __init__(self, names: Sequence[str], are_gpus: bool) -> None:
        self.names = tuple(names)
        self.are_gpus = are_gpus
        self._free = list(names)

    def needed(self, processes: int) -> int:
        """Return the number of slots that a run of `processes` processes takes."""
        return processes if self.are_gpus else 1

    @property
    def free(self) -> int:
        """The number of slots that no run holds."""
        return len(self._free)

    def take(self, count: int) -> tuple[str, ...] | None:
        """Return `count` slots, or None while fewer are free."""
        if count > len(self._free):
            return None
        taken = tuple(self._free[:count])
        del self._free[:count]
        return taken

    def give_back(self, taken: Sequence[str]) -> None:
        """Free slots again."""
        free = {*self._free, *taken}
        # Ordered by name, so that runs get the same slots whichever run ended first.
        self._free = [name for name in self.names if name in free]

    def visible_devices(self, taken: Sequence[str]) -> str:
        """Return CUDA_VISIBLE_DEVICES for a run that holds these slots."""
        return ",".join(taken) if self.are_gpus else ""

    def describe(self, taken: Sequence[str]) -> str:
        """Return the slots in words, such as 'GPU 0'."""
        kind = "GPU" if self.are_gpus else "slot"
        return f"{kind} {','.join(taken)}"


def choose_gpus(requested: str | None, visible: int, shown: str | None) -> tuple[str, ...]:
    """Return the GPUs of `--gpus`, with the names that CUDA_VISIBLE_DEVICES needs.

    Args:
        requested: Comma-separated indices of visible GPUs, as in `computing.gpu_ids`; None for all.
        visible: Number of GPUs that are visible.
        shown: Value of CUDA_VISIBLE_DEVICES, if it is set; a scheduler may use numbers or UUIDs.

    Raises:
        UsageError: an entry is not a number, a GPU is given twice, or a GPU does not exist.
    """
    names = list(map(str, range(visible)))
    if shown is not None:
        # Indices count among the scheduler's GPUs.
        names = _split(shown)
    if requested is None:
        # CUDA ignores all names from the first unknown one.
        return tuple(names[:visible])
    texts = _split(requested)
    if not all(map(str.isdecimal, texts)):
        raise UsageError(
            f"--gpus {requested}: write numbers separated by commas, such as --gpus 0,1,2,3."
        )
    indices = list(map(int, texts))
    if len(set(indices)) < len(indices):
        raise UsageError(f"--gpus {requested}: a GPU is named twice.")
    if max(indices) >= visible:
        existing = f"{visible} visible, numbered from 0"
        if not visible:
            existing = "no NVIDIA GPU is visible; --slots N uses the CPU"
        variable = "not set" if shown is None else repr(shown)
        raise UsageError(
            f"--gpus {requested}: GPU {max(indices)} does not exist: {existing} "
            f"(CUDA_VISIBLE_DEVICES is {variable})."
        )
    return tuple(names[index] for index in indices)


def _split(text: str) -> list[str]:
    return list(map(str.strip, text.split(",")))


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
        command = [sys.executable, str(recipe), job.config, *job.overrides]
        try:
            run = start(job, command, taken, slots.visible_devices(taken))
            job.detail = "" if run else f"another launch is using {job.system}"
        except (AsdfError, OSError) as error:
            run = None
            job.state = "failed"
            job.detail = f"could not be started: {error}"
        if run is None:
            slots.give_back(taken)
        else:
            started.append(run)
    return started

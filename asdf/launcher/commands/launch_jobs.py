"""The jobs of a launch on this machine: each planned run with the slots that it needs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from asdf.distributed.cores import usable_cores
from asdf.distributed.devices import (
    look_without_torch,
    usable_gpus,
    visibility_variable,
    visible_gpus,
)
from asdf.errors import UsageError
from asdf.launcher import Job, PlannedRun, Slots, choose_gpus, outcome_settings, settings_digest
from asdf.settings.sections import Computing

# Settings of `computing` that the launcher determines for each run, with the option for each.
_LAUNCHERS_SETTINGS = {
    "gpu_ids": "--gpus",
    "processes": "--processes-per-run",
    "use_gpu": "--slots",
}


def open_slots(gpus: str | None, count: int | None) -> Slots:
    """Return the GPUs of this machine, or slots on its CPU.

    Args:
        gpus: Value of --gpus.
        count: Value of --slots.

    Raises:
        UsageError: a GPU does not exist, or there is no slot.
    """
    visible = visible_gpus()
    if count is not None and count < 1:
        raise UsageError(f"--slots {count}: give at least 1.")
    if count is None and (gpus is not None or visible):
        # A scheduler may have given this job only some of the machine's GPUs.
        shown = os.environ.get(visibility_variable(), os.environ.get("CUDA_VISIBLE_DEVICES"))
        return Slots(choose_gpus(gpus, visible, shown), are_gpus=True)
    return Slots([str(number) for number in range(count or 1)], are_gpus=False)


def refuse_launchers_settings(assignments: Iterable[str]) -> None:
    """Refuse an override, or a sweep, of a setting that the launcher determines.

    Raises:
        UsageError: there is one; the message names the option for it.
    """
    named = {assignment.partition("=")[0].strip() for assignment in assignments}
    for name, option in _LAUNCHERS_SETTINGS.items():
        if f"computing.{name}" in named:
            raise UsageError(
                f"computing.{name} is set by the launcher and cannot be changed here. Use {option}."
            )


def launcher_overrides(slots: Slots, processes: int | None, cpu_is_meant: bool) -> list[str]:
    """Return the overrides that the launcher adds to all runs.

    Args:
        cpu_is_meant: Whether slots on the CPU were requested; otherwise they are used for lack of a
            GPU.
    """
    # A run sees only its own GPUs, counted from 0, which the numbers in its config would not match.
    overrides = ["computing.gpu_ids=None"]
    if cpu_is_meant and not slots.are_gpus:
        overrides.append("computing.use_gpu=False")
    if processes is not None:
        overrides.append(f"computing.processes={processes}")
    return overrides


def make_jobs(
    runs: Sequence[PlannedRun], recipe: Path, slots: Slots, processes: int | None
) -> list[Job]:
    """Return a job per run.

    Raises:
        UsageError: there is no GPU, or too few, for a run that needs them.
    """
    jobs = []
    for run in runs:
        computing = run.settings.computing
        if not slots.are_gpus:
            try:
                usable_gpus(computing, look_without_torch())
            except UsageError as error:
                raise UsageError(
                    f"config {run.name}: {error} To launch runs on the CPU, use --slots N."
                ) from None
        gpus = _count_gpus(run.name, computing, slots)
        overrides = list(run.overrides)
        # Fixed now: a config that is edited before its run starts must not take more slots.
        if processes is None:
            overrides.append(f"computing.processes={computing.processes}")
        if not slots.are_gpus and computing.threads is None:
            # Runs that each start a thread for every core would slow each other down.
            share = usable_cores() // (len(slots.names) * computing.processes)
            overrides.append(f"computing.threads={max(1, share)}")
        job = plain_job(run, recipe)
        job.overrides = overrides
        job.slots_needed = gpus
        jobs.append(job)
    return jobs


def plain_job(run: PlannedRun, recipe: Path) -> Job:
    """Return the job of a run, independent of where it will run."""
    job = Job(run.config, list(run.overrides), run.system, settings_digest(run.settings.plain()))
    job.name = run.name
    job.settings = outcome_settings(run.settings.plain())
    job.modules = recipe.parent
    return job


def _count_gpus(name: str, computing: Computing, slots: Slots) -> int:
    """Return the number of slots that a run needs.

    Raises:
        UsageError: there are fewer slots.
    """
    needed = slots.needed(computing.processes)
    if needed > len(slots.names):
        raise UsageError(
            f"config {name} runs in {computing.processes} processes, but only "
            f"{len(slots.names)} GPUs are available ({', '.join(slots.names)}). Give more with "
            "--gpus, or use a smaller --processes-per-run."
        )
    return needed

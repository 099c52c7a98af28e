"""Log and record of a run at its start and at its end.

Invariant: environment.json has one record per start. A failed run has the record of its start and
the memory of its main process; the failure is reported even if recording fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial

from asdf.data.training_plan import minibatch_per_process
from asdf.distributed.determinism import describe_promise
from asdf.distributed.devices import cpu_notice
from asdf.recipe.ending import cause_of
from asdf.recipe.run import Run
from asdf.recipe.starts import last_number, replace_settings, retain_code
from asdf.runs.log import LOG
from asdf.runs.start_records import (
    append_record,
    code_files,
    environment_record,
    now,
    save_code,
    update_record,
)
from asdf.settings import Settings
from asdf.settings.catalogue import class_paths


def start_run(run: Run, account: str) -> None:
    """Log and record the environment, and find missing requirements before any work.

    Args:
        account: Text of the settings with their sources, for log.txt.
    """
    from asdf.distributed.gpus import start_counting_memory
    from asdf.scoring.agreement import describe_scoring

    world = run.world
    minibatch = world.run_on_main(partial(minibatch_per_process, run.settings.network, world.size))
    part = f"{minibatch} of the {minibatch * world.size} utterances of a minibatch"
    devices = world.gather(f"{world.describe()}, {part}") or []
    LOG.info("config %s, system folder %s", run.config, run.folders.system)
    if run.settings.computing.deterministic:
        LOG.info("%s", describe_promise(world.device))
    notice = cpu_notice(run.settings.computing, world.device.type)
    if notice and world.is_main:
        LOG.warning("warning: %s", notice)
    for line in [*devices, *describe_scoring(run.settings, world)]:
        LOG.info("%s", line)
    world.run_on_main(partial(_record_start, run, devices))
    LOG.debug("%s", account)
    # Memory used by earlier configs of the command does not count.
    start_counting_memory(world.device)
    run.check()
    # Only now are the modules of the settings, and their imports, loaded.
    world.run_on_main(partial(_record_code, run))


def _record_start(run: Run, devices: list[str]) -> None:
    from asdf.distributed.gpus import library_versions

    run.folders.networks.mkdir(parents=True, exist_ok=True)
    layout = run.folders.layout
    number = last_number(layout) + 1
    replace_settings(layout, Settings().save)
    libraries = library_versions(run.world.device)
    record = environment_record(devices, run.recipe_folder, libraries)
    append_record(layout.environment, {"start": number, **record})


def _record_code(run: Run) -> None:
    """Save the user's own code, with its digests in the record."""
    files = code_files(run.recipe_folder, class_paths(run.settings))
    retain_code(run.folders.layout, files)
    digests = save_code(files, run.folders.layout.code)
    update_record(run.folders.layout.environment, {"code": digests})


@contextmanager
def end_recorded(run: Run) -> Iterator[None]:
    """Record when and how the block ends, with the peak memory.

    The memory is recorded for all processes, or for the main one if a process failed.
    """
    from asdf.distributed.gpus import peak_memory_mb

    try:
        yield
    except BaseException:
        # The failure itself must be reported, whatever is wrong with the record or the device.
        with suppress(Exception):
            if run.world.is_main:
                _record_end(run, [peak_memory_mb(run.world.device)], finished=False)
        raise
    peaks = run.world.gather(peak_memory_mb(run.world.device)) or []
    run.world.run_on_main(partial(_record_end, run, peaks, finished=True))


@contextmanager
def end_reported(run: Run) -> Iterator[None]:
    """Notify the callbacks of the run how the block ends."""
    try:
        yield
    except BaseException as error:
        run.end_callbacks(cause_of(error))
        raise
    run.end_callbacks(None)


def _record_end(run: Run, peaks: list[dict[str, float | None]], finished: bool) -> None:
    named = {f"rank {rank}": peak for rank, peak in enumerate(peaks)}
    record = {"ended": now(), "finished": finished, "peak_memory_mb": named}
    update_record(run.folders.layout.environment, record)
    LOG.info("%s", _describe_peaks(peaks))


def _describe_peaks(peaks: list[dict[str, float | None]]) -> str:
    """Return the peak memory for the log, of the processes with the highest on GPU and host."""
    parts = []
    for side, name in (("gpu", "GPU"), ("host", "host")):
        taken = [peak[side] or 0.0 for peak in peaks]
        highest = max(taken, default=0.0)
        if highest == 0.0:
            continue
        part = f"{name} {highest / 1000:.2f} GB"
        if len(peaks) > 1:
            part += f" (rank {taken.index(highest)})"
        parts.append(part)
    return f"peak memory: {', '.join(parts)}"

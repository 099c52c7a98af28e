"""What is said and recorded of a run at its start and at its end.

Invariant: environment.json has one record per start. A run that failed has the record of its start
and the memory of its main process; what failed is said, whatever becomes of the record.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from asdf.data.training_plan import minibatch_per_process
from asdf.distributed.determinism import describe_promise
from asdf.distributed.devices import cpu_notice
from asdf.recipe.run import Run
from asdf.runs.code import code_files, save_code
from asdf.runs.log import LOG
from asdf.runs.record import append_record, environment_record, now, update_record
from asdf.settings import Settings
from asdf.settings.catalogue import class_paths


def start_run(run: Run, account: str) -> None:
    """Say and record what runs where, and find what is missing before any work."""
    from asdf.distributed.resources import library_versions, start_counting_memory
    from asdf.scoring.describing import describe_scoring

    world = run.world
    minibatch = world.run_on_main(lambda: minibatch_per_process(run.settings.network, world.size))
    part = f"{minibatch} of the {minibatch * world.size} utterances of a minibatch"
    described = world.gather(f"{world.describe()}, {part}")
    LOG.info("config %s, system folder %s", run.config, run.folders.system)
    if run.settings.computing.deterministic:
        LOG.info("%s", describe_promise(world.device))
    notice = cpu_notice(run.settings.computing, world.device.type)
    if notice and world.is_main:
        LOG.warning("warning: %s", notice)
    for line in described or []:
        LOG.info("%s", line)
    for line in describe_scoring(run.settings, world):
        LOG.info("%s", line)

    def record() -> None:
        run.folders.networks.mkdir(parents=True, exist_ok=True)
        Settings().save(run.folders.layout.settings)
        append_record(
            _record_file(run),
            environment_record(described or [], run.recipe_folder, library_versions(world.device)),
        )

    world.run_on_main(record)
    LOG.debug("%s", account)
    start_counting_memory(world.device)
    run.check()
    # Only now are the modules loaded that the settings name, and what these need.
    world.run_on_main(partial(_record_code, run))


def _record_file(run: Run) -> Path:
    return run.folders.layout.environment


def _record_code(run: Run) -> None:
    """Save the user's own code, with its digests in the record."""
    files = code_files(run.recipe_folder, class_paths(run.settings))
    digests = save_code(files, run.folders.layout.code)
    update_record(_record_file(run), {"code": digests})


@contextmanager
def end_recorded(run: Run) -> Iterator[None]:
    """Record the peak memory when the block ends: of all processes, or where one failed of the main one."""
    from asdf.distributed.resources import peak_memory_mb

    try:
        yield
    except BaseException:
        # Whatever is wrong with the record or the device: the failure itself is to be reported.
        with suppress(Exception):
            if run.world.is_main:
                _record_end(run, [peak_memory_mb(run.world.device)])
        raise
    peaks = run.world.gather(peak_memory_mb(run.world.device))
    run.world.run_on_main(lambda: _record_end(run, peaks or []))


def _record_end(run: Run, peaks: list[dict[str, float | None]]) -> None:
    named = {f"rank {rank}": peak for rank, peak in enumerate(peaks)}
    update_record(_record_file(run), {"ended": now(), "peak_memory_mb": named})
    LOG.info("%s", _describe_peaks(peaks))


def _describe_peaks(peaks: list[dict[str, float | None]]) -> str:
    """The peak memory for the log, of the process that took the most on each side."""
    words = []
    for side, name in (("gpu", "GPU"), ("host", "host")):
        taken = [peak[side] or 0.0 for peak in peaks]
        if any(taken):
            rank = taken.index(max(taken))
            words.append(
                f"{name} {taken[rank] / 1000:.2f} GB{f' (rank {rank})' * (len(peaks) > 1)}"
            )
    return f"peak memory: {', '.join(words)}"

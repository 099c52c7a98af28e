"""Run many configs of a recipe side by side: each GPU has one run at a time until all are done.

    python -m asdf launch RUN.PY net larger_net                  on all GPUs
    python -m asdf launch RUN.PY net larger_net --gpus 2,3       on two of them
    python -m asdf launch RUN.PY a b c d --processes-per-run 2   two GPUs per run
    python -m asdf launch RUN.PY a b c d --slots 2               two at a time on the CPU
    python -m asdf launch RUN.PY a b network.max_epochs=2        change a setting of all

What a run prints goes to launch.log in its system folder. The same command again continues the
unfinished runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from asdf.commands.options import command_parser
from asdf.commands.outputs import show
from asdf.distributed.cores import usable_cores
from asdf.distributed.devices import usable_gpus
from asdf.distributed.launchers import Launch, read_launch
from asdf.distributed.seen_gpus import look_without_torch, visibility_variable, visible_gpus
from asdf.distributed.stopping import StopRequest
from asdf.errors import UsageError
from asdf.launcher import (
    Job,
    Slots,
    Table,
    choose_gpus,
    run_queue,
    settings_digest,
    summary,
)
from asdf.recipe.command_line import parse_command_line
from asdf.recipe.folders import folders_of
from asdf.settings import Settings
from asdf.settings.sections import Computing

# Settings of `computing` that the launcher decides for each run, and the option for each.
_LAUNCHERS_SETTINGS = {
    "gpu_ids": "--gpus",
    "processes": "--processes-per-run",
    "use_gpu": "--slots",
}


def main(arguments: list[str]) -> int:
    """Run the configs.

    Returns:
        0 if none failed, also after a requested stop; 1 if one failed; 130 after a second SIGINT.

    Raises:
        UsageError: a mistake in any config or option, before the first run starts.
    """
    args = _parser().parse_intermixed_args(arguments)
    recipe = Path(args.recipe).resolve()
    if not recipe.is_file():
        # The folder of a recipe is what people name first.
        suggestion = f"; {recipe / 'run.py'}?" if recipe.is_dir() else "."
        raise UsageError(f"{args.recipe} is no file: name the run.py of a recipe{suggestion}")
    # Under srun every task would launch all the runs, in the same folders.
    _refuse_several_launchers(read_launch())
    slots = _slots(args.gpus, args.slots)
    jobs = _jobs(recipe, args.words, slots, args.processes_per_run, args.slots is not None)
    if not slots.are_gpus and args.slots is None:
        show("warning: no GPU here: the runs compute on the CPU, one at a time (--slots N: N)")
    for job in jobs:
        job.restore_state()
    interrupted = False
    stop = StopRequest()
    with stop.listening():
        try:
            run_queue(jobs, slots, recipe, Table(sys.stdout), stop)
        except KeyboardInterrupt:
            interrupted = True
    show(summary(jobs))
    if interrupted:
        return 130
    # A requested stop is no failure: the same command goes on.
    return int(any(job.state == "failed" for job in jobs))


def _parser() -> argparse.ArgumentParser:
    usage = "RUN.PY CONFIG [CONFIG ...] [section.name=value ...] [options]"
    parser = command_parser("launch", __doc__, usage)
    parser.add_argument(
        "recipe", metavar="RUN.PY", help="the recipe, e.g. recipes/wav2vec_aasist/run.py"
    )
    parser.add_argument(
        "words", nargs="+", metavar="CONFIG", help="its run configs, and overrides for all of them"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--gpus", metavar="IDS", help="which GPUs, e.g. 0,1,2,3 (all visible ones)")
    where.add_argument(
        "--slots", type=int, metavar="N", help="compute on the CPU, N runs at a time"
    )
    parser.add_argument(
        "--processes-per-run",
        type=int,
        metavar="N",
        help="processes per run (what its config says)",
    )
    return parser


def _slots(gpus: str | None, count: int | None) -> Slots:
    visible = visible_gpus()
    if count is not None and count < 1:
        raise UsageError(f"--slots {count}: at least one run at a time is needed.")
    if count is None and (gpus is not None or visible):
        # A scheduler may have given this job only some of the machine's GPUs.
        shown = os.environ.get(visibility_variable(), os.environ.get("CUDA_VISIBLE_DEVICES"))
        return Slots(choose_gpus(gpus, visible, shown), are_gpus=True)
    return Slots([str(number) for number in range(count or 1)], are_gpus=False)


def _check_cpu(config: str, computing: Computing) -> None:
    """Refuse a config on the CPU that should have a GPU."""
    try:
        usable_gpus(computing, look_without_torch())
    except UsageError as error:
        raise UsageError(
            f"config {config}: {error} A launch computes on the CPU with --slots N."
        ) from None


def _refuse_several_launchers(launch: Launch) -> None:
    if launch.size > 1:
        raise UsageError(
            f"{launch.launcher} started {launch.size} launches of the same configs: start a single "
            "launch, for instance with srun --ntasks=1; it starts the processes of its runs itself."
        )


def _jobs(
    recipe: Path, words: list[str], slots: Slots, processes: int | None, cpu_is_meant: bool = True
) -> list[Job]:
    """Return a job per config; a mistake in any of them is reported here.

    Args:
        cpu_is_meant: slots on the CPU were requested; otherwise they exist because no GPU does.

    Raises:
        UsageError: a mistake, two configs with one system folder, or no GPU for a config that
            should have one.
    """
    command = parse_command_line(words, "")
    _refuse_launchers_settings(command.overrides)
    # A run sees only the GPUs of its slots, counted from 0: its config's numbers would miss them.
    overrides = [*command.overrides, "computing.gpu_ids=None"]
    if cpu_is_meant and not slots.are_gpus:
        overrides.append("computing.use_gpu=False")
    if processes is not None:
        overrides.append(f"computing.processes={processes}")
    jobs: dict[Path, Job] = {}
    initial = Settings(recipe.parent / "configs" / "init_config.py")
    run_configs = recipe.parent / "configs" / "run_configs.py"
    for resolved in initial.read_configs(run_configs, command.configs, overrides):
        config = resolved.name
        settings = resolved.sections()
        system = folders_of(settings.paths, recipe.parent).system.resolve()
        if system in jobs:
            raise UsageError(
                f"configs {jobs[system].config} and {config} have the same system folder, "
                f"{system}, and would overwrite each other: give one of them another "
                "paths.system_folder."
            )
        computing = settings.computing
        if not slots.are_gpus:
            _check_cpu(config, computing)
        gpus = _count_gpus(config, computing, slots)
        job_overrides = list(overrides)
        # As counted now: a config that is edited before its run starts must not take more slots.
        if processes is None:
            job_overrides.append(f"computing.processes={computing.processes}")
        if not slots.are_gpus and computing.threads is None:
            # Runs that each start a thread for every core would wait for each other.
            share = usable_cores() // (len(slots.names) * computing.processes)
            job_overrides.append(f"computing.threads={max(1, share)}")
        jobs[system] = Job(config, job_overrides, system, settings_digest(settings), gpus)
    return list(jobs.values())


def _refuse_launchers_settings(overrides: list[str]) -> None:
    overridden = {override.partition("=")[0].strip() for override in overrides}
    for name, option in _LAUNCHERS_SETTINGS.items():
        if f"computing.{name}" in overridden:
            raise UsageError(f"computing.{name} is set by the launcher: use {option}.")


def _count_gpus(config: str, computing: Computing, slots: Slots) -> int:
    """Return the number of slots that a run needs.

    Raises:
        UsageError: there are fewer.
    """
    needed = slots.needed(computing.processes)
    if needed > len(slots.names):
        raise UsageError(
            f"config {config} runs in {computing.processes} processes, but there are only "
            f"{len(slots.names)} GPUs ({', '.join(slots.names)}): name more with --gpus, or "
            "use a smaller --processes-per-run."
        )
    return needed

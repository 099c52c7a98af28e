"""Run many configs of a recipe in parallel, one run per GPU at a time.

    python -m asdf launch RUN.PY net larger_net                 # on all GPUs
    python -m asdf launch RUN.PY net larger_net --gpus 2,3      # on two GPUs
    python -m asdf launch RUN.PY a b c d --processes-per-run 2  # two GPUs per run
    python -m asdf launch RUN.PY a b c d --slots 2              # two runs at a time on the CPU
    python -m asdf launch RUN.PY a b network.max_epochs=2       # change a setting of all runs
    python -m asdf launch RUN.PY 'net*' --seeds 0-4             # five runs of each config
    # one run per value; several --sweep form a grid
    python -m asdf launch RUN.PY net --sweep network.initial_learning_rate=1e-5,1e-6
    python -m asdf launch RUN.PY net --sweep ... --random 20    # 20 random points of the grid
    python -m asdf launch RUN.PY net --folds attack:2           # leave out two attacks at a time
    # runs as a job array on a cluster
    python -m asdf launch RUN.PY net --seeds 0-4 --slurm SCRIPT -- --time=06:00:00
    # a page and a table of all runs
    python -m asdf launch RUN.PY a b --seeds 0-2 --report page.html --latex table.tex

Each run has its own system folder, and its output goes to launch.log there. The same command
resumes unfinished runs; with more values or seeds it adds the new runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from asdf.commands.options import Command
from asdf.commands.outputs import show
from asdf.commands.score_options import split_at_dashes
from asdf.distributed.launchers import read_launch
from asdf.distributed.stopping import StopRequest
from asdf.errors import UsageError
from asdf.launcher import Job, PointOptions, Slots, Table, list_runs, plan_runs, run_queue, summary
from asdf.launcher.commands.launch_jobs import (
    SLURM_OVERRIDES,
    LaunchOptions,
    check_options,
    check_outputs,
    launcher_overrides,
    make_jobs,
    open_slots,
    plain_job,
    refuse_launchers_settings,
    show_left_out,
    submit,
    write_results,
)
from asdf.recipe.command_line import parse_command_line

COMMAND = Command("launch", __doc__, LaunchOptions)


def main(arguments: list[str]) -> int:
    """Run the configs.

    Returns:
        0 if no run failed, even after a requested stop; 1 if one failed; 130 after a second SIGINT.

    Raises:
        UsageError: there is an error in any config, point or option, before the first run starts.
    """
    arguments, sbatch_options = split_at_dashes(arguments)
    args = COMMAND.read(arguments)
    recipe = _check_start(args.recipe)
    check_options(args, sbatch_options)
    check_outputs(args.report, args.latex)
    command = parse_command_line(list(args.words), "")
    options = PointOptions(args.seeds, list(args.sweep), args.random, args.random_seed, args.folds)
    if args.slurm is not None:
        launchers: Sequence[str] = SLURM_OVERRIDES
        plan = plan_runs(recipe, command.configs, command.overrides, options, launchers)
        return submit(plan, recipe, args, sbatch_options)
    refuse_launchers_settings([*command.overrides, *args.sweep])
    slots = open_slots(args.gpus, args.slots)
    launchers = launcher_overrides(slots, args.processes_per_run, args.slots is not None)
    plan = plan_runs(recipe, command.configs, command.overrides, options, launchers)
    if args.dry_run:
        # The results so far are included.
        planned = [plain_job(run, recipe) for run in plan.runs]
        for job in planned:
            job.restore_state()
        show(plan.describe())
        show(list_runs(planned))
        return 0
    jobs = make_jobs(plan.runs, recipe, slots, args.processes_per_run)
    if not slots.are_gpus and args.slots is None:
        show("warning: no GPU found: runs use the CPU, one at a time (--slots N: N at a time)")
    if plan.has_points:
        show(plan.describe())
    status = _run(jobs, slots, recipe, with_results=plan.folds is None)
    wants_report = args.report is not None or args.latex is not None
    is_written = wants_report and write_results(jobs, args.report, args.latex)
    # With a report, the command of the report shows the table of the folds.
    if plan.folds is not None and not is_written:
        show_left_out(jobs)
    return status


def _check_start(path: str) -> Path:
    """Return the recipe at `path` after checking that a launch can start here.

    Raises:
        UsageError: it cannot.
    """
    if not hasattr(os, "killpg"):
        raise UsageError(
            "launch starts each run in its own session, which this operating system does not "
            "support. Use Linux, macOS or WSL, or start the runs one by one with `python run.py`."
        )
    recipe = Path(path).resolve()
    if not recipe.is_file():
        # Users often give the folder of a recipe.
        suggestion = f", such as {recipe / 'run.py'}" if recipe.is_dir() else ""
        raise UsageError(f"{path} is not a file. Give the run.py of a recipe{suggestion}.")
    # Under srun, every task would launch all the runs, in the same folders.
    launch = read_launch()
    if launch.size > 1:
        raise UsageError(
            f"{launch.launcher} started {launch.size} launches of the same configs. Start a single "
            "launch, for example with srun --ntasks=1; it starts the processes of its runs itself."
        )
    return recipe


def _run(jobs: Sequence[Job], slots: Slots, recipe: Path, *, with_results: bool) -> int:
    """Run the unfinished jobs and show their outcome; return the exit status."""
    for job in jobs:
        job.restore_state()
    interrupted = False
    stop = StopRequest()
    with stop.listening():
        try:
            run_queue(jobs, slots, recipe, Table(sys.stdout), stop)
        except KeyboardInterrupt:
            interrupted = True
    show(summary(jobs, with_results))
    if interrupted:
        return 130
    # A requested stop is not a failure: the same command resumes.
    return int(any(job.state == "failed" for job in jobs))

"""Run many configs of a recipe side by side: each GPU has one run at a time until all are done.

    python -m asdf launch RUN.PY net larger_net                 # on all GPUs
    python -m asdf launch RUN.PY net larger_net --gpus 2,3      # on two of them
    python -m asdf launch RUN.PY a b c d --processes-per-run 2  # two GPUs per run
    python -m asdf launch RUN.PY a b c d --slots 2              # two at a time on the CPU
    python -m asdf launch RUN.PY a b network.max_epochs=2       # change a setting of all
    python -m asdf launch RUN.PY 'net*' --seeds 0-4             # five runs of each
    # a run per value; several: the grid
    python -m asdf launch RUN.PY net --sweep network.initial_learning_rate=1e-5,1e-6
    python -m asdf launch RUN.PY net --sweep ... --random 20    # 20 points of the grid
    python -m asdf launch RUN.PY net --folds attack:2           # each attack left out once
    # as a job array of a cluster
    python -m asdf launch RUN.PY net --seeds 0-4 --slurm SCRIPT -- --time=06:00:00
    # a page and a table of all of them
    python -m asdf launch RUN.PY a b --seeds 0-2 --report page.html --latex table.tex

Every run has a system folder of its own, and what it prints goes to launch.log there. The same
command again continues the unfinished runs; with more values or seeds it runs those that are new.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from asdf.commands import launch_slurm
from asdf.commands.launch_jobs import (
    launcher_overrides,
    make_jobs,
    open_slots,
    plain_job,
    refuse_launchers_settings,
)
from asdf.commands.launch_results import check_outputs, show_left_out, write_results
from asdf.commands.options import command_parser
from asdf.commands.outputs import show
from asdf.distributed.launchers import Launch, read_launch
from asdf.distributed.stopping import StopRequest
from asdf.errors import UsageError
from asdf.launcher import (
    Job,
    Plan,
    PointOptions,
    Slots,
    Table,
    list_runs,
    plan_runs,
    run_queue,
    summary,
)
from asdf.recipe.command_line import parse_command_line


def main(arguments: list[str]) -> int:
    """Run the configs.

    Returns:
        0 if none failed, also after a requested stop; 1 if one failed; 130 after a second SIGINT.

    Raises:
        UsageError: a mistake in any config, point or option, before the first run starts.
    """
    arguments, sbatch_options = _split_options(arguments)
    args = _parser().parse_intermixed_args(arguments)
    if not hasattr(os, "killpg"):
        raise UsageError(
            "launch starts runs in sessions of their own, which this system lacks: use it on Linux "
            "or macOS (on Windows, in WSL), or start the runs one by one with `python run.py`."
        )
    recipe = _find_recipe(args.recipe)
    # Under srun every task would launch all the runs, in the same folders.
    _refuse_several_launchers(read_launch())
    launch_slurm.check_options(args, sbatch_options)
    check_outputs(args.report, args.latex)
    command = parse_command_line(args.words, "")
    options = PointOptions(args.seeds, args.sweep, args.random, args.random_seed, args.folds)
    if args.slurm is not None:
        launchers: Sequence[str] = launch_slurm.LAUNCHER_OVERRIDES
        plan = plan_runs(recipe, command.configs, command.overrides, options, launchers)
        return launch_slurm.submit(plan, recipe, args, sbatch_options)
    refuse_launchers_settings([*command.overrides, *args.sweep])
    slots = open_slots(args.gpus, args.slots)
    launchers = launcher_overrides(slots, args.processes_per_run, args.slots is not None)
    plan = plan_runs(recipe, command.configs, command.overrides, options, launchers)
    if args.dry_run:
        return _show_plan(plan, recipe)
    jobs = make_jobs(plan.runs, recipe, slots, args.processes_per_run)
    if not slots.are_gpus and args.slots is None:
        show("warning: no GPU here: the runs compute on the CPU, one at a time (--slots N: N)")
    if plan.has_points:
        show(plan.describe())
    status = _run(jobs, slots, recipe, with_results=plan.folds is None)
    wants_report = args.report is not None or args.latex is not None
    is_written = wants_report and write_results(jobs, args.report, args.latex)
    # With a report, its command shows the table of the folds.
    if plan.folds is not None and not is_written:
        show_left_out(jobs)
    return status


def _split_options(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments of this command, and those behind `--`."""
    if "--" not in arguments:
        return arguments, []
    index = arguments.index("--")
    return arguments[:index], arguments[index + 1 :]


def _show_plan(plan: Plan, recipe: Path) -> int:
    """Show what would be run, and what of it is done."""
    jobs = [plain_job(run, recipe) for run in plan.runs]
    for job in jobs:
        job.restore_state()
    show(plan.describe())
    show(list_runs(jobs))
    return 0


def _run(jobs: Sequence[Job], slots: Slots, recipe: Path, *, with_results: bool) -> int:
    """Run the jobs that are not done and show how they ended; return the exit status."""
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
    # A requested stop is no failure: the same command goes on.
    return int(any(job.state == "failed" for job in jobs))


def _parser() -> argparse.ArgumentParser:
    usage = "RUN.PY CONFIG [CONFIG ...] [section.name=value ...] [options] [-- sbatch's]"
    parser = command_parser("launch", __doc__, usage)
    parser.add_argument(
        "recipe", metavar="RUN.PY", help="the recipe, e.g. recipes/wav2vec_aasist/run.py"
    )
    parser.add_argument(
        "words",
        nargs="+",
        metavar="CONFIG",
        help="its run configs, or patterns of their names, and overrides for all of them",
    )
    _add_points(parser)
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
    slurm = parser.add_argument_group("on a cluster")
    slurm.add_argument(
        "--slurm",
        metavar="SCRIPT",
        help="submit the runs as a job array, each a task of this script; behind --: options of "
        "sbatch",
    )
    slurm.add_argument("--max-running", type=int, metavar="N", help="at most N tasks at a time")
    results = parser.add_argument_group("when all runs are done")
    results.add_argument(
        "--report", type=Path, metavar="PAGE", help="write a report of all of them"
    )
    results.add_argument(
        "--latex", type=Path, metavar="OUT", help="write a table for a paper: configs by set"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check everything, list the runs, and stop"
    )
    return parser


def _add_points(parser: argparse.ArgumentParser) -> None:
    points = parser.add_argument_group("a run for each of several values")
    points.add_argument("--seeds", metavar="LIST", help="of recipe.seed, e.g. 0-4 or 0,3,7-9")
    points.add_argument(
        "--sweep",
        action="append",
        default=[],
        metavar="section.name=A,B",
        help="values of any setting; several --sweep: each value with each of the others",
    )
    points.add_argument(
        "--random", type=int, metavar="N", help="only N points of the sweeps, drawn at random"
    )
    points.add_argument(
        "--random-seed",
        type=int,
        default=0,
        metavar="S",
        help="which ones are drawn; the same S draws the same ones (0)",
    )
    points.add_argument(
        "--folds",
        metavar="COLUMN:K",
        help="a run for every K values of a column of the training sets, such as attack:2, which "
        "leaves them out, and a share of the speakers, and is scored on what it left out",
    )


def _find_recipe(path: str) -> Path:
    recipe = Path(path).resolve()
    if not recipe.is_file():
        # The folder of a recipe is what people name first.
        suggestion = f"; {recipe / 'run.py'}?" if recipe.is_dir() else "."
        raise UsageError(f"{path} is no file: name the run.py of a recipe{suggestion}")
    return recipe


def _refuse_several_launchers(launch: Launch) -> None:
    if launch.size > 1:
        raise UsageError(
            f"{launch.launcher} started {launch.size} launches of the same configs: start a single "
            "launch, for instance with srun --ntasks=1; it starts the processes of its runs itself."
        )

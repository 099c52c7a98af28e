"""Run many configs of a recipe in parallel, one run per GPU at a time.

    python -m asdf launch RUN.PY net larger_net                 # on all GPUs
    python -m asdf launch RUN.PY net larger_net --gpus 2,3      # on two GPUs
    python -m asdf launch RUN.PY a b c d --processes-per-run 2  # two GPUs per run
    python -m asdf launch RUN.PY a b c d --slots 2              # two runs at a time on the CPU
    python -m asdf launch RUN.PY 'net*' --seeds 0-4             # five runs of each config
    # one run per value; several --sweep form a grid
    python -m asdf launch RUN.PY net --sweep network.initial_learning_rate=1e-5,1e-6
    python -m asdf launch RUN.PY net --sweep ... --random 20    # 20 random points of the grid
    python -m asdf launch RUN.PY net --folds attack:2           # leave out two attacks at a time
    # runs as a job array on a cluster
    python -m asdf launch RUN.PY net --seeds 0-4 --slurm SCRIPT -- --time=06:00:00
    # a page and a table of all runs
    python -m asdf launch RUN.PY a b --seeds 0-2 --report page.html --latex table.tex

Each run has its own system folder, with its output in launch.log. The same command resumes
unfinished runs; with more values or seeds it adds the new ones.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.commands.journal import split_at_dashes
from asdf.commands.options import Command, argument, flag, option
from asdf.commands.outputs import show
from asdf.distributed.devices import (
    look_without_torch,
    usable_cores,
    usable_gpus,
    visibility_variable,
    visible_gpus,
)
from asdf.distributed.launchers import read_launch
from asdf.distributed.stopping import StopRequest
from asdf.errors import UsageError
from asdf.launcher.planning import Plan, PointOptions, plan_runs
from asdf.launcher.processes import Slots, choose_gpus, run_queue
from asdf.launcher.slurm import check_script, queued_runs, submit_array
from asdf.launcher.states import Job, Table, list_runs, summary
from asdf.recipe.command_line import parse_command_line
from asdf.report import command as report
from asdf.report import gather, runs_in
from asdf.tasks.studies.left_out import left_out_text
from asdf.text import and_more

# Settings that the launcher determines for each run, with the option for each.
_LAUNCHERS_SETTINGS = {
    "computing.gpu_ids": "--gpus",
    "computing.processes": "--processes-per-run",
    "computing.use_gpu": "--slots",
}
# A job's GPUs are counted from 0, whatever the config states for this machine.
SLURM_OVERRIDES = ("computing.gpu_ids=None",)
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class ValueOptions:
    """One run per value."""

    seeds: str | None = option("values of recipe.seed, e.g. 0-4 or 0,3,7-9", "LIST")
    sweep: tuple[str, ...] = option(
        "values of any setting; several --sweep form a grid of all combinations",
        "section.name=A,B",
        default=(),
        repeated=True,
    )
    random: int | None = option("run only N random points of the grid", "N")
    folds: str | None = option(
        "one run for each K values of a column of the training sets, such as attack:2; it leaves "
        "out these values and a share of the speakers, and is scored on them",
        "COLUMN:K",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """On a cluster."""

    slurm: str | None = option(
        "submit the runs as a job array, one task of this script per run; options after -- are "
        "passed to sbatch",
        "SCRIPT",
    )
    max_running: int | None = option("maximum number of tasks that run at a time", "N")


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Outputs when all runs are done."""

    report: Path | None = option("write a report of all runs", "PAGE")
    latex: Path | None = option("write a LaTeX table for a paper, configs by set", "OUT")


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(ValueOptions, ClusterOptions, ResultOptions):
    """Options of the command."""

    recipe: str = argument("run.py of a recipe, e.g. recipes/wav2vec_aasist/run.py", "RUN.PY")
    words: tuple[str, ...] = argument(
        "run configs or patterns of their names, and overrides for all runs", "CONFIG"
    )
    gpus: str | None = option("GPUs to use, e.g. 0,1,2,3 (all visible ones)", "IDS", one_of="where")
    slots: int | None = option("use the CPU, N runs at a time", "N", one_of="where")
    processes_per_run: int | None = option("processes per run (as in its config)", "N")
    dry_run: bool = flag("check everything and list the runs, without starting them")


def check_options(args: LaunchOptions, sbatch_options: Sequence[str]) -> None:
    """Refuse options of the other kind of launch, outputs that could not be written hours later,
    and a script that cannot be submitted.

    Raises:
        UsageError: an option does not fit; the message names it.
    """
    page, table = args.report, args.latex
    for name, path in (("--report", page), ("--latex", table)):
        if path is not None and path.is_dir():
            raise UsageError(f"{name} {path} is a folder. Give a file.")
    if page is not None and table is not None and page.resolve() == table.resolve():
        raise UsageError("--report and --latex are the same file. Give two different files.")
    if args.slurm is None:
        if sbatch_options or args.max_running is not None:
            raise UsageError("--max-running and sbatch options after -- need --slurm.")
        return
    if page is not None or table is not None:
        raise UsageError(
            "--report and --latex need finished runs, but --slurm only submits runs. Write them "
            "with 'python -m asdf report' when the array has finished."
        )
    here = {"gpus": args.gpus, "slots": args.slots, "processes-per-run": args.processes_per_run}
    for name, value in here.items():
        if value is not None:
            raise UsageError(
                f"--{name} cannot be used with --slurm: the job script determines the resources of "
                "a task. Change them with sbatch options after --."
            )
    if args.max_running is not None and args.max_running < 1:
        raise UsageError(f"--max-running {args.max_running}: give at least 1.")
    check_script(Path(args.slurm), sbatch_options)


def show_left_out(jobs: Sequence[Job]) -> None:
    """Show the EERs on the left-out values of finished folds, if there are any."""
    runs = runs_in(job.system for job in jobs if job.state == "done")
    # Without intervals, whose bootstrap takes seconds per run.
    text = left_out_text(gather(runs, replicates=0).left_out) if runs else ""
    if text:
        show(text)


def write_results(jobs: Sequence[Job], page: Path | None, table: Path | None) -> bool:
    """Write a page and a table of finished runs; log a message if some are unfinished.

    Returns:
        Whether the outputs were written.
    """
    unfinished = [job.name for job in jobs if job.state != "done"]
    if unfinished:
        show(f"no report yet: {len(unfinished)} of {len(jobs)} runs are unfinished")
        return False
    words = [str(job.system) for job in jobs]
    if page is None:
        assert table is not None  # the caller has one of the two
        page = table.with_suffix(".html")
    words += ["--output", str(page)]
    if table is not None:
        words += ["--latex", str(table)]
    report.main(words)
    return True


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


def assign_slots(jobs: Sequence[Job], slots: Slots, processes: int | None) -> None:
    """Give the jobs their numbers of slots, processes and threads.

    Raises:
        UsageError: there is no GPU, or too few, for a run that needs them.
    """
    for job in jobs:
        computing = job.settings.computing
        if not slots.are_gpus:
            try:
                usable_gpus(computing, look_without_torch())
            except UsageError as error:
                raise UsageError(
                    f"config {job.name}: {error} To launch runs on the CPU, use --slots N."
                ) from None
        job.slots_needed = slots.needed(computing.processes)
        if job.slots_needed > len(slots.names):
            raise UsageError(
                f"config {job.name} runs in {computing.processes} processes, but only "
                f"{len(slots.names)} GPUs are available ({', '.join(slots.names)}). Give more with "
                "--gpus, or use a smaller --processes-per-run."
            )
        # Fixed now: a config that is edited before its run starts must not take more slots.
        if processes is None:
            job.overrides.append(f"computing.processes={computing.processes}")
        if not slots.are_gpus and computing.threads is None:
            # Runs that each start a thread for every core would slow each other down.
            share = usable_cores() // (len(slots.names) * computing.processes)
            job.overrides.append(f"computing.threads={max(1, share)}")


def submit(plan: Plan, recipe: Path, script: Path, args: LaunchOptions, sbatch: list[str]) -> int:
    """Submit the runs that are neither done nor queued, or list all of them.

    Raises:
        AsdfError: Slurm refuses.
    """
    queued = queued_runs()
    for job in plan.jobs:
        job.restore_state()
        if job.system in queued:
            job.state = "waiting"
            job.detail = f"in the queue as {queued[job.system]}"
    show(plan.describe())
    if args.dry_run:
        show(list_runs(plan.jobs))
        return 0
    done = [job for job in plan.jobs if job.state == "done"]
    if done:
        show(summary(done))
    in_queue = [f"{job.name} {job.detail}" for job in plan.jobs if job.system in queued]
    if in_queue:
        show(and_more(in_queue, _SHOWN))
    if plan.folds is not None:
        show_left_out(plan.jobs)
    waiting = [job for job in plan.jobs if job.state != "done" and job.system not in queued]
    if waiting:
        show(submit_array(waiting, recipe, script, args.max_running, sbatch))
    else:
        show("nothing to submit")
    return 0


def find_recipe(path: str) -> Path:
    """Return the recipe at `path`.

    Raises:
        UsageError: it is no file, or a launch cannot start here.
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
    recipe = find_recipe(args.recipe)
    check_options(args, sbatch_options)
    command = parse_command_line(list(args.words), "")
    points = PointOptions(seeds=args.seeds, sweep=args.sweep, random=args.random, folds=args.folds)
    if args.slurm is not None:
        plan = plan_runs(recipe, command.configs, command.overrides, points, SLURM_OVERRIDES)
        return submit(plan, recipe, Path(args.slurm), args, sbatch_options)
    named = {word.partition("=")[0].strip() for word in (*command.overrides, *args.sweep)}
    for setting, instead in _LAUNCHERS_SETTINGS.items():
        if setting in named:
            raise UsageError(
                f"{setting} is set by the launcher and cannot be changed here. Use {instead}."
            )
    slots = open_slots(args.gpus, args.slots)
    launchers = launcher_overrides(slots, args.processes_per_run, args.slots is not None)
    plan = plan_runs(recipe, command.configs, command.overrides, points, launchers)
    if args.dry_run:
        # The results so far are included.
        for job in plan.jobs:
            job.restore_state()
        show(plan.describe())
        show(list_runs(plan.jobs))
        return 0
    jobs = plan.jobs
    assign_slots(jobs, slots, args.processes_per_run)
    if not slots.are_gpus and args.slots is None:
        show("warning: no GPU found: runs use the CPU, one at a time (--slots N: N at a time)")
    if plan.has_points:
        show(plan.describe())
    for job in jobs:
        job.restore_state()
    stop = StopRequest()
    # A requested stop is not a failure: the same command resumes.
    is_interrupted = False
    with stop.listening():
        try:
            run_queue(jobs, slots, recipe, Table(sys.stdout), stop)
        except KeyboardInterrupt:
            is_interrupted = True
    show(summary(jobs, with_results=plan.folds is None))
    wants_report = args.report is not None or args.latex is not None
    is_written = wants_report and write_results(jobs, args.report, args.latex)
    # With a report, the command of the report shows the table of the folds.
    if plan.folds is not None and not is_written:
        show_left_out(jobs)
    return 130 if is_interrupted else int(any(job.state == "failed" for job in jobs))

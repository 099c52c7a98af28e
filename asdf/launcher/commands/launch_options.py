"""The options of `python -m asdf launch`, and checks of contradictory ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.commands.options import argument, flag, option
from asdf.errors import UsageError
from asdf.launcher import check_script


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
    random_seed: int = option("seed for --random", "S", default=0)
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
    """Refuse options of the other kind of launch, and a script that cannot be submitted.

    Raises:
        UsageError: an option does not fit; the message names it.
    """
    if args.slurm is None:
        if sbatch_options or args.max_running is not None:
            raise UsageError(
                "--max-running and sbatch options after -- need --slurm. Give it too, or leave "
                "them out."
            )
        return
    if args.report is not None or args.latex is not None:
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

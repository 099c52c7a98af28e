"""The options of `python -m asdf launch`, and checks of contradictory ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
    random_seed: int = option("seed for --random and --search", "S", default=0)
    folds: str | None = option(
        "one run for each K values of a column of the training sets, such as attack:2; it leaves "
        "out these values and a share of the speakers, and is scored on them",
        "COLUMN:K",
    )


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """Search with Optuna, shared by any number of launches."""

    search: tuple[str, ...] = option(
        "setting to search: a range, LOW..HIGH or LOW..HIGH:log, or values A|B|C",
        "section.name=VALUES",
        default=(),
        repeated=True,
    )
    trials: int | None = option("total number of points of all launches", "N")
    storage: str | None = option("file or database address that the launches share", "FILE")
    objective: str = option(
        "validation set whose metric is optimised (the first one)", "SET", default=""
    )
    pruner: Literal["median", "none"] = option(
        "rule for stopping runs early (%(default)s: stop runs that are worse than the median of "
        "the others at the same evaluation)",
        default="median",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """On a cluster."""

    slurm: str | None = option(
        "submit the runs as a job array, one task of this script per run, or submit N workers of a "
        "--search; options after -- are passed to sbatch",
        "SCRIPT|N",
    )
    max_running: int | None = option("maximum number of tasks that run at a time", "N")


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Outputs when all runs are done."""

    report: Path | None = option("write a report of all runs", "PAGE")
    latex: Path | None = option("write a LaTeX table for a paper, configs by set", "OUT")


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(ValueOptions, SearchOptions, ClusterOptions, ResultOptions):
    """Options of the command."""

    recipe: str = argument("run.py of a recipe, e.g. recipes/wav2vec_aasist/run.py", "RUN.PY")
    words: tuple[str, ...] = argument(
        "run configs or patterns of their names, and overrides for all runs", "CONFIG"
    )
    gpus: str | None = option("GPUs to use, e.g. 0,1,2,3 (all visible ones)", "IDS", one_of="where")
    slots: int | None = option("use the CPU, N runs at a time", "N", one_of="where")
    processes_per_run: int | None = option("processes per run (as in its config)", "N")
    dry_run: bool = flag("check everything and list the runs, without starting them")

    @property
    def is_for_cluster(self) -> bool:
        """Whether the options are for a cluster instead of this machine."""
        return self.slurm is not None or self.max_running is not None or self.dry_run

    @property
    def workers(self) -> int:
        """Number of workers in --slurm of a search; 0 for a script."""
        return int(self.slurm) if self.slurm and re.fullmatch("[1-9][0-9]{0,4}", self.slurm) else 0


def check_options(args: LaunchOptions, sbatch_options: Sequence[str]) -> None:
    """Refuse options of the other kind of launch, and a script that cannot be submitted.

    Raises:
        UsageError: an option does not fit; the message names it.
    """
    check_search(args)
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
    here: dict[str, str | int | None] = {"gpus": args.gpus}
    if not args.search:
        # A worker of a search starts its runs itself.
        here |= {"slots": args.slots, "processes-per-run": args.processes_per_run}
    for name, value in here.items():
        if value is not None:
            raise UsageError(
                f"--{name} cannot be used with --slurm: the job script determines the resources of "
                "a task. Change them with sbatch options after --."
            )
    if args.max_running is not None and args.max_running < 1:
        raise UsageError(f"--max-running {args.max_running}: give at least 1.")
    if not args.search:
        check_script(Path(args.slurm), sbatch_options)


def check_search(args: LaunchOptions) -> None:
    """Refuse options that do not fit a search, or need one.

    Raises:
        UsageError: there is one; the message names it.
    """
    if not args.search:
        if args.trials is not None or args.storage is not None or args.objective:
            raise UsageError("--trials, --storage and --objective need --search. Give it too.")
        return
    if args.trials is None or args.storage is None:
        raise UsageError(
            "--search needs --trials N, and --storage FILE for its points and their results."
        )
    if args.trials < 1:
        raise UsageError(f"--trials {args.trials}: give at least 1.")
    others = {
        "--seeds": args.seeds,
        "--sweep": args.sweep or None,
        "--random": args.random,
        "--folds": args.folds,
        "--report": args.report,
        "--latex": args.latex,
    }
    for name, value in others.items():
        if value is not None:
            raise UsageError(
                f"{name} cannot be used with --search, which chooses its points itself. Leave one "
                "of them out."
            )
    if args.slurm is not None and not args.workers:
        raise UsageError(
            f"--slurm {args.slurm}: with --search, give the number of workers to submit, such as "
            "8. Their job script is written by this command; sbatch options follow after --."
        )

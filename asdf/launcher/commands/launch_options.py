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
    """A run for each of several values."""

    seeds: str | None = option("of recipe.seed, e.g. 0-4 or 0,3,7-9", "LIST")
    sweep: tuple[str, ...] = option(
        "values of any setting; several --sweep: each value with each of the others",
        "section.name=A,B",
        default=(),
        repeated=True,
    )
    random: int | None = option("only N points of the sweeps, drawn at random", "N")
    random_seed: int = option(
        "which ones are drawn; the same S draws the same ones", "S", default=0
    )
    folds: str | None = option(
        "a run for every K values of a column of the training sets, such as attack:2, which "
        "leaves them out, and a share of the speakers, and is scored on what it left out",
        "COLUMN:K",
    )


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """A search by Optuna, which any number of launches share."""

    search: tuple[str, ...] = option(
        "values that it may choose: a range, LOW..HIGH or LOW..HIGH:log, or A|B|C",
        "section.name=VALUES",
        default=(),
        repeated=True,
    )
    trials: int | None = option("points in all, of all launches", "N")
    storage: str | None = option(
        "what the launches share: a file, or the address of a database", "FILE"
    )
    objective: str = option("validation set whose metric counts (the first one)", "SET", default="")
    pruner: Literal["median", "none"] = option(
        "which runs are stopped early (%(default)s: those worse than half of the others at the "
        "same evaluation)",
        default="median",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """On a cluster."""

    slurm: str | None = option(
        "submit the runs as a job array, each a task of this script, or N workers of a --search; "
        "after --: options of sbatch",
        "SCRIPT|N",
    )
    max_running: int | None = option("at most N tasks at a time", "N")


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """When all runs are done."""

    report: Path | None = option("write a report of all of them", "PAGE")
    latex: Path | None = option("write a table for a paper: configs by set", "OUT")


@dataclass(frozen=True, kw_only=True)
class LaunchOptions(ValueOptions, SearchOptions, ClusterOptions, ResultOptions):
    """Options of the command."""

    recipe: str = argument("the recipe, e.g. recipes/wav2vec_aasist/run.py", "RUN.PY")
    words: tuple[str, ...] = argument(
        "its run configs, or patterns of their names, and overrides for all of them", "CONFIG"
    )
    gpus: str | None = option("which GPUs, e.g. 0,1,2,3 (all visible ones)", "IDS", one_of="where")
    slots: int | None = option("compute on the CPU, N runs at a time", "N", one_of="where")
    processes_per_run: int | None = option("processes per run (what its config says)", "N")
    dry_run: bool = flag("check everything, list the runs, and stop")

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
            raise UsageError("options of sbatch after --, and --max-running, require --slurm.")
        return
    if args.report is not None or args.latex is not None:
        raise UsageError(
            "--report and --latex need finished runs, but --slurm only submits them: write them "
            "with 'python -m asdf report' when the array has ended."
        )
    here: dict[str, str | int | None] = {"gpus": args.gpus}
    if not args.search:
        # A worker of a search starts its runs itself.
        here |= {"slots": args.slots, "processes-per-run": args.processes_per_run}
    for name, value in here.items():
        if value is not None:
            raise UsageError(
                f"--{name} and --slurm: the job script sets the resources of a task; options of "
                "sbatch after -- change them."
            )
    if args.max_running is not None and args.max_running < 1:
        raise UsageError(f"--max-running {args.max_running}: must be at least 1.")
    if not args.search:
        check_script(Path(args.slurm), sbatch_options)


def check_search(args: LaunchOptions) -> None:
    """Refuse options that do not fit a search, or need one.

    Raises:
        UsageError: there is one; the message names it.
    """
    if not args.search:
        if args.trials is not None or args.storage is not None or args.objective:
            raise UsageError("--trials, --storage and --objective require --search.")
        return
    if args.trials is None or args.storage is None:
        raise UsageError(
            "--search needs --trials N, and --storage FILE, where its points and their results are "
            "kept."
        )
    if args.trials < 1:
        raise UsageError(f"--trials {args.trials}: must be at least 1.")
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
                f"{name} cannot be combined with --search, which chooses its own points."
            )
    if args.slurm is not None and not args.workers:
        raise UsageError(
            f"--slurm {args.slurm}: with --search, give the number of workers to submit, such as "
            "8; their script is generated, and options of sbatch follow after --."
        )

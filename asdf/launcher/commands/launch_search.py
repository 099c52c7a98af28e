"""`launch --search`: points that Optuna proposes, run by this machine's queue.

Invariant: all values that may be proposed are checked before the first run starts.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.commands.outputs import show
from asdf.distributed.stopping import StopRequest
from asdf.errors import UsageError
from asdf.launcher import (
    Dimension,
    Job,
    PlannedRun,
    PointOptions,
    Search,
    SearchPlan,
    SearchWorkers,
    Slots,
    Table,
    check_array_options,
    plan_runs,
    read_space,
    run_queue,
    settings_digest,
)
from asdf.launcher.commands.launch_jobs import make_jobs
from asdf.launcher.commands.launch_options import LaunchOptions
from asdf.recipe.declared_corpora import validation_sets
from asdf.text import and_more

_NAME_LENGTH = 8
_SHOWN = 5


@dataclass(frozen=True)
class Place:
    """The recipe and the resources of runs.

    Attributes:
        recipe: Path of the recipe's run.py.
        processes: Number of processes per run; None: as in the config.
        launchers: Overrides that the launcher adds.
    """

    recipe: Path
    slots: Slots
    processes: int | None
    launchers: Sequence[str]

    def job(self, run: PlannedRun) -> Job:
        """Return the job of a run."""
        [job] = make_jobs([run], self.recipe, self.slots, self.processes)
        return job


@dataclass(frozen=True)
class WorkerWords:
    """The command of a worker of a search on a cluster.

    Attributes:
        words: Arguments of its command after `launch`.
        sbatch_options: User's options of sbatch.
    """

    words: tuple[str, ...]
    sbatch_options: tuple[str, ...]


def run_search(
    args: LaunchOptions,
    configs: Sequence[str],
    overrides: Sequence[str],
    place: Place,
    worker: WorkerWords,
) -> int:
    """Run points until the requested number is reached; return the exit status.

    Args:
        worker: Command of one worker, and options of sbatch, for --slurm.

    Raises:
        UsageError: there are several configs, a value is not valid, or Optuna is not installed.
        AsdfError: Slurm refuses.
    """
    space = read_space(args.search)

    def plan_run(values: dict[str, str]) -> PlannedRun:
        sweeps = [f"{setting}={text}" for setting, text in values.items()]
        options = PointOptions(sweeps=sweeps)
        [run] = plan_runs(place.recipe, configs, overrides, options, place.launchers).runs
        return run

    plain = plan_runs(place.recipe, configs, overrides, launchers=place.launchers).runs
    if len(plain) != 1:
        raise UsageError(f"--search takes one config, not {len(plain)}.")
    _check_values(space, configs, overrides, place)
    check_objective(args.objective, plain[0])
    # Other settings, values or objectives belong to another study.
    facts = [settings_digest(plain[0].settings.plain()), sorted(args.search), args.objective]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    assert args.trials is not None and args.storage is not None  # `check_search` refuses it
    plan = SearchPlan(
        name=f"{plain[0].config}-{digest[:_NAME_LENGTH]}",
        space=space,
        trials=args.trials,
        storage=args.storage,
        folder=plain[0].output,
        objective=args.objective,
        prunes=args.pruner == "median",
        seed=args.random_seed,
    )
    # A login node lacks the GPUs that the workers will have.
    needed = place.job(plain[0]).slots_needed if args.slurm is None else 1
    search = Search(plan, plan_run, place.job, needed)
    show(search.describe())
    if args.slurm is not None:
        return _submit(args, search, worker)
    if args.dry_run:
        return 0
    return _run(search, place)


def _submit(args: LaunchOptions, search: Search, worker: WorkerWords) -> int:
    """Submit the missing workers, or print what would be submitted."""
    home = search.plan.folder.resolve() / f"search-{search.plan.name}.slurm"
    workers = SearchWorkers(worker.words, args.workers, home, Path.cwd())
    count = min(workers.count, search.left)
    if not count:
        show("nothing to submit")
        return 0
    if args.dry_run:
        options = workers.sbatch_words(count, args.max_running, worker.sbatch_options)
        show(f"# sbatch {shlex.join([*options, str(workers.script)])}\n{workers.script_text()}")
        return 0
    check_array_options(worker.sbatch_options, "workers", "this machine is the search's worker")
    queued = workers.queued()
    if queued:
        show(f"workers in the queue: {and_more(queued, _SHOWN)}")
    count -= len(queued)
    if count < 1:
        show("nothing to submit")
        return 0
    job = workers.submit(workers.sbatch_words(count, args.max_running, worker.sbatch_options))
    show(
        f"submitted {count} workers as job {job}; they share the remaining trials of "
        f"{args.storage}\n"
        f"  watch: squeue --job {job}; their output is in {home}\n"
        f"  stop a worker, which saves and is requeued: scancel --batch --signal=USR2 {job}_N\n"
        f"  end all: scancel {job}\n"
        "Run the same command again to see the trials and submit missing workers."
    )
    return 0


def _run(search: Search, place: Place) -> int:
    jobs: list[Job] = []
    interrupted = False
    stop = StopRequest()
    with stop.listening():
        try:
            run_queue(jobs, place.slots, place.recipe, Table(sys.stdout), stop, search)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            search.give_back()
    show(search.describe())
    if interrupted:
        return 130
    return int(any(job.state == "failed" for job in jobs))


def _check_values(
    space: Sequence[Dimension], configs: Sequence[str], overrides: Sequence[str], place: Place
) -> None:
    """Refuse values that a run would refuse: all choices, and both ends of ranges.

    Raises:
        UsageError: a value is not valid; the message lists the errors of a setting.
    """
    for dimension in space:
        sweeps = []
        for each in space:
            # One value of each other setting, as the grid of all may be too large.
            ends = each.ends() if each is dimension else each.ends()[:1]
            sweeps.append(f"{each.setting}={','.join(ends)}")
        options = PointOptions(sweeps=sweeps)
        plan_runs(place.recipe, configs, overrides, options, place.launchers)


def check_objective(objective: str, run: PlannedRun) -> None:
    sets = validation_sets(run.settings.recipe)
    if not sets or (objective and objective not in sets):
        raise UsageError(
            f"--search: config {run.config} has the validation sets {', '.join(sets) or '(none)'}: "
            "--objective must name one of them; recipe.validation_sets adds more."
        )

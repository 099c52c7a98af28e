"""A search: Optuna proposes points and stops bad ones; each trial is an ordinary run.

    python -m asdf launch RUN.PY net --search network.initial_learning_rate=1e-6..1e-4:log \\
        --trials 50 --storage search.log

Any number of launches, on one machine or several that see the runs' folders, share a storage.

Invariant: a trial has one worker at a time, the process that holds the lock of the run's folder;
only that one tells Optuna how it ended, and only of a trial that is not ended. A worker that dies
leaves a trial without a lock, which the next one takes up: it resumes the run. One trial at a time
is made and claimed, and is known from the first as one of the folder in which its run will lie; so
one that is made and not claimed is of a worker that died there, and is taken up as well.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from asdf.errors import UsageError
from asdf.launcher.planning import PlannedRun
from asdf.launcher.processes import RunningJob, file_version
from asdf.launcher.search_space import Dimension
from asdf.launcher.states import Job
from asdf.runs.evaluations import Evaluation, read_evaluations
from asdf.runs.layout import Layout
from asdf.runs.seeds import derived_seed
from asdf.runs.systems import can_lock, lock
from asdf.text import aligned

_SHOWN = 10
# What a trial says from the first: the folder of its run.
_FOLDER = "folder"


@dataclass(frozen=True)
class SearchPlan:
    """What is searched, and how.

    Attributes:
        name: Name of the study in the storage: other settings are another study.
        trials: Number of points in all, of all workers.
        storage: File of a journal, or the address of a database.
        folder: Folder of the runs' folders.
        objective: Validation set whose metric counts; '' for the first one.
        prunes: Whether runs that are worse than the median at the same evaluation are stopped.
        seed: Seed that the proposals follow from, with what is known when they are made.
    """

    name: str
    space: Sequence[Dimension]
    trials: int
    storage: str
    folder: Path
    objective: str = ""
    prunes: bool = True
    seed: int = 0


@dataclass
class _Claimed:
    """A trial that this process works at.

    Attributes:
        trial: Trial of Optuna.
        lock: Open file whose lock is held.
        version: Version of the evaluations that were reported.
    """

    trial: Any
    lock: IO[str]
    is_pruned: bool = False
    version: tuple[int, int] | None = None


@dataclass
class Search:
    """The trials of a study, as jobs of a queue.

    Attributes:
        plan_run: Function that makes the run of a point, of texts by setting.
        make_job: Function that makes the job of a run.
        is_over: Whether there was nothing to do for this process when it last asked.
    """

    plan: SearchPlan
    plan_run: Callable[[dict[str, str]], PlannedRun]
    make_job: Callable[[PlannedRun], Job]
    slots_needed: int = 1
    is_over: bool = False
    _claimed: dict[Path, _Claimed] = field(default_factory=dict)
    _runs: dict[int, PlannedRun] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            # Not by `import`: its types would only be known where it is installed.
            self._optuna: Any = import_module("optuna")
        except ImportError:
            raise UsageError(
                "--search needs the package optuna: pip install 'asdf-antispoofing[optuna]'."
            ) from None
        self._storage = _open_storage(self._optuna, self.plan)
        self._study = _open_study(self._optuna, self.plan, self._storage)

    def more(self) -> Job | None:
        """Return the job of a trial that nobody is at, or of a new one; None: there is none."""
        job = self._take_up() or self._propose()
        self.is_over = job is None
        return job

    def look(self, run: RunningJob) -> None:
        """Report what a run has evaluated since; ask it to stop if it is to be pruned."""
        claimed = self._claimed[run.job.system]
        version = file_version(run.job.layout.evaluations)
        if claimed.is_pruned or version == claimed.version:
            return
        claimed.version = version
        self._report(claimed.trial, run.job)
        if claimed.trial.should_prune():
            claimed.is_pruned = True
            run.ask_to_stop()

    def ended(self, job: Job) -> None:
        """Tell how a run ended, unless it is to go on, and give its trial back."""
        claimed = self._claimed.pop(job.system)
        states = self._optuna.trial.TrialState
        costs = self._report(claimed.trial, job)
        if job.state == "done" and costs:
            claimed.trial.set_user_attr("run", job.label)
            self._study.tell(claimed.trial, min(costs))
        elif job.state == "stopped" and claimed.is_pruned:
            job.detail = "stopped: worse than the median of the others"
            self._study.tell(claimed.trial, state=states.PRUNED)
        elif job.state in ("done", "failed"):
            reason = job.detail or f"no evaluation of {self.plan.objective or 'a validation set'}"
            claimed.trial.set_user_attr("failed", reason)
            self._study.tell(claimed.trial, state=states.FAIL)
        claimed.lock.close()

    def give_back(self) -> None:
        """Give back trials whose runs were killed: they go on another time."""
        for claimed in self._claimed.values():
            claimed.lock.close()
        self._claimed.clear()

    @property
    def left(self) -> int:
        """Number of trials that have not ended, those that nobody has begun among them."""
        trials = self._study.get_trials(deepcopy=False)
        ended = [trial for trial in trials if trial.state.is_finished()]
        return max(0, self.plan.trials - len(ended))

    def describe(self) -> str:
        """Return the counts of the trials and the best of them, a line each."""
        trials = self._study.get_trials(deepcopy=False)
        counts = {state.name.lower(): 0 for state in self._optuna.trial.TrialState}
        for trial in trials:
            counts[trial.state.name.lower()] += 1
        words = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        lines = [
            f"search {self.plan.name} in {self.plan.storage}: {len(trials)} of {self.plan.trials} "
            f"trials{': ' if words else ''}{words}"
        ]
        complete = [trial for trial in trials if trial.state.name == "COMPLETE"]
        complete.sort(key=lambda trial: (trial.value, trial.number))
        rows = [["trial", "cost", "run"]]
        for trial in complete[:_SHOWN]:
            run = trial.user_attrs.get("run", "")
            rows.append([str(trial.number), f"{trial.value:.6g}", run])
        return "\n".join([*lines, *aligned(rows)] if complete else lines)

    def _take_up(self) -> Job | None:
        """Return the job of a trial that its worker has left; None where there is none."""
        for frozen in self._running():
            # Its run may lie on another machine's disk.
            if not self._is_begun(frozen):
                continue
            trial = self._optuna.trial.Trial(self._study, frozen._trial_id)
            job = self._claim(trial, self._run_of(trial))
            if job is not None:
                return job
        return None

    def _running(self) -> list[Any]:
        running = (self._optuna.trial.TrialState.RUNNING,)
        trials: list[Any] = self._study.get_trials(deepcopy=False, states=running)
        return trials

    def _is_begun(self, frozen: Any) -> bool:
        """Whether the run of a trial was claimed here, by whichever worker."""
        if set(frozen.params) < {dimension.setting for dimension in self.plan.space}:
            return False
        trial = self._optuna.trial.Trial(self._study, frozen._trial_id)
        claim = Layout(self._run_of(trial).system).launch_claim
        known = claim.read_text(encoding="utf-8") if claim.exists() else ""
        return self._line(trial) in known.splitlines(keepends=True)

    def _propose(self) -> Job | None:
        """Return the job of a new trial; None where there are as many as are wanted."""
        with self._proposing() as folder:
            while (trial := self._unbegun(folder)) is not None:
                run = self._run_of(trial)
                claim = Layout(run.system).launch_claim
                claim.parent.mkdir(parents=True, exist_ok=True)
                # By each trial that is this point: choices may be proposed twice.
                with claim.open("a", encoding="utf-8") as file:
                    file.write(self._line(trial))
                job = self._claim(trial, run)
                if job is not None:
                    return job
        return None

    def _unbegun(self, folder: str) -> Any:
        """Return a trial whose run nobody has claimed, or a new one; None where there is none."""
        states = self._optuna.trial.TrialState
        for is_new in (False, True):
            if is_new:
                if len(self._study.get_trials(deepcopy=False)) >= self.plan.trials:
                    return None
                attributes = {_FOLDER: folder}
                # Not by `ask`, after which a worker may die before it says whose the trial is.
                self._study.add_trial(
                    self._optuna.create_trial(state=states.RUNNING, user_attrs=attributes)
                )
            for frozen in self._running():
                if frozen.user_attrs.get(_FOLDER) != folder or self._is_begun(frozen):
                    continue
                # Of the trial and what is known: workers that ask at once get different points.
                seed = derived_seed(self.plan.seed, "launch --search", str(frozen.number))
                # Opened again, as a study keeps what its sampler knew.
                sampler = self._optuna.samplers.TPESampler(seed=seed % 2**32)
                study = _open_study(self._optuna, self.plan, self._storage, sampler)
                trial = self._optuna.trial.Trial(study, frozen._trial_id)
                if frozen.number < self.plan.trials:
                    return trial
                # A worker of another folder was quicker.
                trial.set_user_attr("failed", "one more than --trials")
                self._study.tell(trial, state=states.FAIL)
        return None

    @contextmanager
    def _proposing(self) -> Iterator[str]:
        """Be the only worker of the runs' folder that makes trials; yield what stands for it.

        Raises:
            UsageError: there are no locks.
        """
        self.plan.folder.mkdir(parents=True, exist_ok=True)
        path = self.plan.folder / f".search-{self.plan.name}.lock"
        with path.open("a+", encoding="utf-8") as file:
            try:
                lock(file, wait=True)
            except OSError as error:
                raise self._without_locks(path.parent) from error
            # Not its path, which may be another one on another machine.
            file.seek(0)
            folder = file.read()
            if not folder:
                folder = secrets.token_hex(8)
                file.write(folder)
                file.flush()
            yield folder

    def _without_locks(self, folder: Path) -> UsageError:
        return UsageError(
            f"the file system of {folder} has no locks, by which the workers of a search "
            "know whose run is whose: give paths.output_folder another one."
        )

    def _claim(self, trial: Any, run: PlannedRun) -> Job | None:
        """Return the job of a trial that nobody else is at, if there is something left to run."""
        if run.system in self._claimed:
            return None
        held = Layout(run.system).launch_claim.open("a", encoding="utf-8")
        try:
            has_locks = can_lock(held)
        except BlockingIOError:
            held.close()
            return None
        if not has_locks:
            held.close()
            raise self._without_locks(run.system)
        if self._study.get_trials(deepcopy=False)[trial.number].state.is_finished():
            held.close()
            return None
        self._claimed[run.system] = _Claimed(trial, held)
        job = self.make_job(run)
        job.restore_state()
        if job.state == "done":
            # By a worker that died before it said so, or as a point of another launch.
            self.ended(job)
            return None
        return job

    def _run_of(self, trial: Any) -> PlannedRun:
        # Others' trials are looked at again and again.
        if trial.number not in self._runs:
            values = {dimension.setting: dimension.suggest(trial) for dimension in self.plan.space}
            self._runs[trial.number] = self.plan_run(values)
        return self._runs[trial.number]

    def _line(self, trial: Any) -> str:
        return f"{self.plan.name} {trial.number}\n"

    def _report(self, trial: Any, job: Job) -> list[float]:
        """Report the evaluations that Optuna does not know; return the costs of all."""
        costs = costs_of(read_evaluations(job.layout), self.plan.objective)
        known = self._study.get_trials(deepcopy=False)[trial.number].intermediate_values
        for step, cost in enumerate(costs, 1):
            if step not in known:
                trial.report(cost, step)
        return costs


def costs_of(evaluations: Sequence[Evaluation], set_name: str = "") -> list[float]:
    """Return a number per evaluation, lower for a better network, in the order of training.

    Args:
        set_name: Validation set that counts; '' for the first one.
    """
    costs = []
    for evaluation in evaluations:
        values = evaluation.values(evaluation.metric)
        cost = evaluation.cost(evaluation.metric, set_name or next(iter(values), ""))
        if cost is not None:
            costs.append(cost)
    return costs


def _open_storage(optuna: Any, plan: SearchPlan) -> Any:
    """Return what the workers share, in which the first of them makes the study.

    Raises:
        UsageError: it cannot be opened.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        if "://" in plan.storage:
            storage = optuna.storages.get_storage(plan.storage)
        else:
            backend = optuna.storages.journal.JournalFileBackend(plan.storage)
            storage = optuna.storages.JournalStorage(backend)
        _open_study(optuna, plan, storage)
    # Databases have errors of their own makers.
    except Exception as error:
        raise UsageError(
            f"--storage {plan.storage}: it cannot be opened: {str(error).splitlines()[0]} Name a "
            "file that all workers see, or the address of a database, such as sqlite:///search.db."
        ) from None
    return storage


def _open_study(optuna: Any, plan: SearchPlan, storage: Any, sampler: Any = None) -> Any:
    pruners = optuna.pruners
    return optuna.create_study(
        storage=storage,
        study_name=plan.name,
        direction="minimize",
        sampler=sampler,
        pruner=pruners.MedianPruner() if plan.prunes else pruners.NopPruner(),
        load_if_exists=True,
    )

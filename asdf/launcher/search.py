"""Hyperparameter search: Optuna proposes points and prunes bad ones; each trial is a run.

    python -m asdf launch RUN.PY net --search network.initial_learning_rate=1e-6..1e-4:log \\
        --trials 50 --storage search.log

Any number of launches, on any machines that see the runs' folders, can share a storage.

Invariant: a trial has one worker at a time, the process that holds the lock of the run's folder.
Only this process reports the outcome to Optuna, and only for a trial that is not finished. A worker
that dies leaves an unlocked trial, which the next worker resumes. Only one trial at a time is
created and claimed, and from its creation it records the folder of its run; a trial that was
created but not claimed belongs to a worker that died in between, and is resumed too.
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
# Attribute with the folder of a trial's run, set at its creation.
_FOLDER = "folder"


@dataclass(frozen=True)
class SearchPlan:
    """The space and the method of a search.

    Attributes:
        name: Name of the study in the storage; other settings are another study.
        trials: Total number of points, for all workers.
        storage: File of a journal, or the address of a database.
        folder: Folder of the runs' folders.
        objective: Validation set of the objective; '' for the first one.
        prunes: Whether to stop runs that are worse than the median at the same evaluation.
        seed: Seed of the proposals, which also depend on the results known at the time.
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
    """A trial that this process runs.

    Attributes:
        trial: Optuna's trial.
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
        plan_run: Function that makes the run of a point, given as texts by setting.
        make_job: Function that makes the job of a run.
        is_over: Whether there was nothing to do for this process at the last request.
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
            # Not a plain `import`, because its types are known only where it is installed.
            self._optuna: Any = import_module("optuna")
        except ImportError:
            raise UsageError(
                "--search needs the package optuna: pip install 'asdf-antispoofing[optuna]'."
            ) from None
        self._storage = _open_storage(self._optuna, self.plan)
        self._study = _open_study(self._optuna, self.plan, self._storage)

    def more(self) -> Job | None:
        """Return the job of an abandoned trial, or of a new one; None if there is none."""
        job = self._take_up() or self._propose()
        self.is_over = job is None
        return job

    def look(self, run: RunningJob) -> None:
        """Report new evaluations of a run; ask it to stop if it is to be pruned."""
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
        """Report how a run ended, unless it will be resumed, and release its trial."""
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
        """Release trials whose runs were killed, so that they can be resumed."""
        for claimed in self._claimed.values():
            claimed.lock.close()
        self._claimed.clear()

    @property
    def left(self) -> int:
        """Number of unfinished trials, including those not created yet."""
        trials = self._study.get_trials(deepcopy=False)
        ended = [trial for trial in trials if trial.state.is_finished()]
        return max(0, self.plan.trials - len(ended))

    def describe(self) -> str:
        """Return the counts of the trials and the best of them, one line each."""
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
        """Return the job of a trial that its worker has abandoned; None if there is none."""
        for frozen in self._running():
            # Its run may be on another machine's disk.
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
        """Whether any worker has claimed the run of a trial here."""
        if set(frozen.params) < {dimension.setting for dimension in self.plan.space}:
            return False
        trial = self._optuna.trial.Trial(self._study, frozen._trial_id)
        claim = Layout(self._run_of(trial).system).launch_claim
        known = claim.read_text(encoding="utf-8") if claim.exists() else ""
        return self._line(trial) in known.splitlines(keepends=True)

    def _propose(self) -> Job | None:
        """Return the job of a new trial; None if the number of trials is reached."""
        with self._proposing() as folder:
            while (trial := self._unbegun(folder)) is not None:
                run = self._run_of(trial)
                claim = Layout(run.system).launch_claim
                claim.parent.mkdir(parents=True, exist_ok=True)
                # All trials of this point are recorded: choices may be proposed twice.
                with claim.open("a", encoding="utf-8") as file:
                    file.write(self._line(trial))
                job = self._claim(trial, run)
                if job is not None:
                    return job
        return None

    def _unbegun(self, folder: str) -> Any:
        """Return a trial whose run is not claimed, or a new one; None if there is none."""
        states = self._optuna.trial.TrialState
        for is_new in (False, True):
            if is_new:
                if len(self._study.get_trials(deepcopy=False)) >= self.plan.trials:
                    return None
                attributes = {_FOLDER: folder}
                # `ask` is not used, because a worker may die before it records the folder of the
                # trial.
                self._study.add_trial(
                    self._optuna.create_trial(state=states.RUNNING, user_attrs=attributes)
                )
            for frozen in self._running():
                if frozen.user_attrs.get(_FOLDER) != folder or self._is_begun(frozen):
                    continue
                # The seed depends on the trial, so that concurrent workers get different points.
                seed = derived_seed(self.plan.seed, "launch --search", str(frozen.number))
                # The study is opened again, because a study keeps the state of its sampler.
                # Optuna passes the seed to numpy, whose limit is 32 bits.
                sampler = self._optuna.samplers.TPESampler(seed=seed % 2**32)
                study = _open_study(self._optuna, self.plan, self._storage, sampler)
                trial = self._optuna.trial.Trial(study, frozen._trial_id)
                if frozen.number < self.plan.trials:
                    return trial
                # A worker in another folder was faster.
                trial.set_user_attr("failed", "one more than --trials")
                self._study.tell(trial, state=states.FAIL)
        return None

    @contextmanager
    def _proposing(self) -> Iterator[str]:
        """Be the only worker of the runs' folder that creates trials; yield the folder's id.

        Raises:
            UsageError: locks are not available.
        """
        self.plan.folder.mkdir(parents=True, exist_ok=True)
        path = self.plan.folder / f".search-{self.plan.name}.lock"
        with path.open("a+", encoding="utf-8") as file:
            try:
                lock(file, wait=True)
            except OSError as error:
                raise self._without_locks(path.parent) from error
            # The path would not do, as it may differ on another machine.
            file.seek(0)
            folder = file.read()
            if not folder:
                folder = secrets.token_hex(8)
                file.write(folder)
                file.flush()
            yield folder

    def _without_locks(self, folder: Path) -> UsageError:
        return UsageError(
            f"the file system of {folder} does not support locks, which the workers of a search "
            "need: set paths.output_folder to another one."
        )

    def _claim(self, trial: Any, run: PlannedRun) -> Job | None:
        """Return the job of a trial that is not claimed, if there is something left to run."""
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
        # Checked only with the lock held: another worker may have ended it before.
        if self._study.get_trials(deepcopy=False)[trial.number].state.is_finished():
            held.close()
            return None
        self._claimed[run.system] = _Claimed(trial, held)
        job = self.make_job(run)
        job.restore_state()
        if job.state == "done":
            # Left by a worker that died before it reported, or by a point of another launch.
            self.ended(job)
            return None
        return job

    def _run_of(self, trial: Any) -> PlannedRun:
        # Trials of others are inspected repeatedly.
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
        set_name: Validation set of the objective; '' for the first one.
    """
    costs = []
    for evaluation in evaluations:
        values = evaluation.values(evaluation.metric)
        cost = evaluation.cost(evaluation.metric, set_name or next(iter(values), ""))
        if cost is not None:
            costs.append(cost)
    return costs


def _open_storage(optuna: Any, plan: SearchPlan) -> Any:
    """Return the storage that the workers share; the first worker creates the study.

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
    # Databases raise errors of their own types.
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

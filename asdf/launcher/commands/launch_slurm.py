"""`launch --slurm`: selection of the runs to submit, and advice on the job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from asdf.commands.outputs import show
from asdf.launcher import Job, Plan, Submission, list_runs, queued_runs, submit_array, summary
from asdf.launcher.commands.launch_jobs import plain_job
from asdf.launcher.commands.launch_options import LaunchOptions
from asdf.launcher.commands.launch_results import show_left_out
from asdf.text import and_more

# A job's GPUs are counted from 0, whatever the config states for this machine.
LAUNCHER_OVERRIDES = ("computing.gpu_ids=None",)
_SHOWN = 5


def submit(plan: Plan, recipe: Path, args: LaunchOptions, sbatch_options: Sequence[str]) -> int:
    """Submit the runs that are neither done nor queued, or list all of them.

    Raises:
        AsdfError: Slurm refuses.
    """
    queued = queued_runs()
    jobs: list[Job] = []
    waiting = []
    for run in plan.runs:
        job = plain_job(run, recipe)
        job.restore_state()
        jobs.append(job)
        if run.system in queued:
            job.state = "waiting"
            job.detail = f"in the queue as {queued[run.system]}"
        elif job.state != "done":
            waiting.append(run)
    show(plan.describe())
    if args.dry_run:
        show(list_runs(jobs))
        return 0
    done = [job for job in jobs if job.state == "done"]
    if done:
        show(summary(done))
    in_queue = [f"{job.label} {job.detail}" for job in jobs if job.state != "done" and job.detail]
    if in_queue:
        show(and_more(in_queue, _SHOWN))
    if plan.folds is not None:
        show_left_out(jobs)
    if not waiting:
        show("nothing to submit")
        return 0
    assert args.slurm is not None
    script = Path(args.slurm)
    submission = submit_array(waiting, recipe, script, args.max_running, sbatch_options)
    _show_submission(submission, len(waiting), args.max_running)
    return 0


def _show_submission(submission: Submission, tasks: int, max_running: int | None) -> None:
    job = submission.job
    limit = "" if max_running is None else f", at most {max_running} at a time"
    show(
        f"submitted {tasks} runs as job {job}, tasks 0 to {tasks - 1}{limit}\n"
        f"  runs, one line per task: {submission.file}\n"
        f"  watch: squeue --job {job}; the tasks' output is in {submission.folder}\n"
        f"  stop a task, which saves and is requeued: scancel --batch --signal=USR2 {job}_N\n"
        f"  cancel all: scancel {job}\n"
        "The same command shows finished runs, and submits those neither finished nor queued."
    )

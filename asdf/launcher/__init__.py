"""Launches of many runs: points, a queue over GPUs of a node or a job array, states."""

from asdf.launcher.job_arrays import Submission, check_script, queued_runs, submit_array
from asdf.launcher.part_arrays import PartArray, sbatch_words, submit_parts
from asdf.launcher.planning import Plan, PlannedRun, plan_runs
from asdf.launcher.points import PointOptions
from asdf.launcher.processes import kill_tree
from asdf.launcher.queue import run_queue
from asdf.launcher.slots import Slots, choose_gpus
from asdf.launcher.slurm import check_array_options
from asdf.launcher.state_table import Table, list_runs, summary
from asdf.launcher.states import Job, JobResult, outcome_settings, read_results, settings_digest

__all__ = [
    "Job",
    "JobResult",
    "PartArray",
    "Plan",
    "PlannedRun",
    "PointOptions",
    "Slots",
    "Submission",
    "Table",
    "check_array_options",
    "check_script",
    "choose_gpus",
    "kill_tree",
    "list_runs",
    "outcome_settings",
    "plan_runs",
    "queued_runs",
    "read_results",
    "run_queue",
    "sbatch_words",
    "settings_digest",
    "submit_array",
    "submit_parts",
    "summary",
]

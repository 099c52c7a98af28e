"""Launches of many runs: points, a queue over GPUs of a node or a job array, states."""

from asdf.launcher.planning import Plan, PointOptions, plan_runs
from asdf.launcher.processes import Slots, choose_gpus, kill_tree, run_queue
from asdf.launcher.slurm import (
    PartArray,
    check_array_options,
    check_script,
    queued_runs,
    sbatch_words,
    submit_array,
    submit_parts,
)
from asdf.launcher.states import Job, Table, list_runs, read_results, summary

__all__ = [
    "Job",
    "PartArray",
    "Plan",
    "PointOptions",
    "Slots",
    "Table",
    "check_array_options",
    "check_script",
    "choose_gpus",
    "kill_tree",
    "list_runs",
    "plan_runs",
    "queued_runs",
    "read_results",
    "run_queue",
    "sbatch_words",
    "submit_array",
    "submit_parts",
    "summary",
]

"""Many runs at a time: a queue of processes over the GPUs of a node, and their states."""

from asdf.launcher.processes import kill_tree
from asdf.launcher.queue import run_queue
from asdf.launcher.slots import Slots, choose_gpus
from asdf.launcher.states import Job, JobResult, read_results, settings_digest
from asdf.launcher.table import Table, summary

__all__ = [
    "Job",
    "JobResult",
    "Slots",
    "Table",
    "choose_gpus",
    "kill_tree",
    "read_results",
    "run_queue",
    "settings_digest",
    "summary",
]

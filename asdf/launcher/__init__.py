"""Launches of many runs: points, a queue over GPUs of a node or a job array, states."""

from asdf.launcher.processes import kill_tree
from asdf.launcher.slurm import PartArray, check_array_options, sbatch_words, submit_parts
from asdf.launcher.states import read_results

__all__ = [
    "PartArray",
    "check_array_options",
    "kill_tree",
    "read_results",
    "sbatch_words",
    "submit_parts",
]

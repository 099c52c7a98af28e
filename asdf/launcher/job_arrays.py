"""The runs of a launch as a single job array of Slurm.

The runs are lines of a file, and task N of the array runs line N through a job script.

Invariant: the name of a file of runs is derived from its content and the file never changes,
because queued tasks read it when they start. The comment of the job names the file, so Slurm itself
knows which runs are queued, and no run is submitted twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import UsageError
from asdf.launcher.planning import PlannedRun
from asdf.launcher.slurm import check_array_options, queued_tasks, submit
from asdf.runs.files import write_text

_COMMENT = "asdf-runs:"


@dataclass(frozen=True)
class Submission:
    """A queued array.

    Attributes:
        job: Number of the job.
        file: File of runs, with a line for each task.
        folder: Folder from which it was submitted, with the script's output.
    """

    job: str
    file: Path
    folder: Path


def check_script(script: Path, options: Sequence[str]) -> None:
    """Check that a script and its options can be submitted.

    Raises:
        UsageError: Slurm or the script does not exist, or an option is reserved for the array.
    """
    if not script.is_file():
        raise UsageError(
            f"--slurm {script}: there is no such script. Those of puhti_slurm_scripts that end in "
            "_array.sh each run a task of an array."
        )
    check_array_options(options, "runs", "the runs compute on this machine")


def queued_runs() -> dict[Path, str]:
    """Return the system folders of this user's queued runs, with their tasks.

    Raises:
        AsdfError: Slurm does not respond.
    """
    queued: dict[Path, str] = {}
    # Each task of an array has its own line.
    files: dict[Path, list[str]] = {}
    for task in queued_tasks():
        number = task.id.rpartition("_")[2]
        if task.comment.startswith(_COMMENT) and number.isdecimal():
            file = Path(task.comment.removeprefix(_COMMENT))
            if file not in files:
                files[file] = _read_lines(file)
            # A line without a system folder is not of a launch.
            with suppress(ValueError, IndexError, KeyError, TypeError):
                queued[Path(json.loads(files[file][int(number)])["system"])] = task.id
    return queued


def submit_array(
    runs: Sequence[PlannedRun],
    recipe: Path,
    script: Path,
    max_running: int | None,
    options: Sequence[str],
) -> Submission:
    """Write the file of runs next to their systems, and submit one task for each.

    Args:
        recipe: Path of the recipe's run.py.
        script: Path of the job script.
        max_running: Maximum number of tasks that run at a time; None for all.
        options: Options of sbatch.

    Raises:
        AsdfError: the file cannot be written, or sbatch refuses the job; the message gives the
            reason.
    """
    file = _write_runs(runs, recipe)
    tasks = f"0-{len(runs) - 1}"
    if max_running is not None:
        tasks += f"%{max_running}"
    scripts = script.absolute().parent
    # Our scripts find each other relative to the folder of the submission.
    folder = scripts.parent if (scripts / "common.sh").is_file() else Path.cwd()
    sbatch = [f"--array={tasks}", f"--comment={_COMMENT}{file}", *options]
    job = submit(sbatch, [str(script.absolute()), "--points", str(file)], folder)
    return Submission(job, file, folder)


def _write_runs(runs: Sequence[PlannedRun], recipe: Path) -> Path:
    lines = []
    for run in runs:
        line = {
            "recipe": str(recipe),
            "config": run.config,
            "overrides": list(run.overrides),
            "system": str(run.system),
        }
        lines.append(json.dumps(line))
    text = "\n".join(lines) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    file = runs[0].output / f"launch-{digest}.jsonl"
    write_text(file, text)
    return file


def _read_lines(file: Path) -> list[str]:
    """Return the lines of a file of runs; [] if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []

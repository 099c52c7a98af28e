"""The runs of a launch as one job array of Slurm.

The runs are lines of a file, and task N of the array runs line N through a job script.

Invariant: a file of runs is named by its content and never changes, since the tasks of a job that
waits in the queue read it when they start. The comment of the job names the file: so what is in the
queue is known from Slurm itself, and no run is submitted twice.
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
    """An array that is in the queue.

    Attributes:
        job: its number.
        file: File of runs, a line for each task.
        folder: Folder in which it was submitted; the script's output lies there.
    """

    job: str
    file: Path
    folder: Path


def check_script(script: Path, options: Sequence[str]) -> None:
    """Refuse what cannot be submitted.

    Raises:
        UsageError: there is no Slurm here, no such script, or an option that is the array's own.
    """
    if not script.is_file():
        raise UsageError(
            f"--slurm {script}: there is no such script. Those of puhti_slurm_scripts that end in "
            "_array.sh run a task of an array each."
        )
    check_array_options(options, "runs", "the runs compute on this machine")


def queued_runs() -> dict[Path, str]:
    """Return the system folders of runs that the queue has for this user, with their tasks.

    Raises:
        AsdfError: Slurm does not answer.
    """
    queued: dict[Path, str] = {}
    # Each task of an array is a line of its own.
    files: dict[Path, list[str]] = {}
    for task in queued_tasks():
        number = task.id.rpartition("_")[2]
        if task.comment.startswith(_COMMENT) and number.isdecimal():
            file = Path(task.comment.removeprefix(_COMMENT))
            if file not in files:
                files[file] = _read_lines(file)
            # A line that names no system folder is none of a launch.
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
    """Write the file of runs next to their systems, and submit a task for each of them.

    Args:
        recipe: its run.py.
        script: the job script.
        max_running: Number of tasks that run at a time; None for all.
        options: Options of sbatch.

    Raises:
        AsdfError: the file cannot be written, or sbatch refuses the job; its reason is named.
    """
    file = _write_runs(runs, recipe)
    tasks = f"0-{len(runs) - 1}"
    if max_running is not None:
        tasks += f"%{max_running}"
    scripts = script.absolute().parent
    # Our scripts look for each other below the folder of the submission.
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
    """Return the lines of a file of runs; none where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []

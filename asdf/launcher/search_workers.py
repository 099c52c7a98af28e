"""The workers of a search as a job array of Slurm, each task of which is a launch of its own.

Invariant: a worker is the same command without --slurm, and what is left to do is known from the
storage of the search alone: so any number of them may be submitted at any time, end or be killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.launcher.slurm import (
    python_words,
    queued_tasks,
    resumed_task,
    script_header,
    submit,
)
from asdf.runs.files import write_text

WORKERS_SCRIPT = "workers.sh"
_COMMENT = "asdf-search:"


@dataclass(frozen=True)
class SearchWorkers:
    """Workers of a search.

    Attributes:
        words: Words of the command of one worker, behind `launch`.
        count: Number of workers that are wanted.
        home: Folder of the script, and of what the workers print.
        folder: Folder that the command is run in.
    """

    words: tuple[str, ...]
    count: int
    home: Path
    folder: Path

    @property
    def script(self) -> Path:
        """The path of the script."""
        return self.home / WORKERS_SCRIPT

    def script_text(self) -> str:
        """Return the script of a task, which goes on until the search has its trials."""
        header = script_header("search", "launch", self.count, self.folder)
        return f'{header}{resumed_task(python_words(["launch", *self.words]))}exit "$status"\n'

    def queued(self) -> list[str]:
        """Return the tasks of this search that the queue has.

        Raises:
            AsdfError: Slurm does not answer.
        """
        return [task.id for task in queued_tasks() if task.comment == self._comment]

    def sbatch_words(
        self, count: int, max_running: int | None, options: Sequence[str]
    ) -> list[str]:
        """Return the options of sbatch for some of the workers.

        Args:
            options: Further options of the user.
        """
        tasks = f"1-{count}"
        if max_running is not None:
            tasks += f"%{max_running}"
        # %% is a % in the path itself; a later array prints into files of its own.
        log = str(self.home).replace("%", "%%") + "/worker-%A-%a.log"
        return [f"--array={tasks}", f"--output={log}", f"--comment={self._comment}", *options]

    def submit(self, options: Sequence[str]) -> str:
        """Write the script, and submit it; return the number of the job.

        Raises:
            AsdfError: it cannot be written, or sbatch refuses the job.
        """
        write_text(self.script, self.script_text())
        return submit(options, [str(self.script)], self.folder)

    @property
    def _comment(self) -> str:
        return f"{_COMMENT}{self.home}"

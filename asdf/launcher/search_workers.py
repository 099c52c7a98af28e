"""The workers of a search as a job array of Slurm; each task is a separate launch.

Invariant: a worker is the same command without --slurm, and the remaining work is determined by the
storage of the search, so workers can be submitted, end or be killed at any time.
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
        words: Arguments of the command of one worker, after `launch`.
        count: Requested number of workers.
        home: Folder of the script, and of the workers' output.
        folder: Working folder of the command.
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
        """Return the script of a task, which repeats until the search has its trials."""
        header = script_header("search", "launch", self.count, self.folder)
        return f'{header}{resumed_task(python_words(["launch", *self.words]))}exit "$status"\n'

    def queued(self) -> list[str]:
        """Return the queued tasks of this search.

        Raises:
            AsdfError: Slurm does not respond.
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
        # %% stands for a % in the path itself; a later array writes to other files.
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

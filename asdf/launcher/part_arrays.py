"""The parts of a list that `score` scores as a job array of Slurm, and a job that merges them.

Invariant: a task that succeeds marks its part as done, with a digest of the command and of its
input files. A part with this mark is not submitted again; the merge reads the results and checks
them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.launcher.slurm import NOTHING, queued_tasks, submit
from asdf.runs.files import write_text

PARTS_SCRIPT = "parts.sh"
MERGE_SCRIPT = "merge.sh"
_COMMENT = "asdf-parts:"
# Signalled two minutes before the time limit: work is saved with each recording or step, or every
# 20 s.
_HEADER = """\
#!/bin/bash
#SBATCH --job-name=asdf-score{kind}
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR2@120
# Written by `python -m asdf score ... --slurm {count}`.
export PYTHONUNBUFFERED=1 SRUN_CPUS_PER_TASK=${{SLURM_CPUS_PER_TASK:-1}}
cd {folder} || exit
"""
_RESUMED = """\
trap 'is_over=yes; kill -TERM "$child"' USR2
{command} &
child=$!
wait "$child"; status=$?
if [ -n "$is_over" ]; then
    # What was done is saved, and goes on when the queue starts the task again.
    wait "$child"
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
    exit 0
fi
"""
_DONE = """\
[ "$status" != 0 ] || printf %s {digest} > {marks}/"part-$SLURM_ARRAY_TASK_ID-of-{count}.done"
exit "$status"
"""
_MERGE = """\
{words} --merge
status=$?
[ "$status" != 0 ] || printf %s {digest} > {marks}/merged
# 1: some recordings could not be used. The outputs are written, and the parts are gone.
[ "$status" -gt 1 ] || rm -f {marks}/part-*.done
exit "$status"
"""


@dataclass(frozen=True)
class PartArray:
    """A command `score` whose work is divided.

    Attributes:
        words: Arguments, without those of the division.
        inputs: Files that it reads; if one is replaced, the work is different.
        count: Number of parts.
        output: Output next to which the folder of scripts and marks is.
        folder: Working folder of the command.
    """

    words: tuple[str, ...]
    inputs: tuple[str, ...]
    count: int
    output: Path
    folder: Path

    @property
    def home(self) -> Path:
        """The folder of the scripts, the output of the jobs, and the marks of finished parts."""
        output = self.output.resolve()
        return output.parent / f"{output.name}.slurm"

    def parts_script(self) -> str:
        """Return the script of a task, which computes the part with the task's number."""
        command = f'{self._command()} --part "$SLURM_ARRAY_TASK_ID/{self.count}"'
        done = _DONE.format(digest=self.digest(), marks=self._marks(), count=self.count)
        return self._header("") + _RESUMED.format(command=command) + done

    def merge_script(self) -> str:
        """Return the script of the job that merges the parts."""
        merge = _MERGE.format(words=self._command(), digest=self.digest(), marks=self._marks())
        return self._header("-merge") + merge

    def _header(self, kind: str) -> str:
        folder = shlex.quote(str(self.folder))
        return _HEADER.format(kind=kind, count=self.count, folder=folder)

    def _command(self) -> str:
        # Python may have another path in jobs than here, for example in a container.
        python = "${ASDF_PYTHON:-" + shlex.quote(sys.executable) + "}"
        return f"{python} -m asdf score {shlex.join(self.words)}"

    def _marks(self) -> str:
        return shlex.quote(str(self.home))

    def digest(self) -> str:
        """Digest the command, and the sizes and modification times of its inputs."""
        stamps: list[list[str | int]] = []
        for word in self.inputs:
            with suppress(OSError, ValueError):
                status = os.stat(self.folder / word)  # noqa: PTH116
                stamps.append([word, status.st_size, status.st_mtime_ns])
        facts = ["score", self.words, self.count, str(self.folder), stamps]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    def is_merged(self) -> bool:
        """Whether the outputs of this exact command are written."""
        return self.output.exists() and self._read_mark("merged") == self.digest()

    def missing(self) -> list[int]:
        """Return the numbers of the parts that are not done."""
        digest = self.digest()
        missing = []
        for number in range(1, self.count + 1):
            if self._read_mark(f"part-{number}-of-{self.count}.done") != digest:
                missing.append(number)
        return missing

    def _read_mark(self, name: str) -> str:
        try:
            return (self.home / name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""


@dataclass(frozen=True)
class SubmittedParts:
    """A queued array, and the job that merges its parts.

    Attributes:
        array: Number of the array; '' if all parts are done.
        merge: Number of the job that merges.
    """

    array: str
    merge: str


def sbatch_words(
    array: PartArray, parts: Sequence[int], max_running: int | None, options: Sequence[str]
) -> dict[str, list[str]]:
    """Return the options of sbatch by script: parts.sh if parts are missing, and merge.sh.

    The dependency of the merge is known only once the array is submitted.
    """
    # %% stands for a % in the path itself.
    logs = str(array.home).replace("%", "%%")
    common = [f"--comment={_COMMENT}{array.home}", *options]
    words = {}
    if parts:
        tasks = task_ranges(parts)
        if max_running is not None:
            tasks += f"%{max_running}"
        words[PARTS_SCRIPT] = [f"--array={tasks}", f"--output={logs}/part-%a.log", *common]
    words[MERGE_SCRIPT] = [f"--output={logs}/merge.log", *common]
    return words


def write_scripts(array: PartArray) -> None:
    """Write the scripts to the array's folder.

    Raises:
        AsdfError: one of them cannot be written.
    """
    write_text(array.home / PARTS_SCRIPT, array.parts_script())
    write_text(array.home / MERGE_SCRIPT, array.merge_script())


def submit_parts(array: PartArray, words: Mapping[str, Sequence[str]]) -> SubmittedParts:
    """Write the scripts, and submit the array and the merge.

    Args:
        words: Options of sbatch by script, as returned by `sbatch_words`.

    Raises:
        UsageError: a job for the same output is queued.
        AsdfError: a script cannot be written, or sbatch refuses a job.
    """
    comment = f"{_COMMENT}{array.home}"
    queued = [task.id for task in queued_tasks() if task.comment == comment]
    if queued:
        raise UsageError(
            f"{array.output} is being computed: {len(queued)} tasks are in the queue, the first is "
            f"{queued[0]}. Wait for them (squeue), or end them (scancel {queued[0].split('_')[0]})."
        )
    write_scripts(array)
    job = ""
    merging = list(words[MERGE_SCRIPT])
    if PARTS_SCRIPT in words:
        job = submit(words[PARTS_SCRIPT], [str(array.home / PARTS_SCRIPT)], array.folder)
        # The merge runs in any case, and names the missing parts.
        merging.append(f"--dependency=afterany:{job}")
    try:
        merge = submit(merging, [str(array.home / MERGE_SCRIPT)], array.folder)
    except AsdfError as error:
        if not job:
            raise
        raise AsdfError(
            f"the parts are in the queue as job {job}, but the job that merges them is not: "
            f"{str(error).removesuffix(NOTHING)} Once they have ended, the same command submits it."
        ) from None
    return SubmittedParts(job, merge)


def task_ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers in the format of sbatch's --array: '1-3,7'."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{low}-{high}" if low < high else f"{low}" for low, high in ranges)

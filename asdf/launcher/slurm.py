"""Job arrays of Slurm: the runs of a launch, and the parts of a list that `score` scores.

Invariants: a job is identified by its comment, which Slurm itself stores, so no file here has to
agree with the queue, and nothing is submitted twice. A task that approaches its time limit saves,
and is requeued. Task N of a launch's array runs line N of a file of runs, whose name is derived
from its content and which never changes, because queued tasks read it when they start. A task that
succeeds in scoring marks its part as done, with a digest of the command and of its input files; a
part with this mark is not submitted again, and the merge reads the results and checks them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.launcher.states import Job
from asdf.runs.files import write_text
from asdf.text import count_of

NOTHING = " Nothing was submitted."
"""End of the message on a failed program, if no job was submitted before it."""

_TIMEOUT_S = 120

_RUNS_COMMENT = "asdf-runs:"
PARTS_SCRIPT = "parts.sh"
MERGE_SCRIPT = "merge.sh"
_PARTS_COMMENT = "asdf-parts:"
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


def check_array_options(options: Sequence[str], tasks: str, without: str) -> None:
    """Refuse options of sbatch that are reserved for the array, and machines without Slurm.

    Args:
        tasks: Name of the tasks, such as 'runs' or 'parts'.
        without: Behaviour without --slurm, for the message.

    Raises:
        UsageError: such an option is given (the message names it), or there is no sbatch.
    """
    for option in options:
        if option.split("=")[0] in ("--array", "-a") or option.startswith("-a"):
            raise UsageError(
                f"{option}: the array is set by the {tasks}; --max-running N limits how many run "
                "at a time."
            )
    if shutil.which("sbatch") is None:
        raise UsageError(
            "--slurm: sbatch was not found. Submit from a login node of the cluster; without "
            f"--slurm {without}."
        )


def queued_tasks() -> list[tuple[str, str]]:
    """Return this user's queued jobs, each task of an array separately, with their comments.

    A task is the number of its array, '_' and its own.

    Raises:
        AsdfError: Slurm does not respond.
    """
    command = ["squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%i|%k"]
    tasks = []
    for line in run_slurm(command, Path.cwd()).splitlines():
        task, _, comment = line.strip().partition("|")
        tasks.append((task, comment))
    return tasks


def submit(options: Sequence[str], words: Sequence[str], folder: Path) -> str:
    """Submit a script with its arguments; return the number of the job.

    Raises:
        AsdfError: sbatch refuses it; the message gives the reason.
    """
    answer = run_slurm(["sbatch", "--parsable", *options, *words], folder)
    # With several clusters, the number is followed by the cluster's name.
    return answer.strip().split(";")[0]


def run_slurm(command: Sequence[str], folder: Path) -> str:
    """Run a program of Slurm; return what it prints.

    Raises:
        AsdfError: it fails, or does not respond.
    """
    program = command[0]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AsdfError(f"{program} does not answer: {error}.{NOTHING}") from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip()
        raise AsdfError(f"{program} refused: {reason}.{NOTHING}")
    return done.stdout


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
    for task, comment in queued_tasks():
        number = task.rpartition("_")[2]
        if comment.startswith(_RUNS_COMMENT) and number.isdecimal():
            file = Path(comment.removeprefix(_RUNS_COMMENT))
            # A file that cannot be read, or a line without a system folder, is not of a launch.
            with suppress(OSError, ValueError, IndexError, KeyError, TypeError):
                if file not in files:
                    files[file] = file.read_text(encoding="utf-8").splitlines()
                queued[Path(json.loads(files[file][int(number)])["system"])] = task
    return queued


def submit_array(
    jobs: Sequence[Job], recipe: Path, script: Path, max_running: int | None, options: Sequence[str]
) -> str:
    """Submit one task for each job, and return where to watch and how to end them, in words.

    The file of runs is written next to their systems.

    Args:
        recipe: Path of the recipe's run.py.
        script: Path of the job script.
        max_running: Maximum number of tasks that run at a time; None for all.
        options: Options of sbatch.

    Raises:
        AsdfError: the file cannot be written, or sbatch refuses the job; the message gives the
            reason.
    """
    lines = []
    for job in jobs:
        line = {
            "recipe": str(recipe),
            "config": job.config,
            "overrides": job.overrides,
            "system": str(job.system),
        }
        lines.append(json.dumps(line))
    text = "\n".join(lines) + "\n"
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    file = jobs[0].output / f"launch-{digest}.jsonl"
    write_text(file, text)
    tasks = f"0-{len(jobs) - 1}"
    if max_running is not None:
        tasks += f"%{max_running}"
    scripts = script.absolute().parent
    # Our scripts find each other relative to the folder of the submission.
    folder = scripts.parent if (scripts / "common.sh").is_file() else Path.cwd()
    sbatch = [f"--array={tasks}", f"--comment={_RUNS_COMMENT}{file}", *options]
    number = submit(sbatch, [str(script.absolute()), "--points", str(file)], folder)
    limit = "" if max_running is None else f", at most {max_running} at a time"
    return (
        f"submitted {count_of(len(jobs), 'run')} as job {number}, tasks 0 to "
        f"{len(jobs) - 1}{limit}\n"
        f"  runs, one line per task: {file}\n"
        f"  watch: squeue --job {number}; the tasks' output is in {folder}\n"
        f"  stop a task, which saves and is requeued: scancel --batch --signal=USR2 {number}_N\n"
        f"  cancel all: scancel {number}\n"
        "The same command shows finished runs, and submits those neither finished nor queued."
    )


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
    def scripts(self) -> Path:
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
        return shlex.quote(str(self.scripts))

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
        numbers = range(1, self.count + 1)
        marks = {number: f"part-{number}-of-{self.count}.done" for number in numbers}
        return [number for number, mark in marks.items() if self._read_mark(mark) != digest]

    def _read_mark(self, name: str) -> str:
        try:
            return (self.scripts / name).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return ""


def sbatch_words(
    array: PartArray, parts: Sequence[int], max_running: int | None, options: Sequence[str]
) -> dict[str, list[str]]:
    """Return the options of sbatch by script: parts.sh if parts are missing, and merge.sh.

    The dependency of the merge is known only once the array is submitted.
    """
    # %% stands for a % in the path itself.
    logs = str(array.scripts).replace("%", "%%")
    common = [f"--comment={_PARTS_COMMENT}{array.scripts}", *options]
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
    write_text(array.scripts / PARTS_SCRIPT, array.parts_script())
    write_text(array.scripts / MERGE_SCRIPT, array.merge_script())


def submit_parts(array: PartArray, words: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Write the scripts, submit the array and the merge, and return the numbers of both jobs.

    That of the array is '' if all parts are done.

    Args:
        words: Options of sbatch by script, as returned by `sbatch_words`.

    Raises:
        UsageError: a job for the same output is queued.
        AsdfError: a script cannot be written, or sbatch refuses a job.
    """
    comment = f"{_PARTS_COMMENT}{array.scripts}"
    queued = [task for task, of in queued_tasks() if of == comment]
    if queued:
        raise UsageError(
            f"{array.output} is being computed. Tasks in the queue: {len(queued)}, the first is "
            f"{queued[0]}. Wait for them (squeue), or end them (scancel {queued[0].split('_')[0]})."
        )
    write_scripts(array)
    job = ""
    merging = list(words[MERGE_SCRIPT])
    if PARTS_SCRIPT in words:
        job = submit(words[PARTS_SCRIPT], [str(array.scripts / PARTS_SCRIPT)], array.folder)
        # The merge runs in any case, and names the missing parts.
        merging.append(f"--dependency=afterany:{job}")
    try:
        merge = submit(merging, [str(array.scripts / MERGE_SCRIPT)], array.folder)
    except AsdfError as error:
        if not job:
            raise
        raise AsdfError(
            f"the parts are in the queue as job {job}, but the job that merges them is not: "
            f"{str(error).removesuffix(NOTHING)} Once they have ended, the same command submits it."
        ) from None
    return job, merge


def task_ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers in the format of sbatch's --array: '1-3,7'."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{low}-{high}" if low < high else f"{low}" for low, high in ranges)

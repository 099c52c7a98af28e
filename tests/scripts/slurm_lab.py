"""A real Slurm of two nodes on this machine, brought up for the tests of the job scripts."""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 300
ENDED = ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY")


def why_not(tool: Path) -> str:
    """Why the lab cannot be brought up here; '' where it can."""
    if not tool.is_file() or shutil.which("sbatch") is None:
        return "no Slurm here"
    return "" if os.geteuid() == 0 else "no Slurm here: starting it needs root"


@dataclass
class Job:
    """A job that was submitted; an array's task where `id` has the form A_i."""

    id: str

    def show(self, name: str) -> str:
        """A field of `scontrol show job`, which knows a job also when it has ended."""
        match = re.search(
            rf"\b{name}=(.*?)(?= [A-Z]\S*=|\s*$)", _run("scontrol", "-o", "show", "job", self.id)
        )
        return match[1] if match else ""

    @property
    def state(self) -> str:
        return self.show("JobState")

    @property
    def status(self) -> int:
        """The exit status of the job's script."""
        return int(self.show("ExitCode").partition(":")[0])

    @property
    def output(self) -> str:
        path = Path(self.show("StdOut"))
        return path.read_text() if path.exists() else ""

    def stop(self) -> None:
        """What Slurm does some minutes before the time limit."""
        _run("scancel", "--batch", "--signal=USR2", self.id)

    def leave_two_minutes(self) -> None:
        """Move the time limit to between two and three minutes from now.

        Slurm looks at it every half minute, and sends its signal up to half a minute early.
        """
        hours, minutes, _ = map(int, self.show("RunTime").split(":"))
        _run("scontrol", "update", f"JobId={self.id}", f"TimeLimit={60 * hours + minutes + 3}")

    def cancel(self) -> None:
        _run("scancel", self.id)

    def wait(self, restarts: int = 0) -> "Job":
        """Wait until the job has ended for good, having been requeued this many times."""
        for _ in range(restarts):
            self.wait_until(
                lambda: (
                    self.state in ENDED
                    or (self.state == "PENDING" and self.show("Restarts") != "0")
                )
            )
            assert self.state == "PENDING", f"not requeued:\n{self.output}"
            # Slurm holds a requeued job back for two minutes.
            _run("scontrol", "update", f"JobId={self.id}", "StartTime=now+3")
            self.wait_until(lambda: self.state != "PENDING")
        self.wait_until(lambda: self.state in ENDED)
        return self

    def wait_until(self, condition, timeout_s: float = TIMEOUT_S) -> None:
        end = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end, f"job {self.id} is {self.state}:\n{self.output}"
            time.sleep(0.3)


@dataclass
class SlurmLab:
    """Submits job scripts from `folder`, with a test's resources instead of their headers'."""

    scripts: Path
    folder: Path

    def submit(self, script: str, options: list[str], *words: str, **variables: str) -> Job:
        options = ["--mem=1G", "--cpus-per-task=1", "--gres=nvme:1", *options]
        command = ["sbatch", "--parsable", *options, str(self.scripts / script), *words]
        return Job(_run(*command, cwd=self.folder, **variables).strip())


def bring_up(tool: Path, folder: Path) -> dict[str, str]:
    """Start the lab in `folder` (a short path, for sockets); return its clients' variables."""
    folder.mkdir(mode=0o755)
    settings = {
        "SLURM_LAB_DIR": str(folder),
        "SLURM_LAB_MODULE_PATH": str(Path(sys.executable).parent),
    }
    lines = _run(str(tool), "up", **settings).splitlines()
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


def take_down(tool: Path, folder: Path) -> None:
    _run(str(tool), "down", "--purge", SLURM_LAB_DIR=str(folder))


def _run(*command: str, cwd: Path | None = None, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout

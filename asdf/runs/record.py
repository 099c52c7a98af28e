"""What a run ran on: versions, git state, command line, host, devices; written beside its settings."""

from __future__ import annotations

import json
import os
import platform
import shlex
import socket
import subprocess
import sys
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from asdf.runs.files import write_text

_PACKAGES = ("asdf-antispoofing", "torch", "torchaudio", "numpy", "soundfile", "tqdm")
_VARIABLES = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_RESTART_COUNT")


def environment_record(devices: list[str]) -> dict[str, Any]:
    """The record as plain values. `devices`: one line for each process, as its rank describes itself."""
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": shlex.join([sys.executable, *sys.argv]),
        "working_directory": str(Path.cwd()),
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in _PACKAGES},
        "git": git_state(Path(__file__).parent),
        "devices": devices,
        "environment": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Add `record` to the list in the JSON file `path`: one entry for each time that the run was started."""
    try:
        records = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):
        records = []
    write_text(path, json.dumps([*records, record], indent=1) + "\n")


def git_state(folder: Path) -> dict[str, Any] | None:
    """Commit, branch and changed files of the checkout around `folder`; None where it is no checkout."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=20)
        if done.returncode:
            raise OSError(done.stderr)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no").splitlines()
        return {
            "commit": git("rev-parse", "HEAD"),
            "branch": git("rev-parse", "--abbrev-ref", "HEAD"),
            "changed": changed,
        }
    except (OSError, subprocess.TimeoutExpired):
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None

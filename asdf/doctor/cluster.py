"""Checks of Slurm, if it exists: its version, its response, and its partitions."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence

from asdf.doctor.finding import OK, WARNING, Finding, Step
from asdf.text import and_more

_LIMIT_S = 20.0
_SHOWN = 6
_MEND = "Ask the cluster's support, or check whether sinfo works in another shell"


def steps() -> Sequence[Step]:
    """Return the steps of this group."""
    return [Step("Slurm", look_at_slurm, _MEND, failed=WARNING)]


def look_at_slurm() -> Iterable[Finding]:
    """Yield findings about Slurm."""
    if shutil.which("sbatch") is None:
        yield Finding("Slurm", OK, "not on this machine")
        return
    version = _first_line(_run("sbatch", "--version"))
    partitions = _run("sinfo", "--noheader", "--format=%R %a %l %D %G").stdout.splitlines()
    if not partitions:
        answer = _run("scontrol", "ping")
        reason = _first_line(answer) or "sinfo lists no partitions"
        yield Finding("Slurm", WARNING, f"{version}: {reason}", _MEND)
        return
    shown = and_more([_describe(line) for line in partitions], _SHOWN)
    text = f"{version}, partitions {shown}"
    job = os.environ.get("SLURM_JOB_ID")
    if job:
        text += f"; this is job {job}"
    yield Finding("Slurm", OK, text)


def _describe(line: str) -> str:
    """Return 'gpu (4 nodes, gpu:a100:4, 3-00:00:00)' for a line of sinfo."""
    name, state, limit, nodes, devices = (line.split() + 5 * ["?"])[:5]
    parts = [f"{nodes} nodes"]
    if devices not in ("(null)", "?"):
        parts.append(devices)
    parts.append(limit)
    if state != "up":
        parts.append(state)
    return f"{name} ({', '.join(parts)})"


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)


def _first_line(ended: subprocess.CompletedProcess[str]) -> str:
    text = (ended.stdout.strip() or ended.stderr.strip()).splitlines()
    return text[0] if text else ""

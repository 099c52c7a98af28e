"""The process that runs the steps of one group and prints findings as lines of JSON.

Its output may contain other text: warnings of libraries, and messages of a crash.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from asdf.doctor import audio_formats, cluster, disks, installation, machine, torch_here
from asdf.doctor.finding import Finding, Step

MARK = "asdf-doctor "


_GROUPS = {
    "installation": installation.steps,
    "torch": torch_here.steps,
    "decoders": audio_formats.steps,
    "machine": machine.steps,
    "slurm": cluster.steps,
}


def steps_of(group: str) -> Sequence[Step]:
    """Return the steps of a group; the group 'folder PATH' is that of a folder."""
    kind, _, argument = group.partition(" ")
    if kind == "folder":
        return disks.steps(argument)
    return _GROUPS[kind]()


def main(group: str) -> None:
    """Run the steps of a group in order."""
    for step in steps_of(group):
        # Announced before the step, so that a crash or a hang can be attributed to it.
        _say({"step": step.name, "mend": step.mend, "failed": step.failed})
        for finding in _take(step):
            _say({"finding": asdict(finding)})
    _say({"end": True})


def _take(step: Step) -> list[Finding]:
    try:
        return list(step.look())
    except Exception as error:
        reason = str(error).strip() or type(error).__name__
        return [Finding(step.name, step.failed, reason.splitlines()[0], step.mend)]


def _say(record: object) -> None:
    # A library may have left an incomplete line.
    print(f"\n{MARK}{json.dumps(record)}", flush=True)

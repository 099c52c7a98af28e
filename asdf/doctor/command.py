"""Check what ASDF needs on this machine: what works, and how to fix what does not.

    python -m asdf doctor                        # Python, torch, GPUs, decoders, disks
    python -m asdf doctor --json doctor.json     # to attach to a question

Each line begins with ok, warning (runs work, but more slowly or with limitations) or missing (runs
do not work). The exit status is 1 if something is missing. Nothing is changed.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

from asdf.commands.options import Command, option
from asdf.commands.outputs import describe_version, show, text_stream, write_outputs
from asdf.doctor import MISSING, WARNING, Finding, examine
from asdf.runs.files import write_text

_WIDTH = 100
_INDENT = " " * 10


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """Options of the command."""

    json: Path | None = option("write the findings as JSON; - is standard output", "OUT")


COMMAND = Command("doctor", __doc__, DoctorOptions, {".json": "json"})


def main(arguments: list[str]) -> int:
    """Print the findings as they arrive; return 1 if something is missing, else 0."""
    args = COMMAND.read(arguments)
    findings = show_findings(examine(), text_stream([args.json]))
    record = {"version": describe_version(), "findings": [asdict(finding) for finding in findings]}
    text = json.dumps(record, indent=1) + "\n"
    write_outputs([(args.json, lambda path: write_text(path, text))])
    return int(any(finding.status == MISSING for finding in findings))


def show_findings(findings: Iterable[Finding], stream: TextIO) -> list[Finding]:
    """Show findings as they arrive, then their number; return them."""
    shown = []
    for finding in findings:
        shown.append(finding)
        lines = _wrap(f"{finding.status:<{len(_INDENT)}}{finding.name}: {finding.text}")
        if finding.mend:
            lines += _wrap(f"{_INDENT}-> {finding.mend}")
        show("\n".join(lines), stream)
        # The next finding may take a while.
        stream.flush()
    statuses = [finding.status for finding in shown]
    missing, warnings = statuses.count(MISSING), statuses.count(WARNING)
    show(f"{len(shown)} checks: {missing} missing, {warnings} with a warning", stream)
    return shown


def _wrap(text: str) -> list[str]:
    # Paths and commands are not broken, so that they can be copied.
    return textwrap.wrap(
        text, _WIDTH, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
    )

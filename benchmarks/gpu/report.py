"""The file to send to the project: all lines as text and as data, without private data.

Invariant: the file is complete or absent, and is rewritten after each group, so that a stop loses
nothing. Identifying information is replaced: host name, user name, home folder, and every path
outside of the checkout.
"""

from __future__ import annotations

import getpass
import json
import re
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from asdf.runs.files import write_text
from benchmarks.gpu.groups import GROUPS
from benchmarks.gpu.running import Outcome
from benchmarks.gpu.verdict import FAIL, NOT_RUN, PASS
from benchmarks.harness import ROOT

NAME = "asdf-gpu-report.json"


def write_report(
    path: Path, machine: dict[str, Any], quick: bool, outcomes: list[Outcome], state: str
) -> None:
    """Write the file.

    Args:
        state: State of the run: 'running', 'finished' or 'stopped'.
    """
    content = {
        "report": readable(machine, quick, outcomes, state).splitlines(),
        "state": state,
        "quick": quick,
        "machine": machine,
        "counts": counts(outcomes),
        "groups": [_as_json(outcome) for outcome in outcomes],
    }
    write_text(path, json.dumps(_without_names(content), indent=1, allow_nan=False) + "\n")


def readable(
    machine: dict[str, Any], quick: bool, outcomes: list[Outcome], state: str = "finished"
) -> str:
    """Return all results as text."""
    heading = f"python -m benchmarks gpu: {state}"
    lines = [heading + ("; quick: its times mean nothing" * quick), str(machine.get("line", ""))]
    for outcome in outcomes:
        lines += ["", title(outcome), *(f"  {line.text()}" for line in outcome.lines)]
    lines += ["", totals(outcomes)]
    left = [group.name for group in GROUPS[len(outcomes) :]] if state != "finished" else []
    if left:
        lines.append(f"not begun: {', '.join(left)}")
    return "\n".join(lines)


def title(outcome: Outcome) -> str:
    """Return the name of a group with its duration."""
    group = outcome.group
    return f"{group.name}: {group.about} ({outcome.seconds:.0f} s of {group.budget_s:g} s)"


def counts(outcomes: list[Outcome]) -> dict[str, int]:
    """Return the number of lines with each verdict."""
    verdicts = [line.verdict for outcome in outcomes for line in outcome.lines]
    return {verdict: verdicts.count(verdict) for verdict in (PASS, FAIL, NOT_RUN)}


def totals(outcomes: list[Outcome]) -> str:
    """Return the last line."""
    return ", ".join(f"{count} {verdict}" for verdict, count in counts(outcomes).items())


def _as_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.group.name,
        "budget_s": outcome.group.budget_s,
        "seconds": round(outcome.seconds, 1),
        "lines": [line.as_json() for line in outcome.lines],
    }


def _without_names(value: Any) -> Any:
    """Replace what is private in all texts of a JSON value."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list):
        return [_without_names(item) for item in value]
    if isinstance(value, dict):
        return {key: _without_names(entry) for key, entry in value.items()}
    return value


def _clean(text: str) -> str:
    for name, instead in _private_names():
        # Whole words only, because a short name may be part of other words.
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", instead, text)
    # Any other path with at least two folders.
    return re.sub(r"(?<![\w.>/])/(?:[\w.+@-]+/)+", "<path>/", text)


def _private_names() -> list[tuple[str, str]]:
    """Return pairs of private names and replacements, the longer first."""
    names = [
        (str(ROOT), "<checkout>"),
        (sys.prefix, "<python>"),
        (tempfile.gettempdir(), "<temporary>"),
        (socket.gethostname(), "<host>"),
        (socket.gethostname().partition(".")[0], "<host>"),
    ]
    with suppress(RuntimeError):
        names.append((str(Path.home()), "<home>"))
    with suppress(OSError, KeyError):
        names.append((getpass.getuser(), "<user>"))
    return sorted((pair for pair in names if pair[0]), key=lambda pair: -len(pair[0]))

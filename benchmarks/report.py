"""The measured part of RESULTS.md, and its chart, from the JSON of runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from benchmarks.chart import Bar, chart
from benchmarks.harness import write_between
from benchmarks.machine import headline
from benchmarks.rows import Row
from benchmarks.table import markdown

_BEGIN = "<!-- measured by python -m benchmarks -->"
_END = "<!-- end of what python -m benchmarks measured -->"
_HEAD = """Every number was measured on the machine and at the time that are stated above its table.
A row without numbers says why. ASDF and its peer ran in turns in one process, or one after
the other.
"""


def write_report(files: Sequence[Path], folder: Path) -> list[Path]:
    """Write results.svg and its part of RESULTS.md in `folder` from the JSON of one run or several.

    Raises:
        AsdfError: a file is missing, is not a result of `python -m benchmarks --json`, or comes
            from a quick run.
    """
    results = [_read(path) for path in files]
    parts = [_HEAD]
    bars = []
    for result in results:
        parts.append(f"## {headline(result['machine'])}\n")
        for name, benchmark in result["benchmarks"].items():
            rows = [Row(**row) for row in benchmark["rows"]]
            failed = f"It failed: {benchmark['failed']}\n" if "failed" in benchmark else ""
            parts.append(f"### {name}\n\n{benchmark['about']}\n\n{failed}{markdown(rows)}\n")
            bars += [
                Bar(
                    f"{row.what} ({row.against})",
                    row.ratio,
                    row.low or row.ratio,
                    row.high or row.ratio,
                    row.target,
                )
                for row in rows
                if row.ratio is not None and row.target is not None
            ]
    paths = [folder / "RESULTS.md", folder / "results.svg"]
    write_between(paths[0], _BEGIN, _END, "\n".join(parts).rstrip())
    write_text(paths[1], chart(bars))
    return paths


def _read(path: Path) -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        quick = result["quick"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AsdfError(
            f"{path} is not a result of `python -m benchmarks --json` ({error}). Run it first."
        ) from None
    if quick:
        raise AsdfError(
            f"{path} comes from a --quick run, whose numbers mean nothing. Run it without --quick."
        )
    return result

"""The measured part of RESULTS.md, and its chart, from the JSON of runs."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.files import write_text
from benchmarks.chart import Bar, chart
from benchmarks.harness import write_between
from benchmarks.machine import headline
from benchmarks.rows import Row
from benchmarks.table import HEADINGS, markdown

_BEGIN = "<!-- measured by python -m benchmarks -->"
_END = "<!-- end of what python -m benchmarks measured -->"
_HEAD = """Every number was measured on the machine and at the time that are stated above its table.
A row without numbers says why. ASDF and its peer ran in turns in one process, or one after
the other.
"""


def write_report(files: Sequence[Path], folder: Path) -> list[Path]:
    """Write the sections of one run or several into RESULTS.md in `folder`, and results.svg.

    Sections of benchmarks that were not run again stay as they are.

    Raises:
        AsdfError: a file is missing, is not a result of `python -m benchmarks --json`, or comes
            from a quick run; or the page lacks its marks.
    """
    results = [_read(path) for path in files]
    parts = [_HEAD]
    for result in results:
        parts.append(f"## {headline(result['machine'])}\n")
        for name, benchmark in result["benchmarks"].items():
            rows = [Row(**row) for row in benchmark["rows"]]
            failed = f"It failed: {benchmark['failed']}\n" if "failed" in benchmark else ""
            parts.append(f"### {name}\n\n{benchmark['about']}\n\n{failed}{markdown(rows)}\n")
    paths = [folder / "RESULTS.md", folder / "results.svg"]
    page = paths[0].read_text(encoding="utf-8") if paths[0].exists() else ""
    measured = page.partition(_BEGIN)[2].partition(_END)[0]
    run = {name for result in results for name in result["benchmarks"]}
    text = "\n".join([*parts, *_others(measured, run)]).rstrip()
    write_between(paths[0], _BEGIN, _END, text)
    write_text(paths[1], chart(list(_bars(text))))
    return paths


def _others(measured: str, run: Collection[str]) -> Iterator[str]:
    """Yield the sections of other benchmarks than `run`, below the headings of their machines."""
    for group in measured.split("\n## ")[1:]:
        machine, *sections = group.split("\n### ")
        kept = [each for each in sections if each.partition("\n")[0] not in run]
        if kept:
            yield f"## {machine.strip()}\n"
        for section in kept:
            yield f"### {section.strip()}\n"


def _bars(text: str) -> Iterator[Bar]:
    """Yield the ratios of the tables that have a target."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != len(HEADINGS) or not cells[5].startswith(">= ") or cells[6] == "-":
            continue
        texts = [cells[6], *cells[7].split(" .. "), cells[5].removeprefix(">= ")]
        ratio, low, high, target = (float(text.replace(",", "")) for text in texts)
        yield Bar(f"{cells[0]} ({cells[4]})", ratio, low, high, target)


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

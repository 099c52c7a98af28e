"""The host's work that grows with the clips: at ASVspoof 5's sizes, and at 10 million clips.

The number is microseconds a clip at the largest size, beside those at the smallest: a ratio near 1
is linear. Each thing is done once, in a separate process for each size, with lists that name no
real recording. The note has the seconds of all three sizes, the memory that a clip takes, and when
and where a run pays it. Two processes gather.

        python -m benchmarks.scale --write-docs            # measures, and updates docs/scaling.md
            python -m benchmarks.scale --write-docs JSON       # updates it from saved results
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from benchmarks.harness import ROOT, run_module, run_world, write_between
from benchmarks.machine import headline
from benchmarks.rows import Row
from benchmarks.scale_costs import FEW, Cost
from benchmarks.table import markdown_table, number

SIZES = (182_357, 680_774, 10_000_000)
LOAD = "load average at the start"
NOTHING = 0.5  # bytes a clip that are not worth a word
BEGIN, END = "<!-- measured by benchmarks/scale.py -->", "<!-- end of what was measured -->"


def rows(quick: bool) -> Iterator[Row]:
    """Yield microseconds per clip."""
    sizes = (1000, 2000, 4000) if quick else SIZES
    yield Row(LOAD, "processes", "", os.getloadavg()[0])
    by_size = [[*_costs(clips), _gathered(clips)] for clips in sizes]
    yield from (compared_sizes(sizes, costs) for costs in zip(*by_size, strict=True))


def compared_sizes(sizes: Sequence[int], costs: Sequence[Cost]) -> Row:
    """Return the row of one cost at `sizes`, ascending; `table` makes columns of its note."""
    first, last = costs[0], costs[-1]
    a_clip = {
        how: (size or 0) / sizes[-1] for how, size in (("held", last.held), ("peak", last.peak))
    }
    memory = [f"{number(size)} B {how}" for how, size in a_clip.items() if size >= NOTHING]
    seconds = [number(cost.seconds) for cost in costs]
    few = f", multiplied from {FEW:,} clips or 10 replicates" if last.from_few else ""
    note = "; ".join(
        [
            f"{' / '.join(seconds)} s at {' / '.join(f'{size:,}' for size in sizes)} clips{few}",
            ", ".join(memory) or "-",
            f"{last.when}: {last.where}",
        ]
    )
    against = f"itself at {sizes[0]:,} clips"
    if first.seconds is None or last.seconds is None:
        return Row(last.what, "µs a clip", against, note=note)
    few_us, many_us = 1e6 * first.seconds / sizes[0], 1e6 * last.seconds / sizes[-1]
    return Row(
        last.what,
        "µs a clip",
        against,
        many_us,
        few_us,
        ratio=few_us / many_us,
        rounds=1,
        note=note,
    )


def table(rows: Sequence[Row], machine: dict[str, Any]) -> str:
    """Return the measurements of `rows` as Markdown, with a column for each size."""
    sizes: list[str] = []
    lines = []
    for row in rows:
        if row.what == LOAD:
            continue
        times, memory, location = row.note.split("; ")
        seconds, _, at = times.partition(" s at ")
        sizes, few = at.partition(" clips")[0].split(" / "), "multiplied" in at
        what = row.what + (" *" if few else "")
        lines.append([what, location, *seconds.split(" / "), number(row.asdf), memory])
    heads = ["what", "when: where", *(f"{size}, s" for size in sizes), "µs a clip", "memory a clip"]
    load = next(
        (f"; load average {number(row.asdf)} at the start" for row in rows if row.what == LOAD), ""
    )
    made = markdown_table(heads, lines, range(2, len(sizes) + 3))
    note = f"\\* multiplied, from {FEW:,} clips or 10 replicates."
    return f"{headline(machine)}{load}.\n\n{made}\n\n{note}"


def write_docs(result: dict[str, Any], path: Path) -> None:
    """Write the table of a `python -m benchmarks --json` result between the marks in a page.

    Raises:
        AsdfError: the result has no such benchmark, it failed or was a quick run, or the page lacks
        the marks.
    """
    scale = result["benchmarks"].get("scale", {})
    if result["quick"] or "failed" in scale or not scale:
        raise AsdfError(
            "this result holds no whole run of 'scale'. Run "
            "`python -m benchmarks scale --json OUT` "
            "first."
        )
    made = table([Row(**row) for row in scale["rows"]], result["machine"])
    write_between(path, BEGIN, END, made)


def _costs(clips: int) -> list[Cost]:
    return [Cost(**cost) for cost in json.loads(run_module("benchmarks.scale_costs", str(clips)))]


def _gathered(clips: int) -> Cost:
    """Return the cost of bringing the scores of two processes to the main one."""
    (seconds,) = run_world("benchmarks.scale_costs", 2, "gather", clips)
    return Cost("gather the scores", "validation", "2 processes, gloo", json.loads(seconds))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.scale", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--write-docs", nargs="?", const="", required=True, metavar="JSON")
    args = parser.parse_args(arguments)
    if args.write_docs:
        result = json.loads(Path(args.write_docs).read_text(encoding="utf-8"))
    else:
        from benchmarks.__main__ import run

        result = run(["scale"], quick=False)
    write_docs(result, ROOT / "docs" / "scaling.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

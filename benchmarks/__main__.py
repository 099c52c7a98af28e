"""Runs benchmarks, or writes the report of earlier runs: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import benchmarks
from asdf.distributed.devices import keep_freed_memory
from asdf.errors import AsdfError
from asdf.runs.files import write_text
from benchmarks.harness import log_line
from benchmarks.machine import describe_machine, headline
from benchmarks.report import write_report
from benchmarks.rows import Row
from benchmarks.table import for_screen

NAMES = (
    "start",
    "metrics",
    "rawboost",
    "loader",
    "scoring",
    "memory",
    "processes",
    "frozen",
    "step",
    "scale",
    "growth",
    "service",
)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["gpu"]:
        return import_module("benchmarks.gpu.command").main(arguments[1:])
    if arguments[:1] == ["gpu-counts"]:
        return import_module("benchmarks.gpu.null_counts").main(arguments[1:])
    if arguments[:1] == ["precision"]:
        return import_module("benchmarks.precision").main(arguments[1:])
    parser = argparse.ArgumentParser("python -m benchmarks", description=benchmarks.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"any of: {', '.join(NAMES)}; none: all"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a smoke run; its numbers mean nothing"
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the results to this file")
    parser.add_argument(
        "--report", type=Path, nargs="+", metavar="JSON", help="write RESULTS.md and results.svg"
    )
    args = parser.parse_args(arguments)
    unknown = [name for name in args.names if name not in NAMES]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    if args.report:
        try:
            print(*write_report(args.report, Path(__file__).parent), sep="\n")
        except AsdfError as error:
            parser.error(str(error))
        return 0
    results = run(args.names or list(NAMES), args.quick)
    if args.json:
        write_text(args.json, json.dumps(results, indent=1) + "\n")
    return 1 if any("failed" in benchmark for benchmark in results["benchmarks"].values()) else 0


def run(names: list[str], quick: bool) -> dict[str, Any]:
    """Run these benchmarks and return the results as in the JSON file; print each table."""
    machine = describe_machine()
    keep_freed_memory()  # as every run does; peers in the same process have it too
    print(headline(machine) + ("; quick: these numbers mean nothing" if quick else ""))
    results: dict[str, Any] = {}
    for position, name in enumerate(names, 1):
        log_line(f"[{position} of {len(names)}] {name} ...")
        start = time.perf_counter()
        module = import_module(f"benchmarks.{name}")
        about = (module.__doc__ or "").strip()
        rows: list[Row] = []
        results[name] = {"about": about, "rows": []}
        try:
            for row in module.rows(quick):
                rows.append(row)
                log_line(
                    f"    {row.what}, {row.against}: "
                    f"{'not measured' if row.ratio is None else f'{row.ratio:.2f}'}"
                )
        except Exception as error:  # one that fails must not take the others' results with it
            results[name]["failed"] = f"{type(error).__name__}: {error}"
            log_line(f"    failed: {results[name]['failed']}")
        results[name]["rows"] = [row.as_json() for row in rows]
        results[name]["seconds"] = round(time.perf_counter() - start, 1)
        title = about.splitlines()[0]
        print(f"\n{name}: {title} ({results[name]['seconds']:g} s)", flush=True)
        print(for_screen(rows), flush=True)
    return {"machine": machine, "quick": quick, "benchmarks": results}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

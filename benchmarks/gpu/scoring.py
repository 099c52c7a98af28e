"""Scoring a list: trials/s in each precision, and the same file of scores each time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.presence import missing, takes_value
from benchmarks.gpu.verdict import Line, equal, measured, not_run
from benchmarks.harness import run_module

SETTING = "computing.scoring_precision"


def score(
    setup: Setup, name: str, precision: str = "fp32", processes: int = 1, names: int = 1
) -> tuple[dict[str, Any], bytes]:
    """Score a list in separate processes; return the output of `scoring_run`, and the file.

    Args:
        names: Number of names of each recording in the list.
    """
    path = setup.new_folder("scores") / f"{name}.txt"
    sizes = setup.sizes
    words = (str(path), sizes.architecture, str(sizes.recordings), str(names), precision)
    result = json.loads(run_module("benchmarks.gpu.scoring_run", *words, processes=processes))
    return result, path.read_bytes()


def precisions(setup: Setup) -> Iterable[Line]:
    """Each number format that this version scores in."""
    for precision in ("fp32", "tf32", "bf16"):
        what = f"scoring in {precision}"
        if not takes_value(SETTING, precision):
            yield not_run(what, missing(f"{SETTING} = '{precision}'"))
            continue
        result, _ = score(setup, precision, precision, names=setup.sizes.names)
        notes = f"{result['speech_s'] / result['seconds']:.0f} s of speech per second"
        yield measured(what, result["trials"] / result["seconds"], "trials/s", notes)
        first = f"{result['lengths']} new lengths in {result['trials']} trials"
        speed = result["trials"] / result["first_seconds"]
        yield measured(f"{what}: the first pass", speed, "trials/s", first)
        yield measured(f"{what}: reserved memory", result["reserved_gib"], "GiB")


def twice(setup: Setup) -> Iterable[Line]:
    """Two runs, whose files must not differ."""
    first, second = (score(setup, name)[1] for name in ("first", "second"))
    what = "two runs write the same score file"
    yield equal(what, "same bytes" if first == second else "other bytes", "same bytes")


CHECKS: dict[str, Check] = {"precisions": precisions, "twice": twice}

"""The host's work that grows with the clips: at ASVspoof 5's sizes, and at 10 million clips.

The number is microseconds a clip at the largest size, beside those at the smallest: a ratio near 1
is linear. Each thing is done once, in a separate process for each size, with lists that name no
real recording. The note has the seconds of all three sizes, the memory that a clip takes, and when
and where a run pays it. Two processes gather.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence

from benchmarks.harness import run_module, run_world
from benchmarks.rows import Row
from benchmarks.scale_costs import FEW, Cost
from benchmarks.table import number

SIZES = (182_357, 680_774, 10_000_000)
LOAD = "load average at the start"
NOTHING = 0.5  # bytes a clip that are not worth a word


def rows(quick: bool) -> Iterator[Row]:
    """Yield microseconds per clip."""
    sizes = (1000, 2000, 4000) if quick else SIZES
    yield Row(LOAD, "processes", "", os.getloadavg()[0])
    by_size = [[*_costs(clips), _gathered(clips)] for clips in sizes]
    yield from (compared_sizes(sizes, costs) for costs in zip(*by_size, strict=True))


def compared_sizes(sizes: Sequence[int], costs: Sequence[Cost]) -> Row:
    """Return the row of one cost at `sizes`, ascending."""
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


def _costs(clips: int) -> list[Cost]:
    return [Cost(**cost) for cost in json.loads(run_module("benchmarks.scale_costs", str(clips)))]


def _gathered(clips: int) -> Cost:
    """Return the cost of bringing the scores of two processes to the main one."""
    (seconds,) = run_world("benchmarks.scale_costs", 2, "gather", clips)
    return Cost("gather the scores", "validation", "2 processes, gloo", json.loads(seconds))

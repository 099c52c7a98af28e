"""Programs of these tests that measure cases on one device or on several."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from asdf.distributed.world import World, open_world
from asdf.settings.sections import Computing

Case = dict[str, object]


def print_results(measure: Callable[[Case, World], object]) -> None:
    """Measure the command line's cases on every rank, print the main rank's results, and exit."""
    cases = json.loads(sys.argv[1])
    with open_world(Computing()) as world:
        results = [measure(case, world) for case in cases]
        world.barrier()
        if world.is_main:
            print(json.dumps(results), flush=True)
        world.barrier()
    # Threads of NCCL's stand-in would hold the interpreter's end.
    os._exit(0)

"""Two processes on two cores against one on one core, with the same minibatch per process, on gloo.

Two processes take a step of twice as many utterances; if the exchange cost nothing and the cores
shared nothing, they would do twice as many a second. What the cores share (memory, cache, clock)
shows in two processes that know nothing of each other. All processes compute with one thread.
`python -m benchmarks.processes` is one of them.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator

from asdf.distributed.devices import usable_cores
from asdf.distributed.world import open_world
from benchmarks.harness import run_world
from benchmarks.nets import AsdfSteps, make_batch, make_network, make_settings
from benchmarks.rows import Row, compared, unmeasured

TARGET = 1.8
PEER, APART = "one process on one core", "two processes that exchange nothing"


def rows(quick: bool) -> Iterator[Row]:
    """Yield utterances per second."""
    cases = (
        (("tiny", 2, 8000, 4, 2),)
        if quick
        else (("small", 4, 64600, 4, 3), ("wav2vec2_base", 4, 64600, 2, 2))
    )
    for architecture, minibatch, samples, steps, rounds in cases:
        what = f"{architecture} + AASIST, {minibatch} x {samples / 16000:.1f} s a process, gloo"
        if usable_cores() < 2:
            yield unmeasured(what, "utt/s", PEER, "one core only", TARGET)
            continue
        rates: dict[str, list[float]] = {"together": [], "apart": [], "one": []}
        for _ in range(rounds):
            for how, worlds, size in (("together", 1, 2), ("apart", 2, 1), ("one", 1, 1)):
                words = (architecture, minibatch, samples, steps)
                lines = run_world(
                    "benchmarks.processes", size, *words, worlds=worlds, OMP_NUM_THREADS="1"
                )
                seconds = statistics.mean(float(json.loads(line)) for line in lines)
                rates[how].append(worlds * size * minibatch / seconds)
        yield compared(
            what, "utt/s", rates["together"], PEER, rates["one"], more=True, target=TARGET
        )
        yield compared(what, "utt/s", rates["together"], APART, rates["apart"], more=True)


def worker(architecture: str, minibatch: int, samples: int, steps: int) -> None:
    """Take steps in this process, one of its world, and print the median of their seconds."""
    settings = make_settings(architecture, minibatch, samples)
    settings.computing.use_gpu, settings.computing.threads = False, 1
    with open_world(settings.computing) as world:
        step = AsdfSteps(settings, make_network(settings), *make_batch(minibatch, samples), world)
        seconds = []
        for number in range(2 + steps):
            start = time.perf_counter()
            step()
            if number >= 2:
                seconds.append(time.perf_counter() - start)
        if world.is_main:
            print(json.dumps(statistics.median(seconds)), flush=True)


if __name__ == "__main__":
    worker(sys.argv[1], *map(int, sys.argv[2:]))

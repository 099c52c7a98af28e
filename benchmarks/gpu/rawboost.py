"""RawBoost on the GPU and on the host: the same waveforms, and ms per batch."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import torch

from asdf.audio.rawboost import boost, draw
from asdf.audio.rawboost_batch import prepare
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.verdict import Line, at_most, measured
from benchmarks.harness import in_turns
from benchmarks.nets import make_batch
from benchmarks.rawboost import ALWAYS, KINDS

LIMIT = 1e-5
# The recipes' choices: 5 for logical access, 3 for deepfakes, 4 with the most work.
TIMED = (3, 4, 5)


def equality(setup: Setup) -> Iterable[Line]:
    """Algorithms 1 to 8 with the same draws."""
    for algo in range(1, 1 + len(KINDS)):
        yield equality_on(torch.device("cuda", 0), algo, setup.sizes.samples)


def equality_on(device: torch.device, algo: int, samples: int) -> Line:
    """Compare one algorithm on `device` with the host's formulas for single waveforms."""
    settings = replace(ALWAYS, algo=algo)
    waveforms, _ = make_batch(3, samples)
    draws = [draw(samples, settings, np.random.default_rng(number)) for number in range(3)]
    pairs = zip(waveforms.numpy(), draws, strict=True)
    expected = np.stack([boost(waveform, drawn, settings) for waveform, drawn in pairs])
    result = prepare(waveforms, draws, settings).to(device).boosted().cpu().numpy()
    difference = float(np.abs(result - expected).max())
    return at_most(f"algorithm {algo}: difference from the host", difference, LIMIT)


def times(setup: Setup) -> Iterable[Line]:
    """ms per minibatch of the recipe on either side; the draws are made before."""
    sizes, device = setup.sizes, torch.device("cuda", 0)
    size = sizes.minibatches[0]
    for algo in TIMED:
        settings = replace(ALWAYS, algo=algo)
        waveforms, _ = make_batch(size, sizes.samples)
        draws = [draw(sizes.samples, settings, np.random.default_rng(seed)) for seed in range(size)]
        ready = prepare(waveforms, draws, settings).to(device)
        functions = {
            # The function is called at once.
            "host": lambda: prepare(waveforms, draws, settings).boosted(),  # noqa: B023
            "device": lambda: ready.boosted(),  # noqa: B023
        }
        taken = in_turns(functions, sizes.rounds)
        host, on_device = (1000 * statistics.median(taken[side]) for side in ("host", "device"))
        what = f"algorithm {algo}, {size} clips on the GPU"
        yield measured(what, on_device, "ms", f"{host:.1f} ms on a core of the host")


CHECKS: dict[str, Check] = {"equality": equality, "times": times}

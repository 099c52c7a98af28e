"""Measurement of training steps: `python -m benchmarks.gpu.measure CASES`, or with torchrun.

CASES is JSON, a list of `cases.Case`. The last printed line is JSON from the main rank: for each
case the content of a `cases.Measured`, or the reason of its failure. After a CUDA error all later
cases fail.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict

import torch

from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.distributed.world import World, open_world
from asdf.settings.sections import Sections
from asdf.training.gradients import choose_precision
from benchmarks.gpu.cases import GIB, Case, Measured
from benchmarks.gpu.operations import operations_of
from benchmarks.gpu.presence import apply
from benchmarks.gpu.torch_options import chosen
from benchmarks.nets import SAMPLES, AsdfSteps, make_batch, make_network, make_settings

WARM_UP = 4


def settings_of(case: Case) -> Sections:
    """Return the settings of a case; without CUDA graphs, unless it requests them."""
    settings = make_settings(case.architecture, case.minibatch, case.samples, "auto")
    settings.computing.cuda_graphs = False
    return apply(settings, case.settings)


def make_step(case: Case, settings: Sections, world: World) -> AsdfSteps:
    """Return the step of a case, as the recipe makes it."""
    with torch.device(world.device):
        network = make_network(settings, world.device)
    if "channels_last" in case.options:
        network = network.to(memory_format=torch.channels_last)
    if world.size > 1 and settings.computing.sync_batch_norm:
        network = synchronise_batch_norm(network)
    batch = make_batch(case.minibatch, case.samples, world.device)
    return AsdfSteps(settings, network, *batch, world)


def take_steps(case: Case, settings: Sections, world: World) -> Measured:
    """Take the steps of a case in this process."""
    step = make_step(case, settings, world)
    first_s = _seconds(step)[0]
    for _ in range(WARM_UP - 1):
        step()
    torch.cuda.reset_peak_memory_stats()
    taken = [_seconds(step) for _ in range(case.rounds)]
    peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    seconds = statistics.median(wall for wall, _ in taken)
    # All ranks take this step, because it communicates.
    done = operations_of(step)
    dtype = choose_precision(settings.computing.precision, world.device).dtype or torch.float32
    return Measured(
        ms=1000 * seconds,
        host_ms=1000 * statistics.median(host for _, host in taken),
        utterances_per_s=world.size * case.minibatch / seconds,
        peak_gib=peak / GIB,
        reserved_gib=reserved / GIB,
        total_gib=torch.cuda.get_device_properties(world.device).total_memory / GIB,
        operations=done.count if done else None,
        busy_ms=1000 * done.busy_s if done and done.busy_s is not None else None,
        first_s=first_s,
        loss_scale=step.last_step.loss_scale,
        skipped=step.last_step.skipped,
        dtype=str(dtype).removeprefix("torch."),
        gpu=torch.cuda.get_device_name(world.device),
        is_xlsr_aasist=_is_xlsr_aasist(settings),
    )


def _is_xlsr_aasist(settings: Sections) -> bool:
    """Whether it is the network and the clip with multiply-adds in `peaks`."""
    network, front_end = settings.network, settings.front_end
    of_300m = front_end.architecture == "wav2vec2_xlsr_300m" and not front_end.frozen
    fits = network.network_class.endswith(".SSL_AASIST") and network.train_clip_size == SAMPLES
    return of_300m and fits


def _seconds(step: Callable[[], float]) -> tuple[float, float]:
    """Return seconds of a step including the device's work, and CPU seconds of this process."""
    torch.cuda.synchronize()
    host, wall = time.process_time(), time.perf_counter()
    step()
    host = time.process_time() - host
    torch.cuda.synchronize()
    return time.perf_counter() - wall, host


def measured(case: Case) -> tuple[Measured | str, bool]:
    """Measure a case in a separate world; return the result or error, and whether on main rank."""
    settings = settings_of(case)
    with open_world(settings.computing) as world, chosen(case.options):
        try:
            return take_steps(case, settings, world), world.is_main
        except Exception as error:
            if world.size > 1:
                raise  # the others would wait for this one
            traceback.print_exc()
            first = (str(error).strip().splitlines() or [""])[0]
            return f"{type(error).__name__}: {first}", world.is_main
        finally:
            gc.collect()
            torch.cuda.empty_cache()


def main(cases: list[Case]) -> None:
    outcomes = [measured(case) for case in cases]
    results = [result if isinstance(result, str) else asdict(result) for result, _ in outcomes]
    if all(is_main for _, is_main in outcomes):
        print(json.dumps(results), flush=True)
    sys.stderr.flush()
    os._exit(0)  # nothing is left to do, and a broken device may hold the interpreter's end


if __name__ == "__main__":
    main([Case(**case) for case in json.loads(sys.argv[1])])

"""The quickstart on the GPU against the CPU: EERs, and the effect of TF32 and bf16 scoring.

Training on the GPU uses its own number format, so the networks differ; the EERs must be similar.
The same network scored in another format must keep its EER.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.presence import missing, takes_value
from benchmarks.gpu.recipes import QuickstartRuns, ended, last_line
from benchmarks.gpu.scoring import SETTING
from benchmarks.gpu.verdict import Line, at_most, failed, measured, not_run, stated

# In percentage points, for 80 and 160 trials and another training.
TRAINING_LIMIT = 10.0
SCORING_LIMIT = 1.0


def compare_with_cpu(setup: Setup) -> Iterable[Line]:
    """Both at the same time; the CPU's takes one thread."""
    runs = QuickstartRuns(setup, "quickstart")
    epochs: dict[str, Any] = {"network.max_epochs": setup.sizes.epochs}
    if setup.quick:
        run = runs.run("gpu", epochs)
        yield failed("quickstart", last_line(run)) if run.status else stated("quickstart", "ended")
        return
    _make_corpus(runs)
    on_cpu = runs.start("cpu", {**epochs, "computing.use_gpu": False})
    began = time.monotonic()
    on_gpu = ended(runs.start("gpu", epochs))
    seconds = time.monotonic() - began
    cpu = ended(on_cpu)
    for name, run in (("GPU", on_gpu), ("CPU", cpu)):
        if run.status:
            yield failed(f"quickstart on the {name}", last_line(run))
    if on_gpu.status == 0:
        yield measured("quickstart on the GPU: time", seconds, "s", "beside one on the CPU")
    if on_gpu.status == cpu.status == 0:
        yield from _differences(runs)


def _differences(runs: QuickstartRuns) -> Iterable[Line]:
    expected = runs.eers("cpu")
    for name, eer in runs.eers("gpu").items():
        difference = 100 * abs(eer - expected[name])
        what = f"{name}: difference of the EER from the CPU's"
        reason = f"{100 * eer:.2f} % on the GPU, {100 * expected[name]:.2f} % on the CPU"
        yield at_most(what, difference, TRAINING_LIMIT, "points", reason)


def precisions(setup: Setup) -> Iterable[Line]:
    """The GPU's network scored once more in each number format; fp32 is what others are held to."""
    runs = QuickstartRuns(setup, "quickstart")
    exact: dict[str, float] = {}
    for precision in ("fp32", "tf32", "bf16"):
        what = f"scoring in {precision}"
        if not takes_value(SETTING, precision):
            yield not_run(what, missing(f"{SETTING} = '{precision}'"))
            continue
        settings: dict[str, Any] = {"recipe.start_stage": 2, SETTING: precision}
        settings["network.max_epochs"] = setup.sizes.epochs
        run = runs.run("gpu", settings)
        if run.status:
            yield failed(what, last_line(run))
            if not exact:
                return
            continue
        eers = runs.eers("gpu")
        exact = exact or eers
        for name, eer in eers.items():
            if precision == "fp32":
                yield measured(f"{what}, {name}: EER", 100 * eer, "%")
                continue
            difference = 100 * abs(eer - exact[name])
            yield at_most(f"{what}, {name}: change of the EER", difference, SCORING_LIMIT, "points")


def _make_corpus(runs: QuickstartRuns) -> None:
    """Make the demo corpus, which two concurrent runs would otherwise both make.

    Raises:
        RuntimeError: it cannot be made.
    """
    run = runs.run("corpus", {"recipe.end_stage": 0, "computing.use_gpu": False})
    if run.status:
        raise RuntimeError(last_line(run))


CHECKS: dict[str, Check] = {"beside the CPU": compare_with_cpu, "precisions": precisions}

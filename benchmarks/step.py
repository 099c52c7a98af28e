"""A training step of wav2vec 2.0 + AASIST: ASDF, a plain PyTorch loop, Hugging Face's Trainer.

The plain loop has the same network, optimiser and minibatch (in memory), so the difference is what
ASDF adds to a step: seeding, the check of the loss, the exchange among processes, the request to
stop. Waveforms are 4 s long.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unittest.mock import patch

import torch
from torch import nn

from asdf.networks import aasist
from benchmarks.harness import has, in_turns
from benchmarks.hugging_face import compare_steps_with_trainer
from benchmarks.nets import AsdfSteps, PlainSteps, make_batch, make_network, make_settings
from benchmarks.rows import Row, compared, unmeasured

PLAIN, TRAINER = "plain PyTorch loop", "Hugging Face Trainer"
DTYPES = {"fp32": None, "bf16": torch.bfloat16}
NO_SLOWER = 0.98
FASTER_ON_GPU = 2.5
SAMPLES = 64600
QUICK_SAMPLES = 8000


@dataclass(frozen=True)
class Case:
    """A network, a minibatch and a number format."""

    architecture: str
    minibatch: int
    precision: str
    rounds: int

    def what(self, samples: int, device: str) -> str:
        """Return the text for the table."""
        size = f"{self.minibatch} x {samples / 16000:.1f} s"
        return f"{self.architecture} + AASIST, {size}, {self.precision}, {device}"


CPU = (
    Case("small", 8, "fp32", 40),
    Case("wav2vec2_base", 2, "fp32", 10),
    Case("wav2vec2_base", 2, "bf16", 10),
    Case("wav2vec2_xlsr_300m", 1, "fp32", 4),
)
QUICK = (Case("tiny", 2, "fp32", 3), Case("tiny", 2, "bf16", 3))
GPU = Case("wav2vec2_xlsr_300m", 14, "bf16", 15)


def rows(quick: bool) -> Iterator[Row]:
    """Yield seconds per step."""
    samples = QUICK_SAMPLES if quick else SAMPLES
    for case in QUICK if quick else CPU:
        yield compare_with_plain_loop(case, samples, torch.device("cpu"))
    for case in QUICK[:1] if quick else CPU[1:3]:
        yield compare_with_trainer(case, samples, torch.device("cpu"))
    yield order_of_one_channel(2, samples, 2 if quick else 7)
    yield from _on_gpu()


def order_of_one_channel(minibatch: int, samples: int, rounds: int) -> Row:
    """Compare raw AASIST's step with torch's order of the first map, in CPU seconds."""
    settings = make_settings("tiny", minibatch, samples)
    settings.network.network_class = "asdf.networks.AASIST"
    network, batch = make_network(settings), make_batch(minibatch, samples)
    step = AsdfSteps(settings, network, *batch)

    def step_in_torchs_order() -> float:
        with patch.object(aasist, "order_one_channel", nn.Identity()):
            return step()

    functions: dict[str, Callable[[], float]] = {"asdf": step, "torch": step_in_torchs_order}
    times = in_turns(functions, rounds, clock=time.process_time)
    what = f"AASIST on waveforms, {minibatch} x {samples / 16000:.1f} s, fp32, cpu"
    return compared(what, "s", times["asdf"], "its first map as torch orders it", times["torch"])


def compare_with_plain_loop(case: Case, samples: int, device: torch.device) -> Row:
    """Compare ASDF's step with the plain loop's."""
    settings = make_settings(case.architecture, case.minibatch, samples, case.precision)
    # One network serves both in turns, at the same address in memory.
    network, batch = make_network(settings, device), make_batch(case.minibatch, samples, device)
    times = in_turns(
        {
            "asdf": AsdfSteps(settings, network, *batch),
            "plain": PlainSteps(settings, network, *batch, DTYPES[case.precision]),
        },
        case.rounds,
        warm_up=2,
    )
    added = 1000 * statistics.median(
        a - b for a, b in zip(times["asdf"], times["plain"], strict=True)
    )
    note = f"ASDF adds {added:+.1f} ms to a step (median of the differences in pairs)"
    return compared(
        case.what(samples, device.type),
        "s",
        times["asdf"],
        PLAIN,
        times["plain"],
        target=NO_SLOWER,
        note=note,
    )


def compare_with_trainer(case: Case, samples: int, device: torch.device) -> Row:
    """Compare ASDF's step with the Trainer's; a row without numbers if that is not installed."""
    what = case.what(samples, device.type)
    if not has("transformers", "accelerate"):
        return unmeasured(what, "s", TRAINER, "transformers and accelerate are not installed")
    settings = make_settings(case.architecture, case.minibatch, samples, case.precision)
    batch = make_batch(case.minibatch, samples, device)
    asdf = AsdfSteps(settings, make_network(settings, device), *batch)
    times = compare_steps_with_trainer(settings, batch, asdf, case.precision, case.rounds)
    note = "the peer's front end is transformers' Wav2Vec2Model of the same sizes; same AASIST head"
    return compared(what, "s", times["asdf"], TRAINER, times["trainer"], note=note)


def _on_gpu() -> Iterator[Row]:
    """bf16, compiled, with a fused optimiser, against a plain loop in fp32 and one in bf16."""
    what = GPU.what(SAMPLES, "cuda")
    fast = f"{what}, compiled"
    if not torch.cuda.is_available():
        yield unmeasured(fast, "s", f"{PLAIN}, fp32", "no CUDA device", FASTER_ON_GPU)
        yield unmeasured(what, "s", PLAIN, "no CUDA device", NO_SLOWER)
        yield unmeasured(what, "s", TRAINER, "no CUDA device")
        return
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    settings = make_settings(GPU.architecture, GPU.minibatch, SAMPLES, GPU.precision)
    settings.computing.compile = True
    network, batch = make_network(settings, device), make_batch(GPU.minibatch, SAMPLES, device)
    functions: dict[str, Callable[[], float]] = {
        "asdf": AsdfSteps(settings, network, *batch),
        "plain": PlainSteps(settings, network, *batch),
    }
    # The first steps compile.
    times = in_turns(functions, GPU.rounds, warm_up=4)
    note = "bf16, compiled and fused beside fp32 (no TF32), eager, the optimiser's default"
    yield compared(
        fast, "s", times["asdf"], f"{PLAIN}, fp32", times["plain"], target=FASTER_ON_GPU, note=note
    )
    del functions, network
    torch.cuda.empty_cache()
    yield compare_with_plain_loop(GPU, SAMPLES, device)
    torch.cuda.empty_cache()
    yield compare_with_trainer(GPU, SAMPLES, device)

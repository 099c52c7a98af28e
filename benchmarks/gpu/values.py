"""Numerical results on the GPU against the CPU: random and published networks."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from asdf.distributed.arithmetic import arithmetic
from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.networks import AASIST_L
from asdf.settings.sections import Sections
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.networks import NETWORKS, build, clip_samples
from benchmarks.gpu.verdict import Line, at_most, measured, not_run
from benchmarks.harness import ROOT
from benchmarks.nets import make_batch

FIXTURES = ROOT / "tests" / "fixtures" / "networks"
PUBLISHED_LIMIT = 1e-4
# Logits of random weights are near 0.1. Another order of summation changes them by 1e-6, or by more
# if it changes which nodes a graph keeps.
LIMIT = 1e-3


def published(setup: Setup) -> Iterable[Line]:
    """Logits of the published AASIST-L beside those of its authors' code."""
    yield published_on(torch.device("cuda", 0), FIXTURES)


def published_on(device: torch.device, folder: Path) -> Line:
    """Compare the same on any device."""
    what = "AASIST-L, published weights: difference of logits from its authors' code"
    weights, recorded = folder / "AASIST-L.pth", folder / "AASIST-L.npz"
    if not (weights.is_file() and recorded.is_file()):
        reason = "the fixtures of the tests are not here: run it from a clone"
        return not_run(what, reason, f"<= {PUBLISHED_LIMIT:g}")
    network = AASIST_L(Sections())
    load_detector_weights(network, weights)
    case = np.load(recorded)
    expected = torch.from_numpy(case["logits"])
    result = logits_of(network.eval().to(device), torch.from_numpy(case["waveforms"]))
    return at_most(what, largest_difference(result, expected), PUBLISHED_LIMIT)


def fp32(setup: Setup) -> Iterable[Line]:
    """Each network in float32 without TF32."""
    for name in list(NETWORKS)[: setup.sizes.networks]:
        yield fp32_on(torch.device("cuda", 0), name)


def fp32_on(device: torch.device, name: str) -> Line:
    """Compare one network on `device` with the CPU."""
    network = build(name)
    return beside(f"{name}, fp32: difference of logits from the CPU's", network, network, device)


def beside(what: str, on_cpu: nn.Module, other: nn.Module, device: torch.device) -> Line:
    """Compare the logits of a network on the CPU with those of its counterpart on `device`."""
    waveforms, _ = make_batch(2, clip_samples(on_cpu))
    expected = logits_of(on_cpu.eval(), waveforms)
    result = logits_of(copy.deepcopy(other).eval().to(device), waveforms)
    return at_most(what, largest_difference(result, expected), LIMIT)


def lower_precision(setup: Setup) -> Iterable[Line]:
    """What TF32 and bf16 change in the logits of SSL_AASIST; the EER says whether it matters."""
    device = torch.device("cuda", 0)
    network = build("SSL_AASIST").eval().to(device)
    waveforms, _ = make_batch(2, clip_samples(network))
    exact = logits_of(network, waveforms)
    with torch.inference_mode(), arithmetic(tf32=True):
        rounded = network(waveforms.to(device))[1].float().cpu()
    yield measured("SSL_AASIST, tf32: difference of logits", largest_difference(rounded, exact))
    if torch.cuda.get_device_capability(device) < (8, 0):
        yield not_run("SSL_AASIST, bf16: difference of logits", "the GPU does not compute in bf16")
        return
    with torch.inference_mode(), torch.autocast("cuda", torch.bfloat16):
        rounded = network(waveforms.to(device))[1].float().cpu()
    yield measured("SSL_AASIST, bf16: difference of logits", largest_difference(rounded, exact))


def logits_of(network: nn.Module, waveforms: Tensor) -> Tensor:
    """Return logits (batch, 2) on the CPU, computed in float32 on the network's device."""
    device = next(network.parameters()).device
    with torch.inference_mode(), arithmetic(tf32=False):
        logits: Tensor = network(waveforms.to(device))[1]
        return logits.float().cpu()


def largest_difference(result: Tensor, expected: Tensor) -> float:
    """Return the largest absolute difference; NaN if a number is NaN."""
    return float((result - expected).abs().max())


CHECKS: dict[str, Check] = {
    "published": published,
    "fp32": fp32,
    "lower precision": lower_precision,
}

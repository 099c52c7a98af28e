"""XLSR-Mamba's back end equals the published code, and its scan the paper's recurrence."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest
import torch

from asdf.extras.zoo.networks import mamba
from asdf.extras.zoo.networks.mamba import _kernel, _scan_by_doubling, _scan_in_order
from asdf.networks import MambaBackEnd
from tests.unit.networks.official import load_drawn, official_case


def test_it_scores_as_the_official_code():
    case = official_case("mamba")
    back_end = MambaBackEnd(8, 20, 3, 16).eval()
    load_drawn(back_end, case.state)
    with torch.no_grad():
        logits = back_end(case.inputs)[1]
        short = back_end(case.inputs[:, :7])[1]
    torch.testing.assert_close(logits, case.outputs["logits"], atol=2e-5, rtol=0)
    torch.testing.assert_close(short, case.outputs["short"], atol=1e-5, rtol=0)


def drawn(frames: int) -> dict[str, torch.Tensor]:
    """Draw inputs of a scan of 5 channels with 3 states."""
    generator = torch.Generator().manual_seed(frames)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return {
        "x_BLD": normal(2, frames, 5),
        "steps_BLD": normal(2, frames, 5).exp() / 10,
        "a_DN": -normal(5, 3).exp(),
        "b_BLN": normal(2, frames, 3),
        "c_BLN": normal(2, frames, 3),
    }


def recurrence(x_BLD, steps_BLD, a_DN, b_BLN, c_BLN) -> np.ndarray:
    """Compute h = exp(step A) h + step B x and y = C h as the paper writes them, by loops."""
    outputs = np.zeros(x_BLD.shape)
    for utterance, channel in np.ndindex(x_BLD.shape[0], x_BLD.shape[2]):
        state = np.zeros(a_DN.shape[1])
        for frame in range(x_BLD.shape[1]):
            step = float(steps_BLD[utterance, frame, channel])
            discrete = np.exp(step * a_DN[channel].numpy())
            added = step * b_BLN[utterance, frame].numpy() * float(x_BLD[utterance, frame, channel])
            state = discrete * state + added
            outputs[utterance, frame, channel] = c_BLN[utterance, frame].numpy() @ state
    return outputs


@pytest.mark.parametrize("frames", [1, 2, 33])
def test_the_scan_is_the_papers_recurrence(frames):
    inputs = drawn(frames)
    got = mamba.selective_scan(**inputs)
    np.testing.assert_allclose(got.numpy(), recurrence(**inputs), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("frames", [1, 5, 64, 130])
def test_a_graph_gets_the_same_states(frames):
    generator = torch.Generator().manual_seed(0)
    factors = torch.rand(2, frames, 4, 3, generator=generator, dtype=torch.float64)
    added = torch.randn(2, frames, 4, 3, generator=generator, dtype=torch.float64)
    expected = _scan_in_order(factors, added)
    torch.testing.assert_close(_scan_by_doubling(factors, added), expected, rtol=1e-12, atol=1e-14)


def test_a_traced_back_end_is_right_at_other_lengths():
    back_end = MambaBackEnd(8, 16, 2, 4).eval()
    features = torch.randn(1, 40, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        traced = torch.jit.trace(back_end, features[:, :9], check_trace=False)
        torch.testing.assert_close(traced(features)[1], back_end(features)[1], atol=1e-5, rtol=0)


def test_gradients_are_those_of_the_recurrence():
    inputs = {name: values.requires_grad_() for name, values in drawn(6).items()}
    assert torch.autograd.gradcheck(mamba.selective_scan, tuple(inputs.values()))


def test_the_package_is_used_where_it_is(monkeypatch):
    """The kernel needs a GPU; here its arguments are checked, in their documented order."""

    def scan(u_BDL, delta_BDL, a_DN, b_BNL, c_BNL):
        assert all(tensor.is_contiguous() for tensor in (u_BDL, delta_BDL, a_DN, b_BNL, c_BNL))
        last = [tensor.transpose(1, 2) for tensor in (u_BDL, delta_BDL, b_BNL, c_BNL)]
        outputs = recurrence(last[0], last[1], a_DN, last[2], last[3])
        return torch.from_numpy(outputs).transpose(1, 2)

    for name in ("mamba_ssm", "mamba_ssm.ops", "mamba_ssm.ops.selective_scan_interface"):
        module = ModuleType(name)
        module.__spec__ = object()
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules["mamba_ssm.ops.selective_scan_interface"].selective_scan_fn = scan
    _kernel.cache_clear()
    inputs = drawn(12)
    try:
        got = mamba._scan_by_kernel(*inputs.values())
    finally:
        _kernel.cache_clear()
    torch.testing.assert_close(got, mamba.selective_scan(**inputs), rtol=1e-9, atol=1e-12)

"""SELU and tanh by other functions: torch's numbers, in any order in memory."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from asdf.networks.functions import PackedSelu, PackedTanh

EXTREMES = torch.tensor([-1e30, -200.0, -87.4, -1e-8, -0.0, 0.0, 1e-8, 1.0, 2e38, float("nan")])


@pytest.mark.parametrize("layer", ["contiguous", "channels last", "strided", "long"])
def test_selu_is_torchs(layer):
    x = 3 * torch.randn(2, 5, 7, 11, generator=torch.Generator().manual_seed(0))
    if layer == "channels last":
        x = x.contiguous(memory_format=torch.channels_last)
    if layer == "strided":
        x = x[:, ::2, :, 1:8]
    if layer == "long":
        x = 3 * torch.randn(300_001, generator=torch.Generator().manual_seed(0))
    before = x.clone()
    torch.testing.assert_close(PackedSelu()(x), F.selu(x), atol=1e-6, rtol=1e-6)
    assert torch.equal(x, before)


def test_extremes_are_torchs():
    torch.testing.assert_close(
        PackedSelu()(EXTREMES), F.selu(EXTREMES), atol=1e-6, rtol=1e-6, equal_nan=True
    )
    torch.testing.assert_close(
        PackedTanh()(EXTREMES), EXTREMES.tanh(), atol=1e-6, rtol=0, equal_nan=True
    )


def test_tanh_is_torchs():
    x = torch.linspace(-12, 12, 10_001)
    torch.testing.assert_close(PackedTanh()(x), x.tanh(), atol=1e-6, rtol=0)

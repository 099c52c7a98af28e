"""Packed attention over positions gives the plain one's scores and nodes."""

from __future__ import annotations

import pytest
import torch

from asdf.networks.packed import is_available
from asdf.networks.packed.attention import PackedNodeAttention
from asdf.networks.ssl_aasist import AASISTBackEnd

pytestmark = pytest.mark.skipif(not is_available(), reason="torch lacks oneDNN's products here")

TOLERANCE = 5e-6


def test_scores_and_nodes_are_the_plain_ones():
    torch.manual_seed(6)
    attention = AASISTBackEnd(16).attention.eval()
    norm = attention[2]
    torch.nn.init.uniform_(norm.running_mean, -0.5, 0.5)
    torch.nn.init.uniform_(norm.running_var, 0.3, 3.0)
    torch.nn.init.uniform_(norm.weight, -1.5, 1.5)
    torch.nn.init.uniform_(norm.bias, -0.5, 0.5)
    packed = PackedNodeAttention(attention)
    x_BCSN = 2 * torch.randn(2, 64, 5, 7)
    with torch.inference_mode():
        torch.testing.assert_close(
            packed(x_BCSN), attention(x_BCSN), atol=TOLERANCE, rtol=TOLERANCE
        )
        plain = attention.weigh_nodes(x_BCSN)
        nodes = packed.weigh_nodes(x_BCSN)
    assert [tuple(each.shape) for each in nodes] == [(2, 5, 64), (2, 7, 64)]
    for packed_BNC, plain_BNC in zip(nodes, plain, strict=True):
        torch.testing.assert_close(packed_BNC, plain_BNC, atol=TOLERANCE, rtol=TOLERANCE)

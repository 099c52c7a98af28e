"""Packed attention over positions gives the plain one's scores, and their means its nodes."""

from __future__ import annotations

import pytest
import torch

from asdf.extras.cpu.packed_graphs import PackedNodeAttention
from asdf.extras.cpu.packed_weights import is_available
from asdf.networks.back_ends.ssl_aasist import AASISTBackEnd
from asdf.networks.fast_functions import softmax_mean

pytestmark = pytest.mark.skipif(not is_available(), reason="torch lacks oneDNN's products here")

TOLERANCE = 5e-6


def test_scores_are_the_plain_ones():
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
        plain_BCSN = attention(x_BCSN)
        packed_BCSN = packed(x_BCSN)
    torch.testing.assert_close(packed_BCSN, plain_BCSN, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("dim", [-1, -2])
def test_a_mean_of_nodes_does_not_depend_on_the_order_in_memory(dim):
    x_BCSN, scores_BCSN = torch.randn(2, 2, 6, 5, 7, generator=torch.Generator().manual_seed(7))
    last_BCSN = scores_BCSN.contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        expected = (x_BCSN * scores_BCSN.softmax(dim)).sum(dim)
        for scores in (scores_BCSN, last_BCSN):
            torch.testing.assert_close(softmax_mean(x_BCSN, scores, dim), expected)

"""MesoInception-4's averages in graphs are those of torch."""

from __future__ import annotations

import pytest
import torch

from asdf.extras.zoo.networks.mesonet import average_shares


@pytest.mark.parametrize("values", [7, 64, 100, 1023, 17_856])
@pytest.mark.parametrize("shares", [1, 3, 64])
def test_shares_of_a_graph_are_those_of_torch(values, shares):
    x = torch.randn(2, values)
    expected = average_shares(x, shares)
    # By their definition, of the first and the last share.
    last = (shares - 1) * values // shares
    torch.testing.assert_close(expected[:, -1], x[:, last:].mean(dim=1))
    torch.testing.assert_close(expected[:, 0], x[:, : -(-values // shares)].mean(dim=1))
    graph = torch.jit.trace(lambda y: average_shares(y, shares), x, check_trace=False)
    torch.testing.assert_close(graph(x), expected, atol=1e-6, rtol=1e-6)

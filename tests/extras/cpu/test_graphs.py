"""Packed attention, over graphs and over positions, gives the plain one's nodes."""

import pytest
import torch
from torch import nn

from asdf.extras.cpu.network import PackedNetwork
from asdf.extras.cpu.packed_weights import (
    PackedGraphAttention,
    PackedHeterogeneousAttention,
    PackedNodeAttention,
    is_available,
    pack_graph,
)
from asdf.networks.back_ends.graph_attention import (
    GraphAttention,
    HeterogeneousGraphAttention,
    Pairs,
)
from asdf.networks.back_ends.ssl_aasist import AASISTBackEnd
from asdf.networks.functions import softmax_mean

TOLERANCE = 2e-6


def prepare(graph: nn.Module) -> nn.Module:
    """Give the norm statistics and weights that are not those of a fresh one."""
    nn.init.uniform_(graph.bn.running_mean, -0.5, 0.5)
    nn.init.uniform_(graph.bn.running_var, 0.3, 3.0)
    nn.init.uniform_(graph.bn.weight, -1.5, 1.5)
    nn.init.uniform_(graph.bn.bias, -0.5, 0.5)
    return graph.eval()


def draw(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("nodes", [1, 2, 7, 230])
@pytest.mark.parametrize("temperature", [2.0, 100.0])
def test_one_graph(nodes, temperature):
    torch.manual_seed(0)
    graph = prepare(GraphAttention(12, 8, temperature))
    x_BNC = 3 * draw(2, nodes, 12)
    with torch.inference_mode():
        packed_BND = PackedGraphAttention(graph)(x_BNC)
        torch.testing.assert_close(packed_BND, graph(x_BNC), atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize(("first", "second"), [(1, 1), (5, 3), (3, 5)])
def test_two_graphs_and_their_master(first, second):
    torch.manual_seed(1)
    graph = prepare(HeterogeneousGraphAttention(12, 8, 3.0))
    # One master node for all utterances, as a network's parameter is, and one for each.
    for master_B1C in (draw(1, 1, 12), draw(2, 1, 12)):
        nodes = (3 * draw(2, first, 12), 3 * draw(2, second, 12), master_B1C)
        with torch.inference_mode():
            plain = graph(*nodes)
            packed = PackedHeterogeneousAttention(graph)(*nodes)
        for plain_BND, packed_BND in zip(plain, packed, strict=True):
            torch.testing.assert_close(packed_BND, plain_BND, atol=TOLERANCE, rtol=TOLERANCE)


def test_autocast_does_not_reach_the_nodes():
    graph = prepare(GraphAttention(12, 8, 2.0))
    x_BNC = draw(1, 5, 12)
    with torch.inference_mode():
        alone_BND = PackedGraphAttention(graph)(x_BNC)
        with torch.autocast("cpu", torch.bfloat16):
            within_BND = PackedGraphAttention(graph)(x_BNC)
    assert torch.equal(within_BND, alone_BND)


@pytest.mark.parametrize("part", ["bn", "proj_with_att"])
def test_a_graph_with_another_part_stays_plain(part):
    graph = prepare(GraphAttention(12, 12, 2.0))
    network = nn.ModuleList([graph])
    assert pack_graph(graph, torch.float32)
    setattr(graph, part, nn.Identity())
    assert pack_graph(graph, torch.float32) is None
    with PackedNetwork(network).in_use():
        assert network[0] is graph


def test_pairs_made_while_scoring_serve_training():
    with torch.inference_mode():
        Pairs.of(6)
    x_BNC = draw(1, 6, 12).requires_grad_()
    graph = prepare(GraphAttention(12, 8, 2.0)).train()
    graph(x_BNC).sum().backward()
    assert x_BNC.grad.abs().sum() > 0
    assert Pairs.of(6) is Pairs.of(6)


@pytest.mark.skipif(not is_available(), reason="torch lacks oneDNN's products here")
def test_scores_of_positions_are_the_plain_ones():
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
    torch.testing.assert_close(packed_BCSN, plain_BCSN, atol=5e-6, rtol=5e-6)


@pytest.mark.parametrize("dim", [-1, -2])
def test_a_mean_of_nodes_does_not_depend_on_the_order_in_memory(dim):
    x_BCSN, scores_BCSN = torch.randn(2, 2, 6, 5, 7, generator=torch.Generator().manual_seed(7))
    last_BCSN = scores_BCSN.contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        expected = (x_BCSN * scores_BCSN.softmax(dim)).sum(dim)
        for scores in (scores_BCSN, last_BCSN):
            torch.testing.assert_close(softmax_mean(x_BCSN, scores, dim), expected)

"""What a CPU learns through faster: torch's numbers and gradients, by other operations."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from asdf.networks.back_ends.graph_attention import (
    GraphAttention,
    HeterogeneousGraphAttention,
    Pairs,
    _project_edges,
)
from asdf.networks.back_ends.graph_back_end import ResidualBlock, order_one_channel
from asdf.networks.functions import LearningSELU, LearningTanh, learns_on_cpu, softmax_mean


def draw(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes)))


def gradient_of(function, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a function's result, and the gradient of its product with drawn numbers."""
    leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
    result = function(leaf)
    result.backward(draw(*result.shape, 1).squeeze(-1))
    return result.detach(), leaf.grad


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(("layer", "torchs"), [(LearningSELU(), F.selu), (LearningTanh(), F.tanh)])
def test_an_activation_learns_as_torchs(layer, torchs, layout):
    x = (3 * draw(2, 5, 7, 3)).contiguous(memory_format=layout)
    x[0, 0, 0] = torch.tensor([0.0, -1e-6, -80.0])
    result, gradient = gradient_of(layer, x)
    expected, expected_gradient = gradient_of(torchs, x)
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(gradient, expected_gradient, atol=2e-6, rtol=1e-6)
    assert result.is_contiguous(memory_format=layout)
    # Not where nothing is learned: there it is torch's to the last bit.
    with torch.no_grad():
        assert torch.equal(layer(x), torchs(x))
        assert not learns_on_cpu(x)
    assert torch.equal(layer(x.double()), torchs(x.double()))


def test_pairs_are_the_edges_of_a_graph_once():
    pairs = Pairs.of(3)
    assert list(zip(pairs.first_P.tolist(), pairs.second_P.tolist(), strict=True)) == [
        (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)
    ]  # fmt: skip
    assert pairs.position_NN.tolist() == [[0, 1, 2], [1, 3, 4], [2, 4, 5]]
    x_BNC = draw(2, 3, 4)
    edges_BNNC = x_BNC.unsqueeze(2) * x_BNC.unsqueeze(1)
    spread_BNN = pairs.spread(pairs.multiply(x_BNC).sum(2))
    assert torch.equal(spread_BNN, edges_BNNC.sum(3))


def test_one_graph_scores_its_edges_as_all_of_them():
    torch.manual_seed(0)
    attention = GraphAttention(6, 5, 2.0)

    def all_edges(x_BNC):
        scores_BNN1 = torch.tanh(_project_edges(x_BNC, attention.att_proj)) @ attention.att_weight
        return scores_BNN1.squeeze(-1)

    check_same(attention._score_edges, all_edges, attention, draw(2, 7, 6))


@pytest.mark.parametrize("nodes", [1, 4, 6])
def test_two_graphs_score_each_kind_of_edge_by_its_weights(nodes):
    torch.manual_seed(0)
    attention = HeterogeneousGraphAttention(6, 5, 2.0)

    def score_edges(x_BJC):
        return attention._score_edges(x_BJC, nodes)

    def all_edges(x_BJC):
        edges_BJJD = torch.tanh(_project_edges(x_BJC, attention.att_proj))
        columns = [attention.att_weight11, attention.att_weight12, attention.att_weight22]
        scores = [(edges_BJJD @ column).squeeze(-1) for column in columns]
        second_J = (torch.arange(x_BJC.shape[1]) >= nodes).long()
        kinds_JJ = second_J[:, None] + second_J
        return torch.stack(scores).gather(0, kinds_JJ.expand(1, len(x_BJC), -1, -1))[0]

    check_same(score_edges, all_edges, attention, draw(2, 7, 6))


def check_same(function, expected_function, module, x):
    """Both give the same numbers and gradients, of `x` and of the module's parameters."""
    results = []
    for each in (function, expected_function):
        module.zero_grad()
        result, gradient = gradient_of(each, x)
        learned = [p.grad for p in module.parameters() if p.grad is not None]
        results.append([result, gradient, *learned])
    torch.testing.assert_close(*results, atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(function(x), results[0][0], atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("dim", [-1, -2])
def test_a_mean_weighted_by_a_softmax_learns_as_torchs(dim):
    x = draw(2, 3, 5, 4)
    scores = 50 * draw(2, 3, 5, 4)
    for first in (True, False):

        def ours(leaf, first=first):
            return softmax_mean(leaf, scores, dim) if first else softmax_mean(x, leaf, dim)

        def torchs(leaf, first=first):
            values, weights = (leaf, scores) if first else (x, leaf)
            return (values * weights.softmax(dim)).sum(dim)

        leaf = x if first else scores
        torch.testing.assert_close(
            gradient_of(ours, leaf), gradient_of(torchs, leaf), atol=1e-6, rtol=1e-5
        )


@pytest.mark.parametrize("channels", [(1, 8), (8, 8)])
def test_a_residual_block_learns_the_same_in_either_order_in_memory(channels):
    torch.manual_seed(0)
    block = ResidualBlock(*channels, first=False, pool=True)
    x_BCFT = draw(2, channels[0], 5, 7)
    result, gradient = gradient_of(block, x_BCFT)
    with torch.no_grad():
        torch.testing.assert_close(block(x_BCFT), result, atol=1e-5, rtol=1e-5)
    _, expected = gradient_of(block.double(), x_BCFT.double())
    torch.testing.assert_close(gradient.double(), expected, atol=1e-4, rtol=1e-4)


def test_one_channel_is_taken_for_channels_last_where_it_learns():
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(1, 8, (2, 3))
    x_B1FT = draw(2, 1, 5, 7)
    ordered = order_one_channel(x_B1FT)
    assert torch.equal(ordered, x_B1FT)
    assert ordered.data_ptr() == x_B1FT.data_ptr()
    # A map of one channel is in both orders; its strides decide in which the next one is.
    assert not convolution(x_B1FT).is_contiguous(memory_format=torch.channels_last)
    assert convolution(ordered).is_contiguous(memory_format=torch.channels_last)
    learned = gradient_of(lambda leaf: convolution(order_one_channel(leaf)), x_B1FT)
    torch.testing.assert_close(learned, gradient_of(convolution, x_B1FT), atol=1e-6, rtol=1e-5)
    with torch.no_grad():
        assert order_one_channel(x_B1FT) is x_B1FT

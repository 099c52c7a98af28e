"""Gradients that are written out for a GPU, held against differences of values."""

import pytest
import torch
from torch.autograd import gradcheck

from asdf.networks.back_ends.joined_attention import Attention, Edges


def random(*shape: int) -> torch.Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def attention_parameters(rows: int, columns: int) -> list[torch.Tensor]:
    """Those of two branches that map 3 values to 4."""
    edges = random(2, 4, 3), random(2, 1, 4)
    return [*edges, random(2, 4 * rows, 3), random(2, 1, 4 * rows), random(2, columns, 4)]


@pytest.mark.parametrize("nodes", [5, 1])
def test_the_attention_of_a_graph(nodes):
    x_GBJC = random(2, 3, nodes, 3)
    hidden_G11J = torch.zeros(2, 1, 1, nodes)
    hidden_G11J[1, ..., 3:] = -torch.inf
    parameters = attention_parameters(2, 1)

    def attend(*tensors):
        return Attention.apply(Edges(2.0, hidden_G11J=hidden_G11J), *tensors)

    assert gradcheck(attend, (x_GBJC, *parameters))
    edge, edge_bias, node, node_bias, column = [parameter[1] for parameter in parameters]
    x_BJC = x_GBJC[1]
    edges_BJJD = (x_BJC.unsqueeze(1) * x_BJC.unsqueeze(2)) @ edge.T + edge_bias
    scores_BJJ = (edges_BJJD.tanh() @ column.T).squeeze(-1) / 2 + hidden_G11J[1]
    attended, own = (x_BJC @ node.T + node_bias).chunk(2, dim=-1)
    expected_BJD = scores_BJJ.softmax(-1) @ attended + own
    torch.testing.assert_close(attend(x_GBJC, *parameters)[1], expected_BJD)


@pytest.mark.parametrize("nodes", [4, 1])
def test_the_attention_of_nodes_of_two_kinds_and_their_master(nodes):
    kind_JJ1 = torch.tensor([[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 2, 2], [1, 1, 2, 2]])
    kind_JJ1 = kind_JJ1[:nodes, :nodes].unsqueeze(-1)
    choices = Edges(2.0, kind_JJ1, kind_JJ1 == torch.arange(3))
    master = [random(2, 3, 1, 3), random(2, 4, 3), random(2, 1, 4), random(2, 4, 3)]
    parameters = [*attention_parameters(3, 3), *master, random(2, 1, 4), random(2, 1, 4)]

    def attend(*tensors):
        return Attention.apply(choices, *tensors)

    x_GBJC = random(2, 3, nodes, 3)
    assert gradcheck(attend, (x_GBJC, *parameters))
    _, _, node, node_bias, _, *of_master = [parameter[1] for parameter in parameters]
    master_B1C, edge, edge_bias, own, own_bias, column = of_master
    attended = (x_GBJC[1] @ node.T + node_bias).chunk(3, dim=-1)[2]
    scores_BJ1 = ((x_GBJC[1] * master_B1C) @ edge.T + edge_bias).tanh() @ column.T / 2
    expected_B1D = scores_BJ1.softmax(1).mT @ attended + master_B1C @ own.T + own_bias
    torch.testing.assert_close(attend(x_GBJC, *parameters)[1][1], expected_B1D)

"""Gradients that are written out for a GPU, held against differences of values."""

import pytest
import torch
from torch.autograd import gradcheck

from asdf.networks.back_ends.joined_gradients import (
    LinearMaps,
    MatrixProducts,
    PairProducts,
    Pick,
    Symmetric,
)
from asdf.networks.cpu_gradients import largest


def random(*shape: int) -> torch.Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1)])
def test_products_of_matrices(sizes):
    rows, inner, columns = sizes
    first, second = random(2, rows, inner), random(2, inner, columns)
    torch.testing.assert_close(MatrixProducts.apply(first, second), first @ second)
    assert gradcheck(MatrixProducts.apply, (first, second))


@pytest.mark.parametrize("rows", [4, 1])
@pytest.mark.parametrize("adds", [True, False])
def test_linear_maps_whose_gradients_lie_as_their_weights(rows, adds):
    x_GXC, weight_GRC = random(2, rows, 3), random(2, 5, 3)
    added_G1R = random(2, 1, 5) if adds else None
    result = LinearMaps.apply(x_GXC, weight_GRC, added_G1R)
    expected = x_GXC @ weight_GRC.mT
    torch.testing.assert_close(result, expected + added_G1R if adds else expected)
    assert gradcheck(LinearMaps.apply, (x_GXC, weight_GRC, added_G1R))
    result.sum().backward()
    assert weight_GRC.grad.is_contiguous()


def test_products_of_pairs_whose_scores_are_the_same_in_both_directions():
    x_BJC = random(2, 4, 3)
    assert torch.equal(PairProducts.apply(x_BJC)[:, 1, 2], x_BJC[:, 1] * x_BJC[:, 2])

    def score(x_BJC):
        return Symmetric.apply(PairProducts.apply(x_BJC).tanh().sum(-1))

    # Its differences are taken in each direction by itself.
    assert gradcheck(score, (x_BJC,))


def test_one_value_of_a_dimension():
    values = random(3, 4, 2, 5)
    kinds_J = torch.tensor([0, 1, 1, 0])
    is_J21 = (kinds_J[:, None] == torch.arange(2)).unsqueeze(2)
    expected = torch.stack([values[:, node, kind] for node, kind in enumerate(kinds_J)], dim=1)
    index_J11 = kinds_J[:, None, None]
    assert torch.equal(Pick.apply(values, index_J11, is_J21), expected)
    assert gradcheck(Pick.apply, (values, index_J11, is_J21))


def test_on_a_cpu_equally_large_values_share_the_gradient_and_elsewhere_one_has_it():
    x = torch.tensor([[2.0, 2.0, 1.0]], requires_grad=True)
    largest(x, dim=1).sum().backward()
    assert x.grad.tolist() == [[0.5, 0.5, 0.0]]
    elsewhere = largest(torch.empty(2, 3, device="meta", requires_grad=True), dim=1)
    assert elsewhere.shape == (2,)
    assert elsewhere.grad_fn.name() == "MaxBackward0"

"""Largest values whose gradients are few operations of a GPU."""

import pytest
import torch
from torch.autograd import gradcheck

from asdf.networks import functions as module
from asdf.networks.functions import largest, largest_magnitudes


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    monkeypatch.setattr(module, "is_on_cpu", lambda _: False)


def test_on_a_cpu_equally_large_values_share_the_gradient():
    x = torch.tensor([[2.0, 2.0, 1.0]], requires_grad=True)
    largest(x, dim=1).sum().backward()
    assert x.grad.tolist() == [[0.5, 0.5, 0.0]]


def test_elsewhere_one_has_it(as_on_a_gpu):
    x = torch.tensor([[2.0, 2.0, 1.0]], requires_grad=True)
    largest(x, dim=1).sum().backward()
    assert sorted(x.grad.tolist()[0]) == [0.0, 0.0, 1.0]


def random_numbers() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(3, 4, 5, dtype=torch.float64, requires_grad=True)


def test_values_and_gradients_are_those_of_torch(as_on_a_gpu):
    x = random_numbers()
    assert torch.equal(largest(x, dim=1), x.amax(dim=1))
    assert gradcheck(lambda x: largest(x, dim=1), (x,))
    both = largest_magnitudes(x, dims=(2, 1))
    assert torch.equal(both[0], x.abs().amax(dim=2)) and torch.equal(both[1], x.abs().amax(dim=1))
    assert gradcheck(lambda x: largest_magnitudes(x, dims=(2, 1)), (x,))


def test_a_cpu_has_the_same_values():
    x = random_numbers()
    assert torch.equal(largest_magnitudes(x, dims=(1,))[0], x.abs().amax(dim=1))

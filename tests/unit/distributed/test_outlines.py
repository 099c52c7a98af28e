"""A network in outline takes no memory, computes shapes, and gets the numbers of another."""

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from asdf.distributed.outlines import (
    build_on_main,
    is_outlined,
    parameters_outlined,
    receive,
)
from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.settings.sections import Sections


class Other(World):
    """A process that is not the main one; the main one answers with what was noted before."""

    def agree(self, value):
        return ANSWER[0]


ANSWER: list[torch.Tensor] = []


def memory_of(network: nn.Module) -> int:
    storages = {one.untyped_storage().data_ptr(): one for one in network.parameters()}
    return sum(one.untyped_storage().nbytes() for one in storages.values())


def tiny() -> Sections:
    settings = Sections()
    settings.front_end.architecture = "tiny"
    settings.network.network_class = "asdf.networks.SSL_AASIST_L"
    return settings


def test_an_outline_has_shapes_buffers_and_finite_outputs():
    settings = tiny()
    whole = build_network(settings).eval()
    with parameters_outlined():
        outline = build_network(settings).eval()
    assert memory_of(outline) < 0.01 * memory_of(whole)
    for name, value in whole.state_dict().items():
        assert outline.state_dict()[name].shape == value.shape, name
    for (name, value), other in zip(whole.named_buffers(), outline.buffers(), strict=True):
        assert torch.equal(value, other), name
    embeddings, logits = outline(torch.randn(2, 16000))
    assert embeddings.shape == whole(torch.zeros(2, 16000))[0].shape
    assert bool(torch.isfinite(logits).all())


def test_what_writes_to_an_outline_does_nothing_and_to_others_does():
    with parameters_outlined():
        module = weight_norm(nn.Linear(4, 3))
        module.bias.data.fill_(5.0)
        with torch.no_grad():
            module.bias += 1.0
            module.bias[0] = 2.0
        module.requires_grad_(False)
        plain = torch.zeros(3).fill_(7.0)
    assert is_outlined(module.bias) and not module.bias.requires_grad
    assert module.bias.tolist() == pytest.approx([0.01] * 3)
    assert plain.tolist() == [7.0] * 3
    assert not is_outlined(nn.Linear(4, 3).weight)


def test_loading_leaves_an_outline_as_it_is():
    with parameters_outlined():
        module = nn.Linear(4, 3)
        module.load_state_dict(nn.Linear(4, 3).state_dict())
    assert is_outlined(module.weight)


def test_the_others_draw_on_with_the_numbers_of_the_main_process():
    torch.manual_seed(3)
    main = build_on_main(lambda: nn.Linear(40, 30), World(rank=0, size=1))
    ANSWER[:] = [torch.get_rng_state()]
    expected = torch.rand(2)
    torch.manual_seed(3)
    other = build_on_main(lambda: nn.Linear(40, 30), Other(rank=1, size=2))
    assert torch.equal(torch.rand(2), expected)
    assert is_outlined(other.weight) and not is_outlined(main.weight)


class Stubborn(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))
        self.weight.data.view(-1)[0] = 1.0  # an outline cannot be viewed in a row


def test_a_class_that_cannot_be_outlined_is_built_whole():
    ANSWER[:] = [torch.get_rng_state()]
    made = build_on_main(Stubborn, Other(rank=1, size=2))
    assert made.weight.data.view(-1)[0] == 1.0 or is_outlined(made.weight)


def test_received_numbers_are_in_memory_of_their_own():
    with parameters_outlined():
        module = nn.Linear(4, 3)
    weight = module.weight
    receive(module.parameters(), World())
    assert module.weight is weight and not is_outlined(weight)
    weight.data[0, 0] = 9.0
    assert weight[1, 1] != 9.0

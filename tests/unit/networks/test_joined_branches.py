"""Both branches of AASIST together, as a GPU computes them, against one after the other."""

import pytest
import torch
from torch import nn

from asdf.networks.back_ends import graph_back_end, joined_branches
from asdf.networks.back_ends.graph_attention import GraphPool, HeterogeneousGraphAttention
from asdf.networks.back_ends.joined_branches import Kinds, can_join
from asdf.networks.back_ends.ssl_aasist import AASISTBackEnd, AASISTLBackEnd


def run(net, features_BLF, joined):
    """Return outputs, gradients and statistics of one pass, and leave the network as it was."""
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.zero_grad()
    net._joins_branches = lambda _: joined
    outputs = net(features_BLF)
    (outputs[1] * torch.tensor([1.0, -2.0])).sum().backward()
    gradients = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
    after = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    net.load_state_dict(before)
    return outputs, gradients, after


@pytest.fixture
def without_dropout(monkeypatch):
    """Both ways draw other numbers."""
    for name in ("EMBEDDING_DROPOUT", "BRANCH_DROPOUT"):
        monkeypatch.setattr(graph_back_end, name, 0.0)
    for name in ("INPUT_DROPOUT", "POOL_DROPOUT"):
        monkeypatch.setattr(joined_branches, name, 0.0)


# Of 42 spectral nodes and a temporal one for three frames, either are more, or neither.
@pytest.mark.parametrize(("utterances", "frames"), [(1, 50), (2, 126), (3, 135)])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make", [AASISTBackEnd, AASISTLBackEnd])
def test_both_branches_together_are_one_after_the_other(
    make, training, utterances, frames, without_dropout
):
    torch.manual_seed(0)
    net = make(24).train(training)
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    features_BLF = torch.randn(utterances, frames, 24)
    (outputs, gradients, state) = run(net, features_BLF, joined=True)
    (expected, expected_gradients, expected_state) = run(net, features_BLF, joined=False)
    torch.testing.assert_close(outputs, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(state, expected_state, atol=1e-6, rtol=1e-6)
    # A bias before a batch norm has a gradient of rounding alone: held against the largest.
    atol = 1e-5 * max(float(gradient.abs().max()) for gradient in expected_gradients.values())
    torch.testing.assert_close(gradients, expected_gradients, atol=atol, rtol=1e-3)


def test_a_cpu_computes_one_branch_after_the_other_and_a_tensor_without_numbers_both():
    net = AASISTBackEnd(24)
    assert not net._joins_branches(torch.zeros(1, 3, 64))
    assert net._joins_branches(torch.zeros(1, 3, 64, device="meta"))


def test_both_branches_together_draw_dropout_of_their_own():
    torch.manual_seed(0)
    net = AASISTBackEnd(24).train()
    net._joins_branches = lambda _: True
    features_BLF = torch.randn(2, 30, 24)
    assert not torch.equal(net(features_BLF)[0], net(features_BLF)[0])
    net.eval()
    assert torch.equal(net(features_BLF)[0], net(features_BLF)[0])


def test_layers_of_others_and_those_that_are_watched_are_computed_as_they_are():
    attention, pool = HeterogeneousGraphAttention(8, 4, 100.0), GraphPool(0.5, 4)
    assert can_join([attention, pool])
    handle = attention.att_proj.register_forward_hook(lambda *_: None)
    assert not can_join([attention, pool])
    handle.remove()
    assert can_join([attention, pool])
    attention.bn = nn.Identity()
    assert can_join([attention, pool])
    pool.proj = nn.Sequential(nn.Linear(4, 1))
    assert not can_join([attention, pool])


def test_graphs_of_two_temperatures_are_computed_one_after_the_other():
    net = AASISTBackEnd(24)
    net.GAT_layer_S.temperature = 3.0
    assert not net._joins_branches(torch.zeros(1, 3, 64, device="meta"))


def test_kinds_of_fewer_nodes_are_those_around_the_border():
    kinds = Kinds.of(3, 4, torch.device("cpu")).retain(1, 2)
    assert kinds.is_JJ3[0].tolist() == [[True, False, False], *[[False, True, False]] * 2]
    assert kinds.kind_JJ.tolist() == [[0, 1, 1], [1, 2, 2], [1, 2, 2]]

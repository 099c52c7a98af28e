"""When the front end learns."""

from __future__ import annotations

import pytest
import torch

from asdf.networks import build_network, front_end_parameters
from asdf.networks.freezing import freeze_front_end, frozen_in_epoch
from asdf.settings.sections import FrontEnd
from tests.unit.networks.inspection import any_in_training, any_learns, trainable_names


@pytest.mark.parametrize(
    ("settings", "frozen"),
    [
        (FrontEnd(), [False, False, False, False]),
        (FrontEnd(frozen=True), [True, True, True, True]),
        (FrontEnd(unfreeze_after_epochs=2), [True, True, False, False]),
    ],
)
def test_which_epochs_are_frozen(settings, frozen):
    assert [frozen_in_epoch(settings, epochs) for epochs in range(4)] == frozen


@pytest.mark.parametrize("layer", ["last", "weighted", 1])
def test_freezing_and_back_again_leaves_all_as_it_was(layer, tiny, waveforms):
    tiny.front_end.dropout = 0.3
    tiny.front_end.layer = layer
    tiny.front_end.time_mask_proportion = 0.5
    network = build_network(tiny).train()
    learns = trainable_names(network)
    modes = [module.training for module in network.modules()]
    freeze_front_end(network, True)
    assert not any_learns(front_end_parameters(network))
    assert not any_in_training(network.front_end)
    assert network.back_end.training
    network.train()
    features = network.front_end(waveforms)
    assert torch.equal(features, network.eval().front_end(waveforms))
    network.train()
    freeze_front_end(network, False)
    assert trainable_names(network) == learns
    assert [module.training for module in network.modules()] == modes


def test_a_front_end_that_is_to_learn_later_is_built_to_learn(tiny):
    """The optimiser takes up what learns when it is made."""
    tiny.front_end.unfreeze_after_epochs = 3
    assert all(parameter.requires_grad for parameter in front_end_parameters(build_network(tiny)))

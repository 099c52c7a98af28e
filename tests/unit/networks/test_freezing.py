"""When the front end learns."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from asdf.networks import Wav2Vec2FrontEnd, build_network, front_end_parameters
from asdf.networks.tuning import freeze_front_end, frozen_in_epoch
from asdf.settings.sections import FrontEnd
from asdf.training.losses.loss_building import build_loss
from asdf.trials.trial_list import TrialList
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


class Scaled(nn.Module):
    """Its logits, but not its embeddings, depend on a factor that it counts to the front end."""

    def __init__(self, settings):
        super().__init__()
        self.front_end = Wav2Vec2FrontEnd(settings.front_end)
        self.factor_2 = nn.Parameter(torch.ones(2))
        # What a class freezes by itself.
        self.front_end.model.encoder.feature_projection.projection.bias.requires_grad_(False)

    def forward(self, waveforms_BT):
        embeddings_BE = self.front_end(waveforms_BT).mean(1)
        return embeddings_BE, self.factor_2 * embeddings_BE[:, :2]

    def front_end_parameters(self):
        yield self.factor_2
        yield from self.front_end.parameters()


@pytest.mark.parametrize("parts", [None, ("norms", "projection")])
def test_what_a_loss_or_a_class_froze_stays_so_when_the_front_end_learns_later(tiny, parts):
    tiny.front_end.trained_parts = parts
    tiny.network.loss = "oc_softmax"
    network = Scaled(tiny)
    assert network.factor_2.requires_grad
    trials = TrialList(["a", "b"], np.arange(2, dtype=np.int8), name="noise")
    build_loss(network, trials, tiny)
    learns = trainable_names(network)
    assert "factor_2" not in learns and any("trained_loss" in name for name in learns)
    for _ in range(2):
        freeze_front_end(network, True)
        assert not any_learns(network.front_end.parameters())
        freeze_front_end(network, True)
        freeze_front_end(network, False)
        assert trainable_names(network) == learns

"""Training on cached features equals training with the frozen front end, up to their precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asdf.data.feature_cache import FeatureCache, FeaturePass, identity_of
from asdf.data.loaders import BatchLoader
from asdf.data.samplers import Sampler, Shuffled
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.split import feature_identity
from asdf.runs.seeds import generator
from asdf.settings.sections import Sections
from asdf.training.callbacks import Callback
from tests.recordings import noise_waveforms, write_recordings
from tests.unit.training.conftest import clip_loader, run_training

SIZE = 7  # four steps an epoch, the last of them filled up
SMALL = Architecture(((8, 10, 5), (8, 8, 8)), "layer_norm", True, 8, 3, 2, 16, True, 4, 2)


class Losses(Callback):
    def __init__(self):
        self.all = []

    def on_step(self, record):
        self.all.append(record["loss"])


@pytest.fixture
def train(tmp_path):
    torch.set_num_threads(1)
    lengths = np.array([300 + 50 * index for index in range(SIZE)])
    utterances = write_recordings(tmp_path, noise_waveforms(lengths))

    def train(
        dtype: str | None,
        network_class: str,
        layer: str | int,
        sampler: type[Sampler] = Shuffled,
        rounded: bool = False,
    ) -> tuple[list[float], dict[str, torch.Tensor]]:
        settings = Sections()
        net = settings.network
        net.network_class = f"asdf.networks.{network_class}"
        net.optimizer, net.initial_learning_rate, net.schedule = "adamw", 0.001, "constant"
        net.minibatch_size, net.train_clip_size, net.max_epochs, net.clip_position = (
            2,
            500,
            3,
            "start",
        )
        net.checkpoint_interval_s, net.print_interval = None, 1
        settings.front_end.architecture, settings.front_end.layer = SMALL.to_text(), layer
        settings.front_end.frozen, settings.front_end.dropout = True, 0.5
        torch.manual_seed(0)
        network, world = build_network(settings), World()
        loader = clip_loader(utterances, lengths, settings)
        if dtype is not None:
            work = FeaturePass(
                network.front_end_features, loader, utterances, net, world, StopRequest()
            )
            identity = identity_of(feature_identity(network), utterances, lengths, settings, dtype)
            features = work.fill(FeatureCache(tmp_path / "features", identity, work.shape()))
            # What follows reads no recording and computes no front end.
            network.front_end.forward = network.front_end.hidden_states = None
            loader = BatchLoader(features, 0, world)
        if rounded:
            network.front_end_features = through_float16(network.front_end_features)
        losses = Losses()
        folder = tmp_path / f"system-{dtype}"
        settings.front_end.cache_features = dtype is not None
        run_training(
            network,
            utterances,
            lengths,
            settings,
            folder,
            callbacks=[losses],
            loader=loader,
            sampler=sampler(settings, utterances),
        )
        content = torch.load(folder / "networks" / "epoch.3.pt", weights_only=True)
        return losses.all, content["model_state_dict"]

    return train


def through_float16(compute):
    """Return features as a cache in float16 has them, computed by the front end each time."""

    def rounded(waveforms_BT):
        features = compute(waveforms_BT)
        if isinstance(features, torch.Tensor):
            return features.half().float()
        return [layer_BLC.half().float() for layer_BLC in features]

    return rounded


class Repeating(Sampler):
    def order(self, epoch):
        return generator(self.seed, "mine", epoch).integers(0, SIZE, SIZE - 1)


def test_an_utterance_with_several_turns_has_the_same_features_at_each(train):
    losses, weights = train(None, "SSL_ASP", "last", Repeating)
    assert losses != train(None, "SSL_ASP", "last")[0]
    same, same_weights = train("float32", "SSL_ASP", "last", Repeating)
    assert same == losses
    torch.testing.assert_close(same_weights, weights, rtol=0, atol=0)


@pytest.mark.slow_but("SSL_ASP-last")
@pytest.mark.parametrize(
    ("network_class", "layer"), [("SSL_ASP", "last"), ("SSL_ASP", "weighted"), ("SSL_MHFA", 2)]
)
def test_training_on_cached_features_is_training_with_the_front_end(train, network_class, layer):
    losses, weights = train(None, network_class, layer)
    assert len(losses) == 12 and sum(losses[8:]) < sum(losses[:4])
    same, same_weights = train("float32", network_class, layer)
    assert same == losses
    torch.testing.assert_close(same_weights, weights, rtol=0, atol=0)
    near, near_weights = train("float16", network_class, layer)
    # No tolerance: Adam makes a step of its full size of each gradient, however near 0 it is, so
    # that how far float16's rounding moves a loss depends on the processor. That rounding is all
    # that differs, whatever the processor.
    rounded, rounded_weights = train(None, network_class, layer, rounded=True)
    assert near == rounded and near != losses
    torch.testing.assert_close(near_weights, rounded_weights, rtol=0, atol=0)
    # The first loss has no step before it. Features differ by 2^-11 of themselves, half a unit of
    # float16; behind a norm and a softmax a loss may differ by some ten times that, not by 64.
    assert near[0] == pytest.approx(losses[0], rel=64 * 2**-11)

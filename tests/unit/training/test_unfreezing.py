"""A front end that learns from some epoch on: what changes when, also after a stop."""

import numpy as np
import pytest
import torch
from torch import nn

from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import UsageError
from asdf.networks import ASPBackEnd, SSLDetector
from asdf.networks.front_ends.architectures import Architecture
from asdf.settings.sections import Sections
from asdf.training.checkpoints import read_checkpoint
from asdf.training.loop import Trainer
from tests.recordings import noise_waveforms, write_recordings
from tests.unit.training.conftest import StopAfter, run_training

SIZE = 6  # three steps an epoch
SMALL = Architecture(((8, 10, 5), (8, 8, 8)), "layer_norm", True, 8, 2, 2, 16, True, 4, 2)


class Small(SSLDetector):
    def make_back_end(self, settings):
        return ASPBackEnd(self.front_end.dimension, 4)


@pytest.fixture
def train(tmp_path):
    utterances = write_recordings(tmp_path, noise_waveforms([500] * SIZE))

    def train(
        start: str = "", stop: StopRequest | None = None, network_class=Small, **front_end
    ) -> Trainer:
        settings = Sections()
        net = settings.network
        net.optimizer, net.initial_learning_rate, net.schedule = "adamw", 0.01, "constant"
        net.minibatch_size, net.train_clip_size, net.max_epochs = 2, 400, 3
        net.checkpoint_interval_s, net.weight_decay = None, 0.1
        settings.front_end.architecture = SMALL.to_text()
        for name, value in front_end.items():
            setattr(settings.front_end, name, value)
        torch.manual_seed(0)
        network = network_class(settings)
        lengths = np.full(SIZE, 500)
        return run_training(
            network, utterances, lengths, settings, tmp_path, start=start, stop=stop
        )

    return train


def weights(folder, name: str) -> dict[str, torch.Tensor]:
    return read_checkpoint(folder / "networks" / name).state


def moved(before: dict, after: dict) -> set[str]:
    return {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}


def test_the_front_end_moves_from_the_epoch_on(train, tmp_path):
    train(unfreeze_after_epochs=2)
    epochs = [weights(tmp_path, f"epoch.{epoch}.pt") for epoch in (1, 2, 3)]
    assert moved(epochs[0], epochs[1]) == {"back_end"}
    # Neither the optimiser nor its weight decay has touched the frozen weights before that.
    torch.manual_seed(0)
    settings = Sections()
    settings.front_end.architecture = SMALL.to_text()
    assert moved(Small(settings).state_dict(), epochs[1]) == {"back_end"}
    unmoved = {name for name in epochs[1] if torch.equal(epochs[1][name], epochs[2][name])}
    # A key's bias has a gradient of 0, up to rounding; decay starts it from 0 and leaves it there.
    assert not {name for name in unmoved if "k_proj.bias" not in name}


def test_the_frozen_epochs_are_those_of_a_frozen_front_end(train, tmp_path):
    train(unfreeze_after_epochs=2, dropout=0.5)
    later = weights(tmp_path, "epoch.2.pt")
    train(frozen=True, dropout=0.5)
    torch.testing.assert_close(weights(tmp_path, "epoch.2.pt"), later, rtol=0, atol=0)


# While it is frozen, on the last step before it learns, and on the first on which it does.
@pytest.mark.slow_but("6")
@pytest.mark.parametrize("steps", [2, 6, 7])
def test_a_stop_before_at_or_after_the_unfreezing_changes_no_number(train, tmp_path, steps):
    options = {
        "unfreeze_after_epochs": 2,
        "dropout": 0.3,
        "layer_drop": 0.5,
        "time_mask_proportion": 0.3,
        "time_mask_length": 1,
        "layer": "weighted",
    }
    train(**options)
    whole = read_checkpoint(tmp_path / "networks" / "epoch.3.pt")
    for path in (tmp_path / "networks").iterdir():
        path.unlink()

    with pytest.raises(Stopped, match=f"after step {steps}"):
        train(stop=StopAfter(steps), **options)
    start = "resume.pt" if steps % 3 else f"epoch.{steps // 3}.pt"
    train(start=start, **options)
    again = read_checkpoint(tmp_path / "networks" / "epoch.3.pt")
    torch.testing.assert_close(again.state, whole.state, rtol=0, atol=0)
    torch.testing.assert_close(again.optimiser_state, whole.optimiser_state, rtol=0, atol=0)
    assert again.progress == whole.progress


def test_clips_of_another_length_than_the_networks_are_refused(train):
    class Fixed(nn.Module):
        fixed_samples = 5000

        def __init__(self, settings):
            super().__init__()
            self.output = nn.Linear(5000, 2)

    with pytest.raises(
        UsageError,
        match=r"train_clip_size is 400, but .* takes 5000 samples only. Set network\.train",
    ):
        train(network_class=Fixed)

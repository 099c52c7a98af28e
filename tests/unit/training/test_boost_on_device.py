"""RawBoost of whole batches trains to the losses of RawBoost in the loader, also after a stop."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asdf.checkpoint.network_file import NetworkFile
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.settings.sections import RawBoost, Sections
from asdf.training.checkpoints import read_checkpoint
from tests.recordings import write_recordings
from tests.small_networks import Plain
from tests.unit.training.conftest import StopAfter, run_training

SIZE = 6  # three steps an epoch
LENGTH = 3000


@pytest.fixture
def train(tmp_path):
    rng = np.random.default_rng(1)
    waveforms = [rng.normal(0, 0.05 + 0.1 * (index % 2), LENGTH) for index in range(SIZE)]
    utterances = write_recordings(tmp_path, waveforms)

    def train(
        system: str, rawboost: RawBoost, start: str = "", stop: StopRequest | None = None
    ) -> list[dict]:
        """The contents of the checkpoints of the three epochs."""
        settings = Sections(rawboost=rawboost)
        net = settings.network
        net.optimizer, net.initial_learning_rate, net.schedule = "adam", 0.01, "constant"
        net.minibatch_size, net.train_clip_size, net.max_epochs, net.checkpoint_interval_s = (
            2,
            2000,
            3,
            None,
        )
        torch.manual_seed(0)
        folder = tmp_path / system
        lengths = np.full(SIZE, LENGTH)
        run_training(Plain(settings), utterances, lengths, settings, folder, start=start, stop=stop)
        return [read_checkpoint(folder / "networks" / f"epoch.{epoch}.pt") for epoch in (1, 2, 3)]

    return train


def losses(checkpoints: list[NetworkFile]) -> list[float]:
    return [checkpoint.progress["training_loss"] for checkpoint in checkpoints]


@pytest.mark.parametrize("algo", [4, 5, 8])
def test_losses_are_those_of_the_loaders_way(train, algo):
    single, whole, plain = (
        losses(train(system, RawBoost(enabled=enabled, algo=algo, on_device=on_device)))
        for system, enabled, on_device in (
            ("a", True, False),
            ("b", True, True),
            ("c", False, True),
        )
    )
    assert whole == pytest.approx(single, abs=1e-4)
    assert plain != pytest.approx(single, abs=1e-3)


@pytest.mark.parametrize("steps", [2, 4])
def test_a_stop_changes_no_number(train, steps):
    rawboost = RawBoost(enabled=True, algo=4, on_device=True)
    whole = train("whole", rawboost)

    with pytest.raises(Stopped, match=f"after step {steps}"):
        train("stopped", rawboost, stop=StopAfter(steps))
    again = train("stopped", rawboost, start="resume.pt")
    last, expected = again[-1], whole[-1]
    torch.testing.assert_close(last.state, expected.state, rtol=0, atol=0)
    torch.testing.assert_close(last.optimiser_state, expected.optimiser_state, rtol=0, atol=0)
    assert last.progress == expected.progress

"""When the loop evaluates, saves, stops and ends; when a front end begins to learn."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest
import torch
from torch import nn

from asdf.checkpoint.network_file import write_network_file
from asdf.data.datasets import TrainingClips
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import UsageError
from asdf.networks import ASPBackEnd, SSLDetector
from asdf.networks.front_ends.architectures import Architecture
from asdf.runs.evaluations import read_evaluations
from asdf.runs.layout import Layout, list_networks
from asdf.settings.sections import Sections
from asdf.training.checkpoints import read_checkpoint
from asdf.training.loop import Trainer
from tests.recordings import noise_waveforms, write_recordings
from tests.unit.training.conftest import SIZE, StopAfter, run_training


def printed(tmp_path) -> dict[int, float]:
    """The loss of each progress line, by its step."""
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}


def names(tmp_path) -> list[str]:
    return [name.file for name in list_networks(Layout(tmp_path).networks)]


def test_callbacks_are_notified_of_everything(train):
    _, seen = train(eers=[0.3, 0.2], max_epochs=2)
    assert seen == [
        ("start", 0),
        ("step", 3),
        ("checkpoint", "epoch.1.pt"),
        ("evaluation", 5),
        ("step", 6),
        ("step", 9),
        ("checkpoint", "epoch.2.pt"),
        ("evaluation", 10),
        ("end", "network.max_epochs = 2"),
    ]


def test_max_steps_ends_inside_an_epoch_with_a_network_that_is_evaluated(train, tmp_path):
    trainer, seen = train(eers=[0.3, 0.2], max_steps=7)
    assert trainer.finished() == "network.max_steps = 7" and trainer.progress.step == 7
    assert names(tmp_path) == ["epoch.1.pt", "epoch.2.step.7.pt"]
    assert seen[-3:] == [
        ("checkpoint", "epoch.2.step.7.pt"),
        ("evaluation", 7),
        ("end", "network.max_steps = 7"),
    ]
    assert [evaluation.network.file for evaluation in read_evaluations(Layout(tmp_path))] == [
        "epoch.1.pt",
        "epoch.2.step.7.pt",
    ]


def test_evaluations_every_n_steps_are_added_to_those_of_the_epochs(train, tmp_path):
    train(eers=[0.5] * 9, max_epochs=2, evaluation_interval_steps=2, epochs_per_train_call=2)
    steps = [evaluation.step for evaluation in read_evaluations(Layout(tmp_path))]
    assert steps == [2, 4, 6, 8, 10]
    assert names(tmp_path) == [
        "epoch.1.step.2.pt",
        "epoch.1.step.4.pt",
        "epoch.1.pt",
        "epoch.2.step.6.pt",
        "epoch.2.step.8.pt",
        "epoch.2.pt",
    ]


def test_epochs_between_evaluations_and_the_last_one_always(train, tmp_path):
    train(eers=[0.5] * 9, max_epochs=5, epochs_per_train_call=2)
    assert [evaluation.epoch for evaluation in read_evaluations(Layout(tmp_path))] == [2, 4, 5]


def test_checkpoints_inside_an_epoch_and_none_left_after_it(train, tmp_path):
    _, seen = train(max_epochs=1, checkpoint_interval_steps=2)
    assert [name for kind, name in seen if kind == "checkpoint"] == [
        "resume.pt",
        "resume.pt",
        "epoch.1.pt",
    ]
    assert not (tmp_path / "networks" / "resume.pt").exists()


def test_early_stop_after_n_evaluations_without_a_better_one(train, tmp_path):
    trainer, _ = train(eers=[0.3, 0.2, 0.25, 0.2, 0.1], max_epochs=9, early_stop_evaluations=2)
    assert trainer.progress.epochs == 4
    assert trainer.finished() == "2 evaluations without a better EER than that of epoch.2.pt"


def test_an_early_stop_holds_when_the_run_is_started_again(train):
    train(eers=[0.1, 0.2, 0.3], max_epochs=9, early_stop_evaluations=2)
    trainer, seen = train(eers=[0.5], start="epoch.3.pt", max_epochs=9, early_stop_evaluations=2)
    assert trainer.progress.epochs == 3 and seen[-1][0] == "end"
    # With more patience it goes on.
    trainer, _ = train(eers=[0.5] * 3, start="epoch.3.pt", max_epochs=9, early_stop_evaluations=3)
    assert trainer.progress.epochs == 4


def test_a_stop_request_saves_and_the_next_start_ends_as_if_there_had_been_none(train, tmp_path):
    whole, _ = train(eers=[0.3] * 3, max_epochs=2)
    weights = {name: value.clone() for name, value in whole.step.network.state_dict().items()}
    for path in (tmp_path / "networks").iterdir():
        path.unlink()

    with pytest.raises(
        Stopped, match="stopped by signal SIGTERM after step 3; the same command resumes from there"
    ):
        train(max_epochs=2, stop=StopAfter(3))
    assert [path.name for path in (tmp_path / "networks").iterdir()] == ["resume.pt"]
    resumed, seen = train(eers=[0.3] * 3, start="resume.pt", max_epochs=2)
    assert seen[0] == ("start", 3)
    torch.testing.assert_close(resumed.step.network.state_dict(), weights, rtol=0, atol=0)
    assert resumed.progress.state() == whole.progress.state()


def test_the_training_loss_of_an_epoch_is_the_mean_over_its_utterances(train, utterances):
    """At a learning rate that changes nothing, so that it can be computed in one go."""
    trainer, _ = train(max_epochs=1, initial_learning_rate=1e-30, class_weights=(0.2, 0.8))
    clips = TrainingClips(
        utterances, np.full(SIZE, 500), 400, trainer.settings.rawboost, trainer.settings.sad, 0
    )
    waveforms = torch.stack([torch.from_numpy(clips[1, i].samples) for i in range(SIZE)])
    with torch.no_grad():
        logits = trainer.step.network(waveforms)[1]
    weighted = torch.nn.CrossEntropyLoss(weight=torch.tensor([0.2, 0.8]))
    expected = weighted(logits, torch.from_numpy(utterances.labels).long())
    assert trainer.progress.training_loss == pytest.approx(float(expected), rel=1e-5)


def test_the_losses_printed_after_a_resume_are_those_of_the_whole_run(train, tmp_path):
    train(max_epochs=2, print_interval=4, checkpoint_interval_steps=3)
    whole = printed(tmp_path)
    assert list(whole) == [4, 8]
    for path in (tmp_path / "networks").iterdir():
        path.unlink()
    # Stopped after one step of the mean of step 4, and after two of that of step 8.
    for start, steps in (("", 3), ("epoch.1.step.3.pt", 7), ("epoch.2.step.7.pt", None)):
        train(start=start, max_epochs=2, max_steps=steps, print_interval=4)
    assert printed(tmp_path) == whole


def test_a_checkpoint_of_an_earlier_version_prints_the_losses_from_there_on(train, tmp_path):
    train(max_steps=4, print_interval=1)
    losses = printed(tmp_path)
    path = tmp_path / "networks" / "epoch.1.step.4.pt"
    train(max_steps=3)
    older = read_checkpoint(tmp_path / "networks" / "epoch.1.step.3.pt")
    del older.progress["printed_loss_sum"]
    del older.progress["printed_weight_sum"]
    write_network_file(tmp_path / "networks" / "epoch.1.step.3.pt", older)
    path.unlink()
    train(start="epoch.1.step.3.pt", max_steps=4, print_interval=4)
    assert printed(tmp_path)[4] == pytest.approx(losses[4], rel=1e-6)


def test_progress_lines_say_how_long_the_rest_takes(train, tmp_path, caplog):
    caplog.set_level("INFO", "asdf")
    train(max_epochs=4, print_interval=5)
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line["kind"] == "step"]
    assert [line["step"] for line in steps] == [5, 10, 15, 20]
    assert steps[-1]["seconds_left"] == 0 and steps[0]["seconds_left"] > 0
    said = [record.getMessage() for record in caplog.records if ", step " in record.getMessage()]
    assert len(said) == 4 and all(" utterances/s, about " in line for line in said)
    ends = f"utterances/s, about 0 s left, data wait {100 * steps[-1]['data_wait']:.0f} %"
    assert said[-1].endswith(ends)


def test_the_bar_says_it_as_well(train, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    train(max_epochs=3, print_interval=5)
    last = sys.stderr.getvalue().split("\r")
    assert any(line.startswith("epoch 3: 100%") and "about 0 s left]" in line for line in last)


def test_a_checkpoint_inside_an_epoch_follows_from_the_clock(train):
    _, seen = train(max_epochs=1, checkpoint_interval_s=1e-9)
    names = [name for kind, name in seen if kind == "checkpoint"]
    assert names == ["resume.pt"] * 4 + ["epoch.1.pt"]
    _, seen = train(start="epoch.1.pt", max_epochs=2, checkpoint_interval_s="auto")
    assert [name for kind, name in seen if kind == "checkpoint"] == ["epoch.2.pt"]


def test_another_list_begins_its_epoch_anew(train, utterances, tmp_path):
    train(max_steps=3)
    checkpoint = read_checkpoint(tmp_path / "networks" / "epoch.1.step.3.pt")
    assert checkpoint.progress["position"] == 6
    utterances.ids.reverse()
    trainer, _ = train(start="epoch.1.step.3.pt", max_epochs=1)
    assert trainer.progress.step == 3 + 5


def test_evaluations_newer_than_the_checkpoint_do_not_count(train, tmp_path):
    train(eers=[0.3, 0.2, 0.1], max_epochs=3)
    trainer, _ = train(eers=[0.6, 0.5], start="epoch.1.pt", max_epochs=3)
    eers = [evaluation.eers["dev"] for evaluation in trainer.progress.evaluations]
    assert eers == [0.3, 0.6, 0.5]
    records = json.loads((tmp_path / "networks" / "evaluations.json").read_text())
    assert records == [evaluation.record() for evaluation in trainer.progress.evaluations]


SIX = 6  # three steps an epoch
SMALL = Architecture(((8, 10, 5), (8, 8, 8)), "layer_norm", True, 8, 2, 2, 16, True, 4, 2)


class Small(SSLDetector):
    def make_back_end(self, settings):
        return ASPBackEnd(self.front_end.dimension, 4)


@pytest.fixture
def train_small(tmp_path):
    utterances = write_recordings(tmp_path, noise_waveforms([500] * SIX))

    def train_small(
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
        lengths = np.full(SIX, 500)
        return run_training(
            network, utterances, lengths, settings, tmp_path, start=start, stop=stop
        )

    return train_small


def weights(folder, name: str) -> dict[str, torch.Tensor]:
    return read_checkpoint(folder / "networks" / name).state


def moved(before: dict, after: dict) -> set[str]:
    return {name.partition(".")[0] for name in before if not torch.equal(before[name], after[name])}


def test_the_front_end_moves_from_the_epoch_on(train_small, tmp_path):
    train_small(unfreeze_after_epochs=2)
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


def test_the_frozen_epochs_are_those_of_a_frozen_front_end(train_small, tmp_path):
    train_small(unfreeze_after_epochs=2, dropout=0.5)
    later = weights(tmp_path, "epoch.2.pt")
    train_small(frozen=True, dropout=0.5)
    torch.testing.assert_close(weights(tmp_path, "epoch.2.pt"), later, rtol=0, atol=0)


# While it is frozen, on the last step before it learns, and on the first on which it does.
@pytest.mark.slow_but("6")
@pytest.mark.parametrize("steps", [2, 6, 7])
def test_a_stop_before_at_or_after_the_unfreezing_changes_no_number(train_small, tmp_path, steps):
    options = {
        "unfreeze_after_epochs": 2,
        "dropout": 0.3,
        "layer_drop": 0.5,
        "time_mask_proportion": 0.3,
        "time_mask_length": 1,
        "layer": "weighted",
    }
    train_small(**options)
    whole = read_checkpoint(tmp_path / "networks" / "epoch.3.pt")
    for path in (tmp_path / "networks").iterdir():
        path.unlink()

    with pytest.raises(Stopped, match=f"after step {steps}"):
        train_small(stop=StopAfter(steps), **options)
    start = "resume.pt" if steps % 3 else f"epoch.{steps // 3}.pt"
    train_small(start=start, **options)
    again = read_checkpoint(tmp_path / "networks" / "epoch.3.pt")
    torch.testing.assert_close(again.state, whole.state, rtol=0, atol=0)
    torch.testing.assert_close(again.optimiser_state, whole.optimiser_state, rtol=0, atol=0)
    assert again.progress == whole.progress


def test_clips_of_another_length_than_the_networks_are_refused(train_small):
    class Fixed(nn.Module):
        fixed_samples = 5000

        def __init__(self, settings):
            super().__init__()
            self.output = nn.Linear(5000, 2)

    with pytest.raises(UsageError, match=r"is 400, but .* takes 5000 samples only. Set it to 5000"):
        train_small(network_class=Fixed)

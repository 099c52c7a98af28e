"""What a network takes besides waveforms: texts of columns, and what a loader reads."""

from __future__ import annotations

import re
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.training.losses import Loss
from asdf.training.losses.loss import Term
from asdf.training.objective import Objective, TargetSource, inputs_in_training
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from asdf.trials.trial_list import TrialList
from tests.unit.conftest import network_settings
from tests.unit.training.test_step import SIZE, UTTERANCES, WAVEFORMS

TEXTS = [f"said by {number % 3}" for number in range(SIZE)]


class Reading(nn.Module):
    """Notes what it is given; its logits follow from it."""

    further_inputs = ("lengths", "columns")
    input_columns = ("said",)

    def __init__(self, settings=None):
        super().__init__()
        self.output = nn.Linear(2, 2)
        self.given: list[tuple[torch.Tensor, torch.Tensor | None, list[str]]] = []

    def forward(self, waveforms_BT, lengths=None, columns=None):
        if lengths is None:
            lengths = torch.full((len(waveforms_BT),), waveforms_BT.shape[1])
        else:
            self.given.append((waveforms_BT[:, 0].clone(), lengths.clone(), columns["said"]))
        values_B2 = torch.stack([waveforms_BT.mean(1), lengths / 100], 1)
        return values_B2, self.output(values_B2)


def lengths_of(indices):
    return 10 + torch.as_tensor(indices)


def batches_of(window):
    for share in window.shares:
        rows = torch.from_numpy(share.utterances)
        yield Batch(WAVEFORMS[rows], further={"lengths": lengths_of(rows), "references": rows})


def step_of(network, columns=None, mixup=0.0):
    listed = TrialList(UTTERANCES.ids, UTTERANCES.labels, columns=columns or {}, name="train")
    settings = network_settings(optimizer="sgd", train_clip_size=WAVEFORMS.shape[1])
    settings.augmentation.mixup_probability = mixup
    # Lengths are of recordings of varying length alone.
    if "lengths" in network.further_inputs:
        settings.lengths.minibatch_s = 1.0
    return Step(network, listed, settings, World())


def test_a_network_gets_what_it_names_and_what_belongs_to_its_recordings():
    network = Reading()
    step = step_of(network, {"said": TEXTS})
    window = next(iter(TrainingPlan(SIZE, 4, 2).windows(1)))
    step.take(window, batches_of(window), Progress(), [])
    assert len(network.given) == 2
    for (first_B, lengths_B, said), share in zip(network.given, window.shares, strict=True):
        assert first_B.equal(WAVEFORMS[torch.from_numpy(share.utterances), 0])
        assert lengths_B.equal(lengths_of(share.utterances))
        assert said == [TEXTS[index] for index in share.utterances]


def test_a_network_of_waveforms_alone_gets_nothing_else():
    class Alone(Reading):
        further_inputs = ()

        def forward(self, waveforms_BT):
            return super().forward(waveforms_BT)

    network = Alone()
    step = step_of(network)
    window = next(iter(TrainingPlan(SIZE, 4, 2).windows(1)))
    step.take(window, batches_of(window), Progress(), [])
    assert network.given == []
    # Lengths are of recordings of varying length alone.
    assert inputs_in_training(Reading(), network_settings()) == ("columns",)


def test_names_that_there_are_not_are_refused():
    class Misnamed(Reading):
        further_inputs = ("length",)

    with pytest.raises(AsdfError, match=r"further_inputs has 'length'\. There are: lengths"):
        step_of(Misnamed())


def test_a_list_without_the_column_is_refused():
    with pytest.raises(UsageError, match=re.escape("takes the column 'said' of the training list")):
        step_of(Reading(), {"speaker": TEXTS})


def test_mixed_clips_are_refused():
    with pytest.raises(UsageError, match=r"cannot be mixed: set augmentation\.mixup_prob"):
        step_of(Reading(), {"said": TEXTS}, mixup=0.5)


class Longer(Loss):
    """Counts an utterance by its length; notes what it gets."""

    takes_lengths = True
    given: ClassVar[list[torch.Tensor | None]] = []

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns, lengths_B=None):
        self.given.append(lengths_B)
        values_B = cross_entropy(logits_B2, labels_B, reduction="none")
        return values_B if lengths_B is None else values_B * lengths_B


class OfLengths(Term):
    name = "lengths"
    weight = 0.5
    needs = ("lengths",)

    def targets_of(self, keys):
        return torch.zeros(len(keys))

    def counts(self, targets):
        return torch.ones(len(targets), dtype=torch.float64)

    def per_utterance(self, outputs, targets):
        return outputs.extras["lengths"].float() + 0 * outputs.logits_B2[:, 0]


def test_a_loss_and_a_term_get_the_lengths():
    Longer.given.clear()
    settings = network_settings(
        optimizer="sgd",
        train_clip_size=WAVEFORMS.shape[1],
        loss=f"{__name__}.Longer",
        initial_learning_rate=1e-30,
    )
    settings.lengths.minibatch_s = 1.0
    listed = TrialList(UTTERANCES.ids, UTTERANCES.labels, columns={"said": TEXTS}, name="train")
    network = Reading()
    step = Step(network, listed, settings, World())
    # On noise.
    assert Longer.given == [None]
    step.objective = Objective(step.objective.loss, (OfLengths(),))
    step.targets = TargetSource(listed, step.objective, settings, World().device, None, network)
    window = next(iter(TrainingPlan(SIZE, 4, 2).windows(1)))
    taken = step.take(window, batches_of(window), Progress(), [])
    for lengths_B, share in zip(Longer.given[1:], window.shares, strict=True):
        assert lengths_B.equal(lengths_of(share.utterances))
    rows = torch.from_numpy(window.utterances)
    lengths_N = lengths_of(rows)
    logits_N2 = network(WAVEFORMS[rows], lengths_N, {"said": []})[1]
    labels_N = torch.from_numpy(UTTERANCES.labels).long()[rows]
    values_N = cross_entropy(logits_N2, labels_N, reduction="none") * lengths_N
    weights_N = torch.tensor(settings.network.class_weights)[labels_N]
    expected = (values_N * weights_N).sum() / weights_N.sum() + 0.5 * lengths_N.double().mean()
    assert taken.loss == pytest.approx(float(expected.detach()), rel=1e-5)


def test_what_was_read_goes_to_the_device_with_the_clips():
    batch = Batch(torch.zeros(2, 3), further={"lengths": torch.tensor([3, 2])})
    moved = batch.to(torch.device("meta"))
    assert moved.samples.device.type == moved.further["lengths"].device.type == "meta"
    assert batch.to(torch.device("cpu")).further["lengths"].tolist() == [3, 2]

"""The loss of trials is computed next to their scores, which stay what they are without it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.networks.attached import loss_of
from asdf.runs import parts
from asdf.scoring.score_list import ScoredList, build_list_scorer, score_with_extras
from asdf.scoring.scorer import Computed, Scorer
from asdf.settings.sections import Sections
from asdf.training.losses import CrossEntropy
from asdf.training.losses.loss_building import build_loss
from asdf.training.objective import LossOnTrials, Objective, loss_on_trials
from asdf.trials.trial_list import TrialList
from tests.recordings import noise_waveforms, write_recordings

LENGTHS = (3000, 9000, 21_000, 9000, 40_100, 12_345, 7000)
WEIGHTS = (0.25, 0.75)


@pytest.fixture
def utterances(tmp_path):
    return write_recordings(tmp_path, noise_waveforms(LENGTHS))


def make_settings(loss: str = "cross_entropy", **others: float) -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.front_end.architecture = "tiny"
    settings.network.minibatch_size = 1
    settings.network.train_clip_size = 4000
    settings.network.min_evaluation_utterance_length_in_samples = 4000
    settings.network.max_evaluation_utterance_length_in_samples = 16_000
    settings.network.loss = loss
    settings.network.class_weights = WEIGHTS
    settings.computing.network_dataloader_workers = 0
    for name, value in others.items():
        setattr(settings.loss, name, value)
    return settings


def work(settings, utterances, output=None, with_loss=True) -> tuple[ScoredList, LossOnTrials]:
    torch.manual_seed(0)
    network = build_network(settings)
    objective = Objective(build_loss(network, utterances, settings))
    loss = loss_on_trials(objective, network, settings) if with_loss else None
    scorer = build_list_scorer(network, settings, World(), loss)
    lengths = np.array(LENGTHS)
    scored = score_with_extras(
        scorer, utterances, lengths, settings, World(), StopRequest(), (), output
    )
    return scored, loss


def losses_of_logits(settings, utterances, monkeypatch) -> np.ndarray:
    """The weighted cross-entropies of the logits of all trials, seen where they are computed."""
    seen = {}
    with monkeypatch.context() as patch:
        compute = LossOnTrials.of_trials

        def look(loss, computed, utterances, trials):
            seen.update(zip(trials.tolist(), computed.logits_B2.clone(), strict=True))
            return compute(loss, computed, utterances, trials)

        patch.setattr(LossOnTrials, "of_trials", look)
        work(settings, utterances)
    logits_N2 = torch.stack([seen[trial] for trial in range(len(LENGTHS))])
    labels_N = torch.from_numpy(utterances.labels).long()
    losses_N = F.cross_entropy(logits_N2, labels_N, reduction="none")
    return (losses_N * torch.tensor(WEIGHTS)[labels_N]).numpy()


@pytest.mark.parametrize("loss", ["cross_entropy", "oc_softmax"])
@pytest.mark.parametrize("engine", ["packed", "plain"])
def test_scores_are_those_without_a_loss(utterances, loss, engine):
    settings = make_settings(loss)
    settings.computing.scoring_engine = engine
    with_loss, _ = work(settings, utterances)
    alone, _ = work(settings, utterances, with_loss=False)
    assert with_loss.scores.tobytes() == alone.scores.tobytes()
    assert alone.losses is None and not with_loss.extras
    assert with_loss.losses.shape == (7,) and with_loss.losses.dtype == np.float32
    if loss == "oc_softmax":
        is_bona_fide = utterances.labels == 1
        # A score is a cosine; the margins and alpha are those of the settings.
        faults = np.where(is_bona_fide, 0.9 - alone.scores, alone.scores - 0.2)
        expected = np.logaddexp(0, 20 * faults) * np.array(WEIGHTS)[utterances.labels]
        np.testing.assert_allclose(with_loss.losses, expected, rtol=1e-4)


def test_a_list_that_goes_on_has_the_losses_of_all_its_trials(utterances, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "SAVED_EVERY_S", -1)
    settings = make_settings()
    output = tmp_path / "scores.txt"
    expected = losses_of_logits(settings, utterances, monkeypatch)
    whole, _ = work(settings, utterances)
    np.testing.assert_allclose(whole.losses, expected, rtol=1e-6)
    batches = []
    compute = Scorer.compute

    def fail_later(scorer, waveforms, *wanted):
        batches.append(len(waveforms))
        if len(batches) == 5:
            raise KeyboardInterrupt
        return compute(scorer, waveforms, *wanted)

    monkeypatch.setattr(Scorer, "compute", fail_later)
    with pytest.raises(KeyboardInterrupt):
        work(settings, utterances, output)
    resumed, loss = work(settings, utterances, output)
    assert sum(batches[5:]) + sum(batches[:4]) == len(LENGTHS)
    assert resumed.losses.tobytes() == whole.losses.tobytes()
    assert resumed.scores.tobytes() == whole.scores.tobytes()
    weights = np.array(WEIGHTS)[utterances.labels]
    mean = expected.astype(np.float64).sum() / weights.sum()
    # Written down: another version continues with the parts that this one has saved.
    assert loss.depends_on["class"] == "asdf.training.losses.detection_losses.CrossEntropy"
    assert loss.mean(resumed.losses, utterances.labels) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize(
    ("first", "second"),
    [({}, None), (None, {}), ({}, {"label_smoothing": 0.1})],
    ids=["then without", "then with", "another smoothing"],
)
def test_parts_with_another_loss_are_not_used(
    utterances, tmp_path, monkeypatch, caplog, first, second
):
    caplog.set_level("INFO", "asdf")
    monkeypatch.setattr(parts, "SAVED_EVERY_S", -1)
    output = tmp_path / "scores.txt"
    results = []
    for case in (first, second):
        settings = make_settings(**(case or {}))
        results.append(work(settings, utterances, output, with_loss=case is not None)[0])
    assert "is not used: it is of another loss" in caplog.text
    again, _ = work(settings, utterances, with_loss=second is not None)
    assert results[1].scores.tobytes() == again.scores.tobytes()
    assert (results[1].losses is None) == (second is None)
    if again.losses is not None:
        assert results[1].losses.tobytes() == again.losses.tobytes()


class Drifting(CrossEntropy):
    """Has a mean of what it has seen, as batch norm has."""

    def __init__(self, settings, dimension):
        super().__init__(settings, dimension)
        self.register_buffer("seen", torch.zeros(1))
        self.modes = []

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        self.seen += logits_B2.abs().mean()
        self.modes.append((self.training, torch.is_grad_enabled()))
        return super().per_utterance(embeddings_BE, logits_B2, labels_B, columns) + self.seen


def one_batch() -> tuple[Computed, TrialList]:
    logits_B2 = torch.tensor([[0.5, -1.0], [2.0, 0.25]])
    embeddings_BE = torch.ones(2, 3, dtype=torch.bfloat16)
    utterances = TrialList(["a", "b"], np.array([0, 1], np.int8), columns={}, name="dev")
    return Computed(embeddings_BE, logits_B2, logits_B2[:, 1], {}), utterances


def test_the_loss_is_left_as_it_was():
    settings = make_settings()
    loss = Drifting(settings, 3)
    computed, utterances = one_batch()
    on_trials = LossOnTrials(loss, settings)
    first = on_trials.of_trials(computed, utterances, np.arange(2))
    second = on_trials.of_trials(computed, utterances, np.arange(2))
    assert torch.equal(first, second) and not first.requires_grad
    assert loss.seen.tolist() == [0.0] and loss.training
    assert loss.modes == [(False, False)] * 2


def test_a_list_without_the_columns_has_no_loss(caplog):
    class OfAttacks(CrossEntropy):
        columns = ("attack",)

    settings = make_settings()
    computed, utterances = one_batch()
    on_trials = LossOnTrials(OfAttacks(settings, 0), settings)
    losses = [on_trials.of_trials(computed, utterances, np.arange(2)) for _ in range(2)]
    assert torch.stack(losses).isnan().all()
    assert np.isnan(on_trials.mean(losses[0].numpy(), utterances.labels))
    [record] = caplog.records
    assert "needs the column 'attack', which the list lacks" in record.getMessage()


def test_losses_of_a_whole_step_and_those_that_are_not_trained_are_of_no_trial(utterances):
    for settings, weight in (
        (make_settings("supervised_contrastive"), 1.0),
        (make_settings(), 0.0),
    ):
        network = build_network(settings)
        loss = build_loss(network, utterances, settings)
        assert loss_on_trials(Objective(loss, (), weight), network, settings) is None


def test_the_loss_that_is_a_part_of_the_network_counts(utterances):
    settings = make_settings("oc_softmax")
    network, other = build_network(settings), build_network(settings)
    objective = Objective(build_loss(other, utterances, settings))
    trained = build_loss(network, utterances, settings)
    assert loss_of(network) is trained
    trained.weight_1E.data.fill_(1.0)
    computed, dev = one_batch()
    on_trials = loss_on_trials(objective, network, settings)
    expected = LossOnTrials(trained, settings).of_trials(computed, dev, np.arange(2))
    assert torch.equal(on_trials.of_trials(computed, dev, np.arange(2)), expected)

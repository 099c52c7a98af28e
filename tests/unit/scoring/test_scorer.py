"""One rule for lists, recordings and windows: their length, arithmetic and score."""

import numpy as np
import pytest
import torch
from torch import nn

from asdf.audio import read_audio
from asdf.distributed.world import World
from asdf.scoring.computing import ScoringPrecision, choose_scoring_precision
from asdf.scoring.score_list import build_list_scorer
from asdf.scoring.scorer import Scorer
from asdf.settings.sections import Network, Sections
from asdf.trials.how_scored import HowScored, ScoredLength
from tests.recordings import noise_waveforms, write_recordings
from tests.unit.conftest import list_scores

CPU = torch.device("cpu")
FULL = ScoringPrecision("fp32", CPU)


class Means(nn.Module):
    """Logits are the mean, and ten times the mean; notes the mode and the shapes of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor([[1.0, 10.0]]))
        self.modes, self.shapes = [], []

    def forward(self, waveforms_BT):
        self.modes.append(self.training)
        self.shapes.append(tuple(waveforms_BT.shape))
        means_B1 = waveforms_BT.mean(dim=1, keepdim=True)
        return means_B1, torch.matmul(means_B1, self.scale)


class FixedMeans(Means):
    fixed_samples = 5000


class Broken(Means):
    def forward(self, waveforms_BT):
        raise RuntimeError("broken")


def rules(**changes) -> Network:
    changes["min_evaluation_utterance_length_in_samples"] = 800
    return Network(max_evaluation_utterance_length_in_samples=90_000, **changes)


@pytest.mark.parametrize(
    ("network", "length"),
    [(Means(), ScoredLength(800, 90_000)), (FixedMeans(), ScoredLength(5000, 5000))],
)
def test_how_scored_is_what_the_network_heard(network, length, bfloat16):
    settings = Sections()
    settings.network = rules()
    settings.computing.scoring_precision = "bf16"
    scorer = build_list_scorer(network, settings, World())
    assert scorer.how_scored == HowScored(length, "bf16")
    scorer.score_waveforms([np.ones(100, np.float32), np.ones(200_000, np.float32)])
    assert {samples for _, samples in network.shapes} == {length.min_samples, length.max_samples}


@pytest.mark.usefixtures("bfloat16")
def test_the_precision_that_was_agreed_on_is_the_one_that_is_computed_in():
    bf16 = choose_scoring_precision("bf16", CPU)
    waveforms_BT = torch.full((2, 800), 1 / 3)
    full = Scorer(Means(), rules(), FULL).compute(waveforms_BT).scores_B
    short = Scorer(Means(), rules(), bf16).compute(waveforms_BT).scores_B
    assert full.dtype == short.dtype == torch.float32
    assert full.tolist() == pytest.approx([10 / 3] * 2, abs=1e-6)
    assert 1e-4 < (full - short).abs().max() < 0.05


def test_a_score_is_the_bona_fide_logit_or_the_difference():
    waveforms_BT = torch.ones(3, 800)
    assert Scorer(Means(), rules(), FULL).compute(waveforms_BT).scores_B.tolist() == [10.0] * 3
    difference = Scorer(Means(), rules(score="difference"), FULL)
    assert difference.compute(waveforms_BT).scores_B.tolist() == [9.0] * 3


def test_scores_carry_no_gradients_and_leave_the_mode_as_it_was():
    network = Means().train()
    scores = Scorer(network, rules(), FULL).compute(torch.ones(1, 800)).scores_B
    assert not scores.requires_grad
    assert network.modes == [False] and network.training
    broken = Broken().train()
    with pytest.raises(RuntimeError, match="broken"):
        Scorer(broken, rules(), FULL).compute(torch.ones(1, 800))
    assert broken.training


def test_waveforms_of_any_lengths_get_their_own_scores():
    network = Means()
    scorer = Scorer(network, rules(minibatch_size=1, train_clip_size=2000), FULL)
    waveforms = [np.full(size, size, np.float32) for size in (1000, 500, 1000, 3000, 1000)]
    scores = scorer.score_waveforms(waveforms).scores
    assert scores.dtype == np.float32
    assert scores.tolist() == pytest.approx([10 * len(waveform) for waveform in waveforms])
    assert network.shapes == [(1, 3000), (3, 1000), (1, 800)]
    assert scorer.score_waveforms([]).scores.shape == (0,)


LENGTHS = np.array([6000, 2500, 5000, 4001, 9000, 700])


class Fixed(nn.Module):
    """Its linear layer takes 5000 samples and nothing else."""

    fixed_samples = 5000

    def __init__(self):
        super().__init__()
        self.output, self.batches = nn.Linear(5000, 2), []

    def forward(self, waveforms_BT):
        self.batches.append(tuple(waveforms_BT.shape))
        return waveforms_BT, self.output(waveforms_BT)


@pytest.mark.parametrize("cut", [0.0, 0.3])
def test_recordings_are_cut_or_repeated(tmp_path, cut):
    utterances = write_recordings(tmp_path, noise_waveforms(LENGTHS))
    settings = Sections()
    settings.computing.network_dataloader_workers = 0
    settings.network.minibatch_size, settings.network.train_clip_size = 2, 5000
    settings.network.max_cut_proportion = cut
    torch.manual_seed(0)
    network = Fixed()
    scores = list_scores(network, utterances, LENGTHS, settings)
    assert network.batches == [(4, 5000), (2, 5000)]
    for index in range(len(LENGTHS)):
        heard = np.resize(read_audio(utterances.path(index)), max(LENGTHS[index], 5000))
        waveform = torch.from_numpy(heard[:5000])
        with torch.no_grad():
            expected = float(network.output(waveform)[1])
        assert scores[index] == pytest.approx(expected, abs=1e-5)

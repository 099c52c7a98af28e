"""RawNet2: equal to the challenge's baseline, at any length."""

from __future__ import annotations

import pytest
import torch

from asdf.networks import RawNet2, build_network, scoring_length
from asdf.settings.sections import Sections
from tests.unit.networks.inspection import count_parameters, loss_of_training
from tests.unit.networks.official import load_drawn, official_case


@pytest.fixture
def narrow() -> Sections:
    """The sizes of the case that the official code computed."""
    settings = Sections()
    settings.network.network_class = "asdf.networks.RawNet2"
    settings.back_end.rawnet2_filters = 4
    settings.back_end.rawnet2_taps = 32
    settings.back_end.rawnet2_channels = 6
    settings.back_end.rawnet2_recurrent = 7
    settings.back_end.rawnet2_layers = 2
    settings.back_end.rawnet2_embedding = 5
    return settings


def test_it_scores_as_the_official_code(narrow):
    case = official_case("rawnet2")
    network = RawNet2(narrow).eval()
    load_drawn(network, case.state)
    with torch.no_grad():
        embeddings, logits = network(case.inputs)
    assert embeddings.shape == (2, 5)
    torch.testing.assert_close(logits, case.outputs["log_probabilities"], atol=1e-5, rtol=0)


def test_the_larger_size_is_the_papers():
    settings = Sections()
    with torch.device("meta"):
        settings.back_end.rawnet2_filters = 128
        settings.back_end.rawnet2_channels = 512
        assert count_parameters(RawNet2(settings)) == 25_433_602


def test_a_score_is_of_whole_windows_and_of_its_utterance_alone(narrow, waveforms):
    torch.manual_seed(0)
    network = RawNet2(narrow).eval()
    assert network.shortest_input == 3 * 729 + 32
    assert scoring_length(network, 8000) == 8000
    assert scoring_length(network, 7999) == 7997
    assert scoring_length(network, 2000) == 2000
    with torch.no_grad():
        _, together_B2 = network(waveforms[:, :7999])
        _, cut_12 = network(waveforms[1:, :7997])
        short_BT = waveforms[:, :1000]
        repeated_BT = short_BT.repeat(1, 3)[:, : network.shortest_input]
        assert torch.equal(network(short_BT)[1], network(repeated_BT)[1])
    torch.testing.assert_close(cut_12, together_B2[1:], atol=1e-6, rtol=0)


@pytest.mark.slow
def test_it_learns(narrow):
    torch.manual_seed(0)
    network = build_network(narrow).train()
    assert loss_of_training(network, level=0.1, rate=1e-2, steps=30) < 0.3

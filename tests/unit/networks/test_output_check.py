"""A network with outputs that training and scoring cannot take is refused, without a trace."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from asdf.errors import AsdfError
from asdf.networks.build import build_network
from asdf.networks.interface import Outputs
from asdf.networks.output_check import check_outputs
from asdf.settings.sections import Network, Sections
from tests.unit.networks.inspection import copy_state, names_with_gradient

SETTINGS = Network(network_class="mine.Net", train_clip_size=800)
CPU = torch.device("cpu")


class Net(nn.Module):
    """A right network, whose outputs `change(embeddings, logits)` changes."""

    def __init__(self, change=None):
        super().__init__()
        torch.manual_seed(3)
        self.hidden = nn.Linear(8, 6)
        self.norm = nn.BatchNorm1d(6)
        self.output = nn.Linear(6, 2)
        self.change = change

    def forward(self, waveforms_BT):
        frames_BTC = waveforms_BT.unflatten(1, (-1, 8))
        embeddings_BE = self.norm(torch.relu(self.hidden(frames_BTC)).mean(1))
        logits_B2 = self.output(embeddings_BE)
        if self.change is None:
            return embeddings_BE, logits_B2
        return self.change(embeddings_BE, logits_B2)


def refusal(network: nn.Module, settings: Network = SETTINGS) -> str:
    with pytest.raises(AsdfError) as caught:
        check_outputs(network, settings, CPU)
    text = str(caught.value)
    assert text.startswith("network.network_class: mine.Net ")
    assert "logits (batch, 2), column 1 for bona fide" in text and "before the first step" in text
    return text.removeprefix("network.network_class: mine.Net ").partition(". Its forward")[0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda _, logits: logits, "gives a tensor (2, 2) instead of two tensors for 2 utterances"),
        (lambda e, logits: (e, logits, e), "gives a tuple of 3 instead of two tensors"),
        (
            lambda e, logits: {"logits": logits},
            "gives a value of the type dict instead of two tensors",
        ),
        (
            lambda e, logits: (e, logits[:, :1]),
            "gives a tensor (2, 1) as the logits of 2 utterances",
        ),
        (lambda e, logits: (e, logits[:, 1]), "gives a tensor (2) as the logits of 2 utterances"),
        (lambda e, logits: (logits, e), "gives a tensor (2, 6) as the logits of 2 utterances"),
        (lambda e, logits: (e, logits[:1]), "gives a tensor (1, 2) as the logits of 2 utterances"),
        (
            lambda e, logits: (e[:1], logits),
            "gives a tensor (1, 6) as the embeddings of 2 utterances",
        ),
        (lambda e, logits: (e, None), "gives a value of the type NoneType as the logits"),
        # What squeeze() does to a batch of one utterance, such as the last batch of a list.
        (
            lambda e, logits: (e, logits.squeeze()),
            "gives a tensor (2) as the logits of 1 utterance",
        ),
        (
            lambda e, logits: (e, logits * torch.nan),
            "gives the logits (nan, nan), which are not all finite numbers",
        ),
        (lambda e, logits: (e, logits / 0), "inf"),
        (lambda e, logits: (e, logits[:, 2]), "fails on 2 utterances of 800 samples: IndexError: "),
    ],
)
def test_wrong_outputs_are_said_in_a_sentence(change, said):
    assert said in refusal(Net(change))


@pytest.mark.parametrize(
    ("hop", "frames", "said"),
    [
        (None, 5, "gives frame logits but has no attribute frame_hop"),
        (160, 6, "gives logits of 6 frames for 800 samples, but its frame_hop = 160 means 5"),
        (160, 2, "gives logits of 2 frames for 800 samples, but its frame_hop = 160 means 5"),
    ],
)
def test_frames_of_another_length_are_said_in_a_sentence(hop, frames, said):
    network = Net(lambda e, logits: Outputs(e, logits, torch.zeros(len(e), frames, 2)))
    network.frame_hop = hop
    assert said in refusal(network)


def test_a_head_that_gives_no_frames_is_refused():
    network = Net(lambda e, logits: (e, logits))
    network.frame_hop = 160
    assert "gives logits of 0 frames for 800 samples" in refusal(network)


@pytest.mark.parametrize(
    "change",
    [
        lambda e, logits: (e, logits - logits.mean(0)),
        lambda e, logits: (e, logits.softmax(0)),
        lambda e, logits: (e, logits.cumsum(0).flip(0)),
    ],
)
def test_rows_that_depend_on_the_others_are_refused(change):
    said = refusal(Net(change))
    assert said.startswith("gives an utterance the logits (")
    assert "a row must not depend on the other rows, or a score would depend on its batch" in said


def test_a_batch_norm_that_stays_in_training_is_refused():
    """Not a submodule, so `eval()` does not reach it."""
    norm = nn.BatchNorm1d(2)
    over_utterances = Net(lambda embeddings, logits: (embeddings, norm(logits)))
    said = refusal(over_utterances)
    assert said.startswith("fails on 1 utterance of 800 samples: ValueError: Expected more than 1")

    def norm_over_frames(embeddings, logits_B2):
        frames_B25 = logits_B2.unsqueeze(2).expand(-1, -1, 5)
        return embeddings, norm(frames_B25)[:, :, 0]

    over_frames = Net(norm_over_frames)
    assert "a row must not depend on the other rows" in refusal(over_frames)


def test_right_outputs_pass_and_leave_no_trace():
    class Counting(Net):
        def __init__(self):
            super().__init__(self.draw)
            self.register_buffer("calls", torch.zeros(()))
            self.register_buffer("last", torch.zeros(6))

        def draw(self, embeddings, logits):
            self.calls += 1
            self.last = embeddings[0]
            torch.rand(3), np.random.rand(3), random.random()
            return embeddings, logits

    network = Counting()
    network.hidden.eval()  # as a frozen part of a network in training
    for source in (torch.manual_seed, np.random.seed, random.seed):
        source(5)
    expected = (torch.rand(1), np.random.rand(), random.random())
    for source in (torch.manual_seed, np.random.seed, random.seed):
        source(5)
    before = copy_state(network)
    buffers = dict(network.named_buffers())
    check_outputs(network, SETTINGS, CPU)
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)
    for name, buffer in network.named_buffers():
        assert buffer is buffers[name], name
    assert (torch.rand(1), np.random.rand(), random.random()) == expected
    assert network.training and network.norm.training and not network.hidden.training
    assert names_with_gradient(network) == []


@pytest.mark.parametrize(
    ("name", "samples"),
    [
        ("AASIST", 64600),
        ("AASIST_L", 64600),
        ("SSL_AASIST", 16000),
        ("SSL_AASIST_L", 16000),
        ("SSL_ASP", 400),
        ("SSL_MHFA", 16000),
        ("SSL_Nes2NetX", 16000),
        ("SSL_SLS", 64600),
        ("SSL_Linear", 400),
        ("SSL_Conformer", 16000),
        ("SSL_ConformerTCM", 16000),
        ("SSL_LCNN", 16000),
        ("SSL_ResNet18", 16000),
        ("SSL_ECAPA", 16000),
        ("RawNet2", 16000),
    ],
)
def test_the_projects_own_pass(name, samples):
    settings = Sections()
    settings.front_end.architecture = "tiny"
    settings.network = replace(
        settings.network, network_class=f"asdf.networks.{name}", train_clip_size=samples
    )
    torch.manual_seed(0)
    network = build_network(settings)
    before = copy_state(network)
    check_outputs(network, settings.network, CPU)
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)

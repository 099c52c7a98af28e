"""Outputs of networks: the pair to whoever takes them for it; wrong ones are refused, untraced."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.parallel import distributed
from torch.utils import _pytree

from asdf.errors import AsdfError, UsageError
from asdf.networks.attached import TRAINED_LOSS, Attached, attach, completed
from asdf.networks.interface import Outputs, as_outputs
from asdf.networks.output_check import check_outputs
from asdf.settings.sections import Network, Sections
from asdf.training.losses import OCSoftmax
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


EMBEDDINGS = torch.arange(12.0).reshape(4, 3)
LOGITS = torch.arange(8.0).reshape(4, 2)
FRAMES = torch.arange(40.0).reshape(4, 5, 2)
CLASSES = torch.arange(28.0).reshape(4, 7)
WHOLE = Outputs(EMBEDDINGS, LOGITS, {"frames": FRAMES, "sources": CLASSES})


def test_outputs_are_the_pair() -> None:
    embeddings, logits = WHOLE
    assert embeddings is EMBEDDINGS and logits is LOGITS
    assert WHOLE[0] is EMBEDDINGS and WHOLE[1] is LOGITS and WHOLE[-1] is LOGITS
    assert len(WHOLE) == 2 and as_outputs(WHOLE) is WHOLE
    pair = as_outputs((EMBEDDINGS, LOGITS))
    assert pair.logits_B2 is LOGITS and not pair.extras
    with pytest.raises(IndexError):
        WHOLE[2]


def test_the_first_utterances_have_all_that_was_computed_of_them() -> None:
    first = WHOLE.first(2)
    assert torch.equal(first.extras["sources"], CLASSES[:2])
    assert torch.equal(first.extras["frames"], FRAMES[:2])
    assert not as_outputs((EMBEDDINGS, LOGITS)).first(1).extras


def test_torch_sees_every_tensor() -> None:
    # Exports look for tensors in the one way, DistributedDataParallel in the other.
    tensors, layout = _pytree.tree_flatten(WHOLE)
    assert [tensor.shape[-1] for tensor in tensors] == [3, 2, 2, 7]
    again = _pytree.tree_unflatten(tensors, layout)
    assert isinstance(again, Outputs) and again.extras["sources"] is CLASSES
    assert {id(part) for part in distributed._find_tensors(WHOLE)} == {id(part) for part in tensors}


class Doubling(Attached):
    """Twice the embeddings as logits of classes."""

    def complete(self, outputs):
        embeddings, logits = outputs
        return Outputs(embeddings, logits, {"sources": 2 * embeddings})


def test_parts_complete_the_outputs_in_their_order_whatever_was_attached_first() -> None:
    waveforms = torch.randn(3, 16)
    plain = Net().eval()
    network = Net().eval()
    attach(network, "class_head", Doubling(), "a head")
    loss = OCSoftmax(Sections(), 6)
    attach(network, TRAINED_LOSS, loss, "a loss")
    embeddings, logits = plain(waveforms)
    for computed in (network, copy.deepcopy(network)):
        outputs = computed(waveforms)
        assert torch.equal(outputs.extras["sources"], 2 * embeddings)
        assert torch.equal(outputs.logits_B2, loss.logits(embeddings, logits))
    assert torch.equal(completed(network, (embeddings, logits)).logits_B2, outputs.logits_B2)
    with pytest.raises(UsageError, match="already has an attribute 'class_head'"):
        attach(network, "class_head", Doubling(), "a head")


def test_more_outputs_are_checked_as_well() -> None:
    right = Net(
        lambda e, logits: Outputs(e, logits, {"frames": torch.zeros(len(e), 5, 2), "sources": e})
    )
    right.frame_hop = 160
    check_outputs(right, SETTINGS, CPU)
    frames = refusal(Net(lambda e, logits: Outputs(e, logits, torch.zeros(len(e), 2))))
    assert "gives a tensor (2, 2) as the logits of the frames of 2 utterances" in frames
    classes = refusal(Net(lambda e, logits: Outputs(e, logits, {"sources": e[:1]})))
    assert "gives a tensor (1, 6) as the sources of 2 utterances" in classes


def test_a_compiled_network_may_return_them() -> None:
    network = Net(lambda e, logits: Outputs(e, logits, {"sources": 3 * e})).eval()
    compiled = torch.compile(network.forward, backend="eager", fullgraph=True)
    outputs = compiled(torch.ones(2, 16))
    assert isinstance(outputs, Outputs)
    torch.testing.assert_close(outputs.extras["sources"], 3 * outputs.embeddings)

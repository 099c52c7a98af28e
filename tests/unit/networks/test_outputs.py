"""Outputs are the pair to whoever takes them for it, and all of their tensors are seen."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import distributed
from torch.utils import _pytree

from asdf.errors import AsdfError, UsageError
from asdf.networks.attached import TRAINED_LOSS, Attached, attach, completed
from asdf.networks.interface import Outputs, as_outputs
from asdf.networks.output_check import check_outputs
from asdf.settings.sections import Network, Sections
from asdf.training.losses import OCSoftmax

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


class Net(nn.Module):
    """A network that returns what `change` makes of its pair."""

    def __init__(self, change=None) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.hidden = nn.Linear(8, 6)
        self.output = nn.Linear(6, 2)
        self.change = change

    def forward(self, waveforms_BT: Tensor):
        embeddings_BE = self.hidden(waveforms_BT.unflatten(1, (-1, 8))).tanh().mean(1)
        pair = (embeddings_BE, self.output(embeddings_BE))
        return pair if self.change is None else self.change(*pair)


class Doubling(Attached):
    """Twice the embeddings as logits of classes."""

    def complete(self, outputs):
        embeddings, logits = outputs
        return Outputs(embeddings, logits, {"sources": 2 * embeddings})


def test_parts_complete_the_outputs_in_their_order_whatever_was_attached_first() -> None:
    waveforms = torch.randn(3, 16)
    plain = Net()
    network = Net()
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


def refusal(change) -> str:
    settings = Network(network_class="mine.Net", train_clip_size=800)
    with pytest.raises(AsdfError) as caught:
        check_outputs(Net(change), settings, torch.device("cpu"))
    return str(caught.value)


def test_more_outputs_are_checked_as_well() -> None:
    settings = Network(network_class="mine.Net", train_clip_size=800)
    right = Net(
        lambda e, logits: Outputs(e, logits, {"frames": torch.zeros(len(e), 5, 2), "sources": e})
    )
    right.frame_hop = 160
    check_outputs(right, settings, torch.device("cpu"))
    frames = refusal(lambda e, logits: Outputs(e, logits, torch.zeros(len(e), 2)))
    assert "gives a tensor (2, 2) as the logits of the frames of 2 utterances" in frames
    classes = refusal(lambda e, logits: Outputs(e, logits, {"sources": e[:1]}))
    assert "gives a tensor (1, 6) as the sources of 2 utterances" in classes
    assert "gives a tensor (2, 3) as the logits" in refusal(lambda e, _: Outputs(e, e[:, :3]))


def test_a_compiled_network_may_return_them() -> None:
    network = Net(lambda e, logits: Outputs(e, logits, {"sources": 3 * e}))
    compiled = torch.compile(network.forward, backend="eager", fullgraph=True)
    outputs = compiled(torch.ones(2, 16))
    assert isinstance(outputs, Outputs)
    torch.testing.assert_close(outputs.extras["sources"], 3 * outputs.embeddings)

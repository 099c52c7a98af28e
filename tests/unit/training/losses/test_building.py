"""A loss is built for its network, checked on noise, and becomes a part of it where it must."""

import sys

import numpy as np
import pytest
import torch

from asdf.errors import AsdfError
from asdf.networks import build_network
from asdf.networks.split import FromFeatures
from asdf.settings.sections import Sections
from asdf.training.losses import OCSoftmax
from asdf.training.losses.loss_building import build_loss
from asdf.trials.trial_list import TrialList
from tests.small_networks import Normed, Plain
from tests.unit.conftest import network_settings

LIST = TrialList(["a.wav", "b.wav"], np.array([0, 1]), columns={"attack": ["A01", "-"]})
OWN = """
import torch
from asdf.training.losses import Loss


class Centre(Loss):
    columns = ("attack",)

    def __init__(self, settings, dimension):
        super().__init__(settings, dimension)
        self.centre_E = torch.nn.Parameter(torch.zeros(dimension))

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        assert len(columns["attack"]) == len(labels_B)
        return (embeddings_BE - self.centre_E).norm(dim=1)


class Speaker(Centre):
    columns = ("speaker",)


class Mean(Centre):
    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return embeddings_BE.mean()


class Broken(Centre):
    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return logits_B2[:, 0] / 0


class Raising(Centre):
    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return embeddings_BE @ self.centre_E[:1]


class Wide(Centre):
    def logits(self, embeddings_BE, logits_B2):
        return embeddings_BE


class Constant(Centre):
    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return torch.ones(len(labels_B))


class Detached(Centre):
    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return (embeddings_BE.detach() - self.centre_E).norm(dim=1)


class OfLogits(Loss):
    needs_embeddings = False

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return logits_B2.mean()


class NoDimension(Centre):
    def __init__(self, settings):
        super().__init__(settings, 3)


class Lacking(Loss):
    pass


class Other(torch.nn.Module):
    pass
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own_loss.py").write_text(OWN)
    yield tmp_path
    # The next test has another file of that name.
    sys.modules.pop("own_loss", None)


def settings_of(loss: str, **values) -> Sections:
    return network_settings(loss=loss, train_clip_size=4000, **values)


def test_a_cosine_loss_is_a_part_of_the_network_whose_logits_it_gives() -> None:
    network = Normed(settings_of("oc_softmax"))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    torch.manual_seed(5)
    draws = torch.get_rng_state()
    loss = build_loss(network, LIST, settings_of("oc_softmax"))
    assert isinstance(loss, OCSoftmax) and torch.equal(torch.get_rng_state(), draws)
    assert loss.dimension == 48 and network.training
    state = network.state_dict()
    assert set(state) - set(before) == {"trained_loss.weight_1E"}
    assert all(torch.equal(state[name], value) for name, value in before.items())
    embeddings, logits = network.eval()(torch.randn(3, 4000))
    cosines = torch.cosine_similarity(embeddings, loss.weight_1E)
    torch.testing.assert_close(logits[:, 1], cosines)
    # The last layer of the network has no part in the loss.
    frozen = [name for name, value in network.named_parameters() if not value.requires_grad]
    assert frozen == ["output.weight", "output.bias"]


def test_training_on_cached_features_gives_the_cosines(tiny, waveforms) -> None:
    tiny.network.network_class = "asdf.networks.SSL_ASP"
    tiny.network.loss = "am_softmax"
    tiny.front_end.frozen = True
    network = build_network(tiny).eval()
    loss = build_loss(network, LIST, tiny)
    with torch.no_grad():
        features = network.front_end_features(waveforms)
        embeddings, logits = FromFeatures(network)(features)
        expected = network(waveforms)[1]
    assert torch.equal(logits, expected)
    assert torch.equal(logits, loss.logits(embeddings, torch.zeros(len(waveforms), 2)))


def test_the_vectors_follow_from_the_seed_alone() -> None:
    weights = []
    for seed, drawn in ((0, 0), (0, 9), (1, 0)):
        settings = settings_of("am_softmax")
        settings.recipe.seed = seed
        torch.manual_seed(drawn)
        weights.append(build_loss(Plain(settings), LIST, settings).weight_2E)
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_cross_entropy_leaves_the_network_as_it_is() -> None:
    network = Plain(settings_of("cross_entropy"))
    names = list(network.state_dict())
    build_loss(network, LIST, settings_of("cross_entropy"))
    assert list(network.state_dict()) == names
    assert all(parameter.requires_grad for parameter in network.parameters())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Mean", "gives a tensor () as per_utterance of 2 utterances, not (2,)"),
        ("Broken", "as per_utterance, which are not all finite"),
        ("Raising", "fails: RuntimeError"),
        ("Wide", "gives a tensor (2, 48) as logits of 2 utterances, not (2, 2)"),
        ("Constant", "depends on nothing that is trained"),
        ("Detached", "does not depend on the network: no gradient reaches it"),
        ("OfLogits", "gives a tensor () as per_utterance of 2 utterances, not (2,)"),
        ("NoDimension", "NoDimension(settings, 48) failed: TypeError"),
        ("Lacking", "own_loss.Lacking does not implement per_utterance, which Loss requires"),
        ("Other", "is not a class derived from asdf.training.losses.Loss, which"),
        ("Centr", "Did you mean 'Centre'?"),
        ("Speaker", "needs the column 'speaker' of the training list, which has attack"),
    ],
)
def test_what_is_wrong_with_an_own_loss_is_in_one_message(folder, name, said) -> None:
    settings = settings_of(f"own_loss.{name}")
    with pytest.raises(AsdfError) as caught:
        build_loss(Plain(settings), LIST, settings, folder)
    assert said in str(caught.value) and str(caught.value).startswith("network.loss")


def test_an_own_loss_without_logits_trains_what_it_depends_on(folder) -> None:
    settings = settings_of("own_loss.Centre")
    network = Plain(settings)
    build_loss(network, LIST, settings, folder)
    trained = [name for name, value in network.named_parameters() if value.requires_grad]
    assert trained == ["convolution.weight", "convolution.bias", "trained_loss.centre_E"]

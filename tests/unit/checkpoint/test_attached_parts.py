"""A network file brings back the loss that gives the scores, and asks for no other."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import asdf
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import (
    fill_network,
    read_network_file,
    write_hub_folder,
    write_safetensors_network,
)
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.recognition import recognise
from asdf.interchange import command as export_network
from asdf.interchange import read_network, write_onnx, write_torchscript
from asdf.networks import build_network
from asdf.training.losses.loss_building import build_loss
from asdf.trials.trial_list import TrialList
from tests.unit.conftest import small_settings

LIST = TrialList(list("abcd"), np.array([0, 1, 0, 0]))
OWN = """
import torch
from asdf.training.losses import Loss


class Centre(Loss):
    def __init__(self, settings, dimension):
        super().__init__(settings, dimension)
        self.centre_E = torch.nn.Parameter(torch.ones(dimension))

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        return (embeddings_BE - self.centre_E).norm(dim=1)


class Scoring(Centre):
    def logits(self, embeddings_BE, logits_B2):
        distances_B = (embeddings_BE - self.centre_E).norm(dim=1)
        return torch.stack([distances_B, -distances_B], dim=1)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own_centre.py").write_text(OWN)
    yield tmp_path
    # The next test has another file of that name.
    sys.modules.pop("own_centre", None)


def make(loss, folder=None, **values):
    settings = small_settings(loss=loss, train_clip_size=4000, **values)
    torch.manual_seed(0)
    network = build_network(settings)
    build_loss(network, LIST, settings, folder).begin_training(torch.from_numpy(LIST.labels))
    return network.eval(), settings


def saved(path, loss, folder=None, **values):
    """Write the file of such a network; return the network."""
    network, settings = make(loss, folder, **values)
    write_network_file(path, NetworkFile.from_network(network, settings))
    return network


def outputs(network):
    waveforms = 0.1 * torch.randn(3, 4000, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        return network(waveforms)


@pytest.mark.slow_but("oc_softmax")
@pytest.mark.parametrize("loss", ["oc_softmax", "am_softmax", "aam_softmax", "p2sgrad"])
def test_every_layout_gives_the_cosines(tmp_path, loss) -> None:
    network, settings = make(loss)
    file = NetworkFile.from_network(network, settings)
    write_network_file(tmp_path / "net.pt", file)
    write_safetensors_network(tmp_path / "net.safetensors", file)
    write_hub_folder(tmp_path / "hub", file, "card")
    expected = outputs(network)
    for path in ("net.pt", "net.safetensors", "hub"):
        read, _ = read_network(tmp_path / path)
        assert torch.equal(outputs(read)[1], expected[1]), path
    measured = replace(file, calibration={"slope": 1.0}, evaluation={"eer": 0.1}, progress={})
    averaged = measured.with_weights(file.state, ["net.pt"])
    # What was learned and measured is of the other weights.
    assert averaged == replace(file, averaged=["net.pt"])
    write_network_file(tmp_path / "average.pt", averaged)
    assert torch.equal(outputs(read_network(tmp_path / "average.pt")[0])[1], expected[1])


def test_graphs_give_the_cosines(tmp_path) -> None:
    network, _ = make("am_softmax")
    # What is written has been compared with the network, whose logits are the cosines.
    assert "differs" in write_torchscript(network, tmp_path / "net.torchscript", 4000)
    assert "differs" in write_onnx(network, tmp_path / "net.onnx", 4000)
    waveforms = 0.1 * torch.randn(3, 4000)
    with torch.no_grad():
        embeddings, logits = torch.jit.load(tmp_path / "net.torchscript")(waveforms)
    weight = network.trained_loss.weight_2E
    cosines = torch.cosine_similarity(embeddings[:, None], weight[None], dim=2)
    torch.testing.assert_close(logits, cosines)


def test_the_detector_scores_by_the_cosine_of_the_loss(tmp_path) -> None:
    network = saved(tmp_path / "net.pt", "oc_softmax")
    waveform = (0.1 * torch.randn(5000)).numpy()
    with torch.no_grad():
        embedding, _ = network(torch.from_numpy(waveform)[None])
        cosine = torch.cosine_similarity(embedding, network.trained_loss.weight_1E)
    score = asdf.Detector(tmp_path / "net.pt").score_trial(waveform, 16000)
    assert score == pytest.approx(float(cosine), abs=1e-6)


def test_the_detector_gives_likelihood_ratios(tmp_path) -> None:
    saved(tmp_path / "net.pt", "cross_entropy", score="llr", class_weights=(0.2, 0.8))
    waveform = (0.1 * torch.randn(5000)).numpy()
    # Neither the priors nor a loss: the network alone.
    plain, _ = make("cross_entropy")
    with torch.no_grad():
        logits = plain(torch.from_numpy(waveform)[None])[1][0]
    # One bona fide utterance of weight 0.8 and three spoofs of weight 0.2.
    expected = float(logits[1] - logits[0]) - np.log(0.8 / 0.6)
    score = asdf.Detector(tmp_path / "net.pt").score_trial(waveform, 16000)
    assert score == pytest.approx(expected, abs=1e-5)


def test_likelihood_ratios_of_a_network_without_priors_are_refused(tmp_path) -> None:
    network, settings = make("cross_entropy")
    settings.network.score = "llr"
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    with pytest.raises(UsageError, match="was not trained for likelihood ratios"):
        asdf.Detector(tmp_path / "net.pt")


def test_files_of_cross_entropy_have_the_keys_that_they_had() -> None:
    network, settings = make("cross_entropy")
    content = NetworkFile.from_network(network, settings).content()
    assert "loss" not in content
    assert not [name for name in content["model_state_dict"] if "loss" in name]


def test_an_own_loss_that_scores_needs_its_folder(tmp_path, folder) -> None:
    network = saved(tmp_path / "net.pt", "own_centre.Scoring", folder)
    with pytest.raises(AsdfError, match=r"own_centre\.Scoring"):
        read_network(tmp_path / "net.pt")
    read, _ = read_network(tmp_path / "net.pt", tmp_path)
    assert torch.equal(outputs(read)[1], outputs(network)[1])


def test_an_own_loss_that_does_not_score_is_left_in_the_file(tmp_path, folder) -> None:
    network = saved(tmp_path / "net.pt", "own_centre.Centre", folder)
    read, file = read_network(tmp_path / "net.pt")
    assert "trained_loss.centre_E" in file.state
    assert "trained_loss.centre_E" not in read.state_dict()
    assert torch.equal(outputs(read)[1], outputs(network)[1])


@pytest.mark.parametrize(
    "entry",
    [
        3,
        {"class": "asdf.training.losses.AMSoftmax", "dimension": 10**12, "gives_logits": True},
        {"class": "asdf.training.losses.AMSoftmax", "dimension": 99_999, "gives_logits": True},
        {"class": "asdf.training.losses.AMSoftmax", "dimension": True, "gives_logits": True},
        {"class": "asdf.training.losses.Loss", "dimension": 160, "gives_logits": True},
        {"class": "asdf.training.losses.None", "dimension": 160, "gives_logits": True},
        {"class": "os.path.Path", "dimension": 160, "gives_logits": True},
    ],
)
def test_a_damaged_entry_is_refused(tmp_path, entry) -> None:
    network, settings = make("am_softmax")
    file = NetworkFile.from_network(network, settings)
    file.loss = entry
    write_network_file(tmp_path / "net.pt", file)
    with pytest.raises(AsdfError):
        read_network(tmp_path / "net.pt")


def test_training_goes_on_with_the_loss_that_it_had_only(tmp_path) -> None:
    path = tmp_path / "net.pt"
    network = saved(path, "am_softmax")
    for loss in ("oc_softmax", "cross_entropy"):
        other, _ = make(loss)
        before = {name: value.clone() for name, value in other.state_dict().items()}
        with pytest.raises(AsdfError, match=r"was trained with the loss asdf.training.losses.AM"):
            fill_network(other, read_network_file(path))
        torch.testing.assert_close(other.state_dict(), before, rtol=0, atol=0)
    same, _ = make("am_softmax")
    fill_network(same, read_network_file(path))
    torch.testing.assert_close(same.state_dict(), network.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("layout", ["aasist", "ssl_anti_spoofing", "rawnet2"])
def test_published_layouts_have_no_layer_for_a_loss(tmp_path, layout) -> None:
    saved(tmp_path / "net.pt", "cross_entropy", score="llr")
    words = [str(tmp_path / "net.pt"), "--format", layout, str(tmp_path / "out.pth")]
    with pytest.raises(UsageError, match="was trained with LikelihoodRatio, whose layers compute"):
        export_network.main(words)
    assert not (tmp_path / "out.pth").exists()


def test_import_refers_to_export(tmp_path) -> None:
    saved(tmp_path / "net.pt", "oc_softmax")
    with pytest.raises(AsdfError, match="needs no import"):
        recognise(tmp_path / "net.pt", {})

"""wav2vec 2.0 + AASIST: equal to the published networks; what learns, what a score depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.interchange import build_pretrained
from asdf.networks import SSL_AASIST, build_network, front_end_parameters, scoring_length
from asdf.networks.front_ends.architectures import KNOWN
from tests.unit.networks.inspection import ids, loss_of_training, names_with_gradient

LAYER_NORM = replace(KNOWN["tiny"], extractor_mode="layer_norm", conv_bias=True).to_text()


def test_published_layout_scores_as_the_published_code_does(tiny, reference, recorded, tmp_path):
    state = torch.load(reference("ssl_aasist.pth"), weights_only=True, map_location="cpu")
    renamed = {f"module.{name}": tensor for name, tensor in state.items()}
    torch.save(renamed, tmp_path / "published.pth")
    tiny.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    network = build_pretrained(tiny)
    left_out = load_detector_weights(network, tmp_path / "published.pth")
    modules = {name.split(".")[2] for name in left_out}
    assert modules == {"mask_emb", "quantizer", "project_q", "final_proj"}
    expected = recorded("ssl_aasist.npz")
    with torch.no_grad():
        embeddings, logits = network.eval()(expected["waveforms"])
    assert embeddings.shape == (2, 160)
    torch.testing.assert_close(logits, expected["logits"], atol=1e-5, rtol=0)


def test_frozen_front_end_leaves_the_back_end_to_learn(tiny, waveforms):
    tiny.front_end.frozen = True
    network = build_network(tiny).train()
    network(waveforms)[1].square().sum().backward()
    assert ids(front_end_parameters(network)) == ids(network.front_end.parameters())
    learned = {name.partition(".")[0] for name in names_with_gradient(network)}
    assert learned == {"back_end"}
    assert not network.front_end.training
    assert network.back_end.training


@pytest.mark.parametrize(
    ("samples", "length"), [(8000, 7760), (7760, 7760), (7759, 7440), (1040, 1040), (700, 700)]
)
def test_scoring_length_is_what_the_score_depends_on(samples, length, tiny, waveforms):
    tiny.front_end.architecture = LAYER_NORM
    torch.manual_seed(0)
    network = SSL_AASIST(tiny).eval()
    waveform_1T = waveforms[:1, :samples].requires_grad_()
    _, logits_12 = network(waveform_1T)
    logits_12[0, 1].backward()
    assert waveform_1T.grad is not None
    last_used = int(waveform_1T.grad[0].nonzero().max())
    assert scoring_length(network, samples) == length == last_used + 1
    with torch.no_grad():
        _, cut_12 = network(waveform_1T[:, :length])
    torch.testing.assert_close(cut_12, logits_12, atol=1e-6, rtol=0)


def test_short_waveforms_are_repeated(tiny, waveforms):
    network = SSL_AASIST(tiny).eval()
    short_BT = waveforms[:, :400]
    repeated_BT = short_BT.repeat(1, 3)[:, :1040]
    with torch.no_grad():
        assert torch.equal(network(short_BT)[1], network(repeated_BT)[1])


@pytest.mark.slow
def test_the_tiny_network_learns_from_scratch(tiny):
    """A stem whose biases hide waveforms stays at chance."""
    tiny.front_end.architecture = LAYER_NORM
    torch.manual_seed(0)
    network = build_network(tiny).train()
    assert loss_of_training(network, level=0.02, rate=1e-3, steps=25) < 0.2

"""wav2vec 2.0 + AASIST: equal to the published networks; what learns, what is frozen, what a score depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from asdf.interchange import load_detector_weights
from asdf.interchange.pretrained import build_pretrained
from asdf.networks import SSL_AASIST, build_network, front_end_parameters, scoring_length
from asdf.networks.architectures import KNOWN

LAYER_NORM = replace(KNOWN["tiny"], extractor_mode="layer_norm", conv_bias=True).to_text()
FIRST_NORMS = [
    f"back_end.encoder.{block}.0.bn1.{kind}" for block in range(1, 6) for kind in ("weight", "bias")
]


@pytest.mark.parametrize("prefix", ["", "module."])
def test_published_layout_scores_as_the_published_code_does(
    prefix, tiny, reference, recorded, tmp_path
):
    state = torch.load(reference("ssl_aasist.pth"), weights_only=True, map_location="cpu")
    torch.save(
        {prefix + name: tensor for name, tensor in state.items()}, tmp_path / "published.pth"
    )
    tiny.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    network = build_pretrained(tiny)
    left_out = load_detector_weights(network, tmp_path / "published.pth")
    assert {name.removeprefix("ssl_model.model.").partition(".")[0] for name in left_out} == {
        "mask_emb",
        "quantizer",
        "project_q",
        "final_proj",
    }
    expected = recorded("ssl_aasist.npz")
    with torch.no_grad():
        embeddings, logits = network.eval()(expected["waveforms"])
    assert embeddings.shape == (2, 160)
    torch.testing.assert_close(logits, expected["logits"], atol=1e-5, rtol=0)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_what_learns_gets_a_gradient(checkpointing, tiny, waveforms):
    tiny.front_end.gradient_checkpointing = checkpointing
    network = build_network(tiny).train()
    network(waveforms)[1].square().sum().backward()
    without = [name for name, parameter in network.named_parameters() if parameter.grad is None]
    frozen = [name for name, parameter in network.named_parameters() if not parameter.requires_grad]
    assert without == frozen == FIRST_NORMS


def test_frozen_front_end_leaves_the_back_end_to_learn(tiny, waveforms):
    tiny.front_end.frozen = True
    network = build_network(tiny).train()
    network(waveforms)[1].square().sum().backward()
    got = {
        name.partition(".")[0]
        for name, parameter in network.named_parameters()
        if parameter.grad is not None
    }
    assert got == {"back_end"}
    assert not network.front_end.training
    assert network.back_end.training


def test_front_end_parameters_are_the_front_ends(tiny):
    network = build_network(tiny)
    names = {
        name for name, parameter in network.named_parameters() if id(parameter) in ids(network)
    }
    assert names == {
        name for name, _ in network.named_parameters() if name.startswith("front_end.")
    }


def ids(network):
    return {id(parameter) for parameter in front_end_parameters(network)}


@pytest.mark.parametrize(
    ("samples", "length"), [(8000, 7760), (7760, 7760), (7759, 7440), (1040, 1040), (700, 700)]
)
def test_scoring_length_is_what_the_score_depends_on(samples, length, tiny, waveforms):
    tiny.front_end.architecture = LAYER_NORM
    torch.manual_seed(0)
    network = SSL_AASIST(tiny).eval()
    x = waveforms[:1, :samples].requires_grad_()
    logits = network(x)[1]
    logits[0, 1].backward()
    assert x.grad is not None
    assert scoring_length(network, samples) == length == int(x.grad[0].nonzero().max()) + 1
    with torch.no_grad():
        torch.testing.assert_close(network(x[:, :length])[1], logits, atol=1e-6, rtol=0)


def test_short_waveforms_are_repeated(tiny, waveforms):
    network = SSL_AASIST(tiny).eval()
    with torch.no_grad():
        assert torch.equal(
            network(waveforms[:, :400])[1], network(waveforms[:, :400].repeat(1, 3)[:, :1040])[1]
        )


def test_the_tiny_network_learns_from_scratch(tiny):
    """Noise with and without a faint tone: a stem that drowns the waveform in its biases stays at chance."""
    tiny.front_end.architecture = LAYER_NORM
    torch.manual_seed(0)
    network = build_network(tiny).train()
    optimizer = torch.optim.Adam([p for p in network.parameters() if p.requires_grad], lr=1e-3)
    tone = 0.02 * torch.sin(2 * torch.pi * 3000 / 16000 * torch.arange(4000))
    for _ in range(25):
        labels = torch.arange(8) % 2
        logits = network(0.02 * torch.randn(8, 4000) + labels[:, None] * tone)[1]
        loss = torch.nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.2

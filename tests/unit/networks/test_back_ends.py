"""Back ends equal the published networks, the formulas of their papers, and the sizes stated there.

What all classes have in common is in test_contract.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from asdf.checkpoint.base_weights import load_layers
from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.networks import (
    SSL_SLS,
    ASPBackEnd,
    ConformerBackEnd,
    ECAPABackEnd,
    LCNNBackEnd,
    LinearBackEnd,
    MHFABackEnd,
    MLPBackEnd,
    Nes2NetXBackEnd,
    ResNet18BackEnd,
    TCMBackEnd,
)
from asdf.networks.back_ends.conformer import sinusoids
from asdf.networks.back_ends.ecapa import NormOfPooled
from asdf.settings.sections import BackEnd as BackEndSettings
from tests.unit.networks.conftest import build
from tests.unit.networks.inspection import count_parameters
from tests.unit.networks.official import load_drawn, official_case

# With an even kernel.
CONFORMER = BackEndSettings(conformer_dimension=16, conformer_blocks=2, conformer_kernel=6)
ECAPA = BackEndSettings(ecapa_channels=32, ecapa_attention=256)
ECAPA_NAMES = {
    "layer1": "blocks.0",
    "layer2": "blocks.1",
    "layer3": "blocks.2",
    "layer4": "aggregation",
    "attention": "pooling.attention",
}


def ecapa_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the layers of a widely used implementation, and an output of zeros."""
    parts = {name: name.partition(".") for name in state}
    renamed = {
        f"{ECAPA_NAMES.get(module, module)}.{layer}": state[name]
        for name, (module, _, layer) in parts.items()
    }
    return {**renamed, "output.weight": torch.zeros(2, 192), "output.bias": torch.zeros(2)}


def lcnn_names(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the layers without the number of the front end, of which the baseline has one."""
    parts = {name: name.split(".", 2) for name in state}
    renamed = {f"{part}.{layer}": state[name] for name, (part, _, layer) in parts.items()}
    # The baseline has one output; here it is the logit of bona fide.
    for name in ("m_output_act.weight", "m_output_act.bias"):
        renamed[name] = torch.cat([torch.zeros_like(renamed[name]), renamed[name]])
    return renamed


OFFICIAL: dict[str, tuple[Callable[[], nn.Module], Callable[..., dict[str, Tensor]], float]] = {
    # On 541 frames with the class token, where distances above 512 are alike, and on few.
    "conformer": (lambda: ConformerBackEnd(8, CONFORMER), dict, 2e-5),
    "conformer_tcm": (lambda: TCMBackEnd(8, CONFORMER), dict, 2e-5),
    "lcnn": (lambda: LCNNBackEnd(60, 0, 0.7), lcnn_names, 1e-4),
    # On LFCCs of 60 values, as published, without the noise that the authors' code adds.
    "resnet18": (lambda: ResNet18BackEnd(60, 0, 256), dict, 1e-3),
    "ecapa": (lambda: ECAPABackEnd(80, ECAPA), ecapa_names, 1e-4),
}


@pytest.mark.parametrize("name", OFFICIAL)
def test_it_computes_what_the_official_code_does(name):
    make, rename, tolerance = OFFICIAL[name]
    case = official_case(name)
    back_end = make().eval()
    load_drawn(back_end, rename(case.state))
    with torch.no_grad():
        embeddings, logits = back_end(case.inputs)
        got = {
            "embeddings": embeddings[:, : case.outputs.get("embeddings", embeddings).shape[1]],
            "logits": logits[:, 1:] if name == "lcnn" else logits,
            "short": back_end(case.inputs[:, :37])[1],
        }
    compared = case.outputs.keys() & got.keys()
    assert compared
    for key in compared:
        torch.testing.assert_close(got[key], case.outputs[key], atol=tolerance, rtol=1e-5)
    if name == "lcnn":
        assert torch.equal(logits[:, 0], torch.zeros(2))


def test_positions_are_the_published_ones():
    expected = official_case("conformer_tcm").outputs["positions"]
    torch.testing.assert_close(sinusoids(10_000, 16)[::700], expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("name", "pooling", "size"), [("mean", "mean", 512_039), ("astp", "attentive", 777_383)]
)
def test_nes2net_x_is_the_published_one(name, pooling, size, reference, recorded):
    back_end = Nes2NetXBackEnd(1024, pooling=pooling).eval()
    state = torch.load(reference(f"nes2net_x_{name}.pth"), weights_only=True, map_location="cpu")
    load_layers(back_end, state, name)
    expected = recorded(f"nes2net_x_{name}.npz")
    with torch.no_grad():
        _, logits = back_end(expected["features"].transpose(1, 2))
    torch.testing.assert_close(logits, expected["logits"], atol=1e-5, rtol=0)
    assert count_parameters(back_end) == size


def test_sls_is_the_published_one(small, reference, recorded):
    small.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    small.back_end.sls_samples = 16000
    small.back_end.sls_hidden = 64
    network = build(small, "SSL_SLS").eval()
    load_detector_weights(network, reference("sls.pth"))
    expected = recorded("sls.npz")
    with torch.no_grad():
        _, logits = network(expected["waveforms"])
    torch.testing.assert_close(logits, expected["log_probabilities"], atol=1e-5, rtol=0)


def test_sls_has_the_published_size_by_default(tiny):
    tiny.front_end.architecture = "wav2vec2_xlsr_300m"
    with torch.device("meta"):
        network = SSL_SLS(tiny)
    shapes = {name: tuple(tensor.shape) for name, tensor in network.back_end.named_parameters()}
    wanted = {"fc0.weight": (1, 1024), "fc1.weight": (1024, 22_847), "fc3.weight": (2, 1024)}
    assert shapes.items() >= wanted.items()
    assert network.fixed_samples == 64_600


@pytest.mark.parametrize(("channels", "millions"), [(512, 6.2), (1024, 14.7)])
def test_the_sizes_of_ecapa_are_the_papers(channels, millions):
    """On 80 filter banks, without the output."""
    with torch.device("meta"):
        back_end = ECAPABackEnd(80, BackEndSettings(ecapa_channels=channels))
    parameters = count_parameters(back_end) - count_parameters(back_end.output)
    assert round(parameters / 1e6, 1) == millions


def test_one_utterance_can_be_trained_on():
    """A batch norm refuses one value per channel; a last minibatch may have one utterance."""
    back_end = ECAPABackEnd(12, BackEndSettings(ecapa_channels=16)).train()
    back_end(torch.randn(1, 9, 12))[1].square().sum().backward()
    assert back_end.bn5.weight.grad is not None
    norm = NormOfPooled(3)
    norm.running_mean.fill_(2.0)
    norm.train()
    torch.testing.assert_close(norm(torch.tensor([[2.0, 3.0, 4.0]])), torch.tensor([[0.0, 1, 2]]))
    assert torch.equal(norm.running_mean, torch.full((3,), 2.0))


def test_a_projection_comes_before_lcnn():
    assert count_parameters(LCNNBackEnd(1024, 60, 0.7)) == 269_729 + 97 + 1025 * 60


def test_the_mean_and_a_linear_layer_are_their_formula():
    torch.manual_seed(0)
    back_end = LinearBackEnd(6)
    features = torch.randn(2, 9, 6)
    embeddings, logits = back_end(features)
    torch.testing.assert_close(embeddings, features.sum(dim=1) / 9)
    weight, bias = back_end.proj_fc.weight, back_end.proj_fc.bias
    torch.testing.assert_close(logits, embeddings @ weight.T + bias)


def test_attentive_statistics_are_their_formula():
    torch.manual_seed(0)
    back_end = ASPBackEnd(6, 5)
    x = torch.randn(2, 9, 6)
    embeddings, logits = back_end(x)
    for row in range(2):
        scores = back_end.attention(x[row]).flatten()
        weights = scores.exp() / scores.exp().sum()
        mean = weights @ x[row]
        deviation = (weights @ (x[row] - mean) ** 2).sqrt()
        expected = torch.cat([mean, deviation])
        torch.testing.assert_close(embeddings[row], expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(logits[row], back_end.output(embeddings[row]))
    assert torch.isfinite(back_end(x[:, :1])[0]).all()


def test_mhfa_is_its_formula():
    torch.manual_seed(0)
    states = torch.randn(3, 2, 9, 6)
    back_end = MHFABackEnd(6, 3, heads=4, compression=5, embedding=7)
    back_end.weights_k.data = torch.tensor([0.3, -1.0, 2.0])
    back_end.weights_v.data = torch.tensor([1.0, 0.0, -0.5])
    sums = []
    for weights in (back_end.weights_k, back_end.weights_v):
        shares = weights.exp() / weights.exp().sum()
        sums.append((shares[:, None, None, None] * states).sum(dim=0))
    values = back_end.cmp_linear_v(sums[1])
    scores = back_end.att_head(back_end.cmp_linear_k(sums[0])).exp()
    attention = scores / scores.sum(dim=1, keepdim=True)
    heads = [(attention[:, :, head, None] * values).sum(dim=1) for head in range(4)]
    embeddings, logits = back_end(list(states))
    expected = back_end.pooling_fc(torch.cat(heads, dim=1))
    torch.testing.assert_close(embeddings, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(logits, back_end.output(embeddings))


def test_a_hidden_layer_has_standardised_and_clipped_features():
    torch.manual_seed(0)
    back_end = MLPBackEnd(3, BackEndSettings(mlp_hidden=5, mlp_dropout=0.3)).eval()
    back_end.norm.running_mean.copy_(torch.tensor([1.0, 2.0, 3.0]))
    back_end.norm.running_var.copy_(torch.tensor([4.0, 9.0, 16.0]))
    features_BLC = torch.tensor([[[1.0, 2.0, 3.0], [3.0, 8.0, 3.0]], [[1000.0, -1000.0, 3.0]] * 2])
    embeddings, logits = back_end(features_BLC)
    # (2 - 1) / 2, (5 - 2) / 3, 0; and far from all of training: clipped to 4 deviations.
    standard = torch.tensor([[0.5, 1.0, 0.0], [4.0, -4.0, 0.0]])
    expected = back_end.hidden(standard).clamp(min=0)
    torch.testing.assert_close(embeddings, expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits, back_end.out_layer(expected), atol=1e-4, rtol=1e-4)


def test_a_hidden_layer_is_trained_on_features_standardised_by_the_minibatch():
    torch.manual_seed(0)
    back_end = MLPBackEnd(3, BackEndSettings(mlp_hidden=5, mlp_dropout=0.0)).train()
    x_BC = torch.randn(64, 3) * 7 + 100
    embeddings, _ = back_end(x_BC.unsqueeze(1))
    standard = (x_BC - x_BC.mean(dim=0)) / x_BC.std(dim=0, unbiased=False)
    expected = back_end.hidden(standard).clamp(min=0)
    torch.testing.assert_close(embeddings, expected, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(back_end.norm.running_mean, 0.1 * x_BC.mean(dim=0))

"""The back ends: equal to the published networks, what learns, and what a score depends on."""

from __future__ import annotations

import pytest
import torch

from asdf.errors import UsageError
from asdf.interchange import build_pretrained, load_detector_weights, load_layers
from asdf.networks import (
    SSL_SLS,
    ASPBackEnd,
    BackEnd,
    MHFABackEnd,
    Nes2NetXBackEnd,
    SSLDetector,
    fixed_samples,
    scoring_length,
)
from tests.unit.networks.inspection import count_parameters, frozen_names, names_without_gradient

CLASSES = ("SSL_AASIST", "SSL_AASIST_L", "SSL_ASP", "SSL_MHFA", "SSL_SLS", "SSL_Nes2NetX")
ANY_LENGTH = [name for name in CLASSES if name != "SSL_SLS"]
EMBEDDINGS = {
    "SSL_AASIST": 160,
    "SSL_AASIST_L": 160,
    "SSL_ASP": 128,
    "SSL_MHFA": 24,
    "SSL_SLS": 32,
    "SSL_Nes2NetX": 64,
}


@pytest.fixture
def small(tiny):
    tiny.back_end.mhfa_embedding = 24
    tiny.back_end.sls_hidden = 32
    tiny.back_end.sls_samples = 8000
    return tiny


def build(settings, name):
    settings.network.network_class = f"asdf.networks.{name}"
    torch.manual_seed(0)
    return build_pretrained(settings)


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


def test_a_published_nes2net_x_checkpoint_loads(small, reference, tmp_path):
    small.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    small.back_end.nes2net_splits = (4, 2)
    network = build(small, "SSL_Nes2NetX")
    front_end = torch.load(reference("ssl_aasist.pth"), weights_only=True, map_location="cpu")
    state = {}
    for name, tensor in front_end.items():
        if name.startswith("ssl_model.model."):
            state[name] = tensor
    back_end = {}
    for name, tensor in network.back_end.state_dict().items():
        back_end[name] = torch.randn_like(tensor.float())
        state[f"Nested_Res2Net_TDNN.{name}"] = back_end[name]
    torch.save(state, tmp_path / "published.pth")
    load_detector_weights(network, tmp_path / "published.pth")
    assert torch.equal(network.back_end.fc.weight, back_end["fc.weight"])
    assert torch.equal(
        network.back_end.Build_in_Res2Nets[2].bns[0].bias,
        back_end["Build_in_Res2Nets.2.bns.0.bias"],
    )


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
    assert shapes["fc0.weight"] == (1, 1024)
    assert shapes["fc1.weight"] == (1024, 22_847)
    assert shapes["fc3.weight"] == (2, 1024)
    assert network.fixed_samples == 64_600


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


def sum_layers(states, weights):
    """Add up the layers, each times its share by a softmax of `weights`."""
    shares = weights.exp() / weights.exp().sum()
    total = torch.zeros_like(states[0])
    for weight, state in zip(shares, states, strict=True):
        total = total + weight * state
    return total


def test_mhfa_is_its_formula():
    torch.manual_seed(0)
    states = [torch.randn(2, 9, 6) for _ in range(3)]
    back_end = MHFABackEnd(6, 3, heads=4, compression=5, embedding=7)
    back_end.weights_k.data = torch.tensor([0.3, -1.0, 2.0])
    back_end.weights_v.data = torch.tensor([1.0, 0.0, -0.5])
    keys = back_end.cmp_linear_k(sum_layers(states, back_end.weights_k))
    values = back_end.cmp_linear_v(sum_layers(states, back_end.weights_v))
    scores = back_end.att_head(keys).exp()
    heads = []
    for head in range(4):
        score = scores[:, :, head]
        attention = score / score.sum(dim=1, keepdim=True)
        heads.append((attention[:, :, None] * values).sum(dim=1))
    embeddings, logits = back_end(states)
    torch.testing.assert_close(
        embeddings, back_end.pooling_fc(torch.cat(heads, dim=1)), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(logits, back_end.output(embeddings))


@pytest.mark.parametrize("layer", ["last", 1])
@pytest.mark.parametrize("name", CLASSES)
def test_exactly_what_learns_gets_a_gradient(name, layer, small, waveforms):
    small.front_end.layer = layer
    network = build(small, name).train()
    embeddings, logits = network(waveforms)
    assert embeddings.shape == (2, EMBEDDINGS[name])
    assert logits.shape == (2, 2)
    logits.square().sum().backward()
    without = names_without_gradient(network)
    assert without == frozen_names(network)
    for unused in without:
        assert unused.startswith("front_end.") or ".bn1." in unused


@pytest.mark.parametrize("name", CLASSES)
def test_a_score_does_not_depend_on_its_batch(name, small, waveforms):
    network = build(small, name).eval()
    with torch.no_grad():
        _, together_B2 = network(waveforms)
        _, alone_12 = network(waveforms[1:])
    torch.testing.assert_close(together_B2[1:], alone_12, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", ANY_LENGTH)
def test_any_length_is_taken(name, small, waveforms):
    network = build(small, name).eval()
    assert fixed_samples(network) is None
    with torch.no_grad():
        for samples in (150, 400, 1040, 7777):
            assert torch.isfinite(network(waveforms[:, :samples])[1]).all()


def test_one_length_only_is_taken(small, waveforms):
    network = build(small, "SSL_SLS").eval()
    assert fixed_samples(network) == 8000
    for samples, length in ((500, 500), (8000, 8000), (20000, 8000)):
        assert scoring_length(network, samples) == length
    short = waveforms[:, :5000]
    long = torch.cat([waveforms, torch.randn(2, 100)], dim=1)
    repeated = torch.cat([short, waveforms[:, :3000]], dim=1)
    with torch.no_grad():
        expected = network(waveforms)[1]
        assert torch.equal(network(long)[1], expected)
        assert torch.equal(network(short)[1], network(repeated)[1])
        assert not torch.allclose(network(short)[1], expected)


@pytest.mark.parametrize("name", ["SSL_MHFA", "SSL_SLS"])
def test_a_back_end_that_weighs_layers_gets_no_weighted_sum(name, small):
    small.front_end.layer = "weighted"
    with pytest.raises(
        UsageError, match=rf"front_end\.layer = 'weighted': {name} weighs the layers by itself"
    ):
        build(small, name)


def test_sizes_that_do_not_fit_are_refused(small):
    small.back_end.nes2net_splits = (8, 3)
    with pytest.raises(
        UsageError, match=r"back_end\.nes2net_splits = .* features of 64 values cannot be divided"
    ):
        build(small, "SSL_Nes2NetX")
    small.back_end.sls_samples = 800
    with pytest.raises(UsageError, match=r"back_end\.sls_samples = 800 gives 2"):
        build(small, "SSL_SLS")


def test_a_back_end_of_ones_own_takes_a_few_lines(small, waveforms):
    class Mean(BackEnd):
        def __init__(self, dimension):
            super().__init__()
            self.output = torch.nn.Linear(dimension, 2)

        def forward(self, features_BLC):
            embeddings_BE = features_BLC.mean(dim=1)
            return embeddings_BE, self.output(embeddings_BE)

    class Mine(SSLDetector):
        def make_back_end(self, settings):
            return Mean(self.front_end.dimension)

    network = Mine(small).eval()
    features = network.front_end(waveforms).mean(dim=1)
    embeddings, logits = network(waveforms)
    assert torch.equal(embeddings, features)
    assert torch.equal(logits, network.back_end.output(features))


@pytest.mark.parametrize("name", CLASSES)
def test_logits_have_the_digits_of_the_weights_whatever_autocast_says(small, name):
    """Scores of bfloat16 would be equal where trials are not; float64 networks stay in float64."""
    network = build(small, name).eval()
    waveforms_BT = torch.randn(2, 8000)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        logits = network(waveforms_BT)[1]
    assert logits.dtype is torch.float32
    assert not torch.equal(logits, logits.bfloat16().float())
    if "AASIST" not in name:  # its graph pooling is in float32 in any case
        assert network.double()(waveforms_BT.double())[1].dtype is torch.float64

"""What every back end has: what learns, what a score depends on, and the lengths it takes."""

from __future__ import annotations

import pytest
import torch

from asdf.errors import UsageError
from asdf.networks import BackEnd, SSLDetector, fixed_samples, scoring_length
from tests.unit.networks.conftest import build
from tests.unit.networks.inspection import frozen_names, names_without_gradient

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

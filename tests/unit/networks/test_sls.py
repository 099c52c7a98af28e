"""SLS equals the published network."""

from __future__ import annotations

import torch

from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.networks import SSL_SLS
from tests.unit.networks.conftest import build


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

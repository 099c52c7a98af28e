"""Networks that compare recordings with references, and the two that are ready."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asdf.errors import AsdfError
from asdf.networks import CosinePairNetwork, MLPPairNetwork, build_network
from asdf.networks.interface import takes_references
from asdf.settings.sections import Sections


def settings_of(name: str, back_end: str = "mlp") -> Sections:
    settings = Sections()
    settings.network.network_class = f"asdf.networks.{name}"
    settings.front_end.front_end_class = "lfcc"
    settings.back_end.back_end_class = back_end
    return settings


@pytest.fixture
def waveforms() -> torch.Tensor:
    return 0.1 * torch.randn(5, 8000, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", ["CosinePairNetwork", "MLPPairNetwork"])
def test_logits_are_of_the_cosine_and_of_the_logits_of_both(name: str, waveforms) -> None:
    torch.manual_seed(0)
    network = build_network(settings_of(name)).eval()
    assert isinstance(network, CosinePairNetwork | MLPPairNetwork) and takes_references(network)
    tests_BT = waveforms[:2]
    references_BRT = waveforms[1:].reshape(2, 2, 8000)
    with torch.no_grad():
        _, logits_B2 = network(tests_BT, references_BRT)
        for row in range(2):
            own, own_logits = network.detector(tests_BT[row : row + 1])
            theirs, their_logits = network.detector(references_BRT[row])
            test = own[0].numpy()
            reference = theirs.numpy().mean(axis=0)
            cosine = test @ reference / np.linalg.norm(test) / np.linalg.norm(reference)
            five = np.concatenate([[cosine], own_logits[0], their_logits.numpy().mean(axis=0)])
            expected = network.comparison(torch.from_numpy(five.astype(np.float32)))
            torch.testing.assert_close(logits_B2[row], expected, rtol=1e-4, atol=1e-5)
    for parameter in network.parameters():
        assert parameter.requires_grad


@pytest.mark.parametrize("name", ["CosinePairNetwork", "MLPPairNetwork"])
def test_every_parameter_gets_a_gradient(name: str, waveforms) -> None:
    torch.manual_seed(0)
    network = build_network(settings_of(name)).train()
    _, logits_B2 = network(waveforms, waveforms.flip(0)[:, None])
    logits_B2.square().sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_the_comparison_is_in_float32_under_autocast(waveforms) -> None:
    torch.manual_seed(0)
    network = build_network(settings_of("MLPPairNetwork")).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        _, logits_B2 = network(waveforms, waveforms.flip(0)[:, None])
    assert logits_B2.dtype == torch.float32


def test_without_a_back_end_it_is_refused_as_a_detector_is() -> None:
    with pytest.raises(AsdfError, match="has no default back end"):
        CosinePairNetwork(settings_of("CosinePairNetwork", back_end=None))  # type: ignore[arg-type]

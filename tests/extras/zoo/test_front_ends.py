"""What all front ends of the zoo keep: lengths, files, caches and graphs, and what learns."""

from __future__ import annotations

import pytest
import torch

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.interchange import read_network, write_onnx, write_torchscript
from asdf.networks import build_network
from asdf.networks.split import FromFeatures
from asdf.settings.sections import Sections, assign
from tests.extras.zoo import test_constant_q, test_learned_bands, test_patches
from tests.unit.networks.inspection import names_with_gradient, trainable_names

FILTERED = {
    "cqt": test_constant_q.SMALL,
    "cqcc": test_constant_q.SMALL,
    "sinc": test_learned_bands.SMALL,
}
PATCHED = {
    name: {"front_end.architecture": case.tiny.to_text()}
    for name, case in test_patches.CASES.items()
}
KINDS: dict[str, dict[str, object]] = {**FILTERED, **PATCHED}


def settings_of(kind: str, back_end: str = "asp", **front_end: object) -> Sections:
    settings = Sections()
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.front_end.front_end_class = kind
    settings.back_end.back_end_class = back_end
    assign(settings, KINDS[kind] | {f"front_end.{name}": one for name, one in front_end.items()})
    return settings


def built(kind: str, back_end: str = "asp", **front_end: object) -> torch.nn.Module:
    torch.manual_seed(0)
    return build_network(settings_of(kind, back_end, **front_end)).eval()


@pytest.mark.parametrize("kind", FILTERED)
def test_lengths_and_independence_of_utterances(kind, waveforms):
    model = built(kind).front_end
    for samples in (model.window, model.window + 159, model.window + 160, 7999):
        features = model(waveforms[:, :samples])
        assert features.shape == (2, model.frames(samples), model.dimension)
        used = model.scoring_length(samples)
        torch.testing.assert_close(model(waveforms[:, :used]), features)
    plain = model(waveforms)
    torch.testing.assert_close(plain[1:], model(waveforms[1:]), rtol=0, atol=2e-3)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model(waveforms), plain)


@pytest.mark.slow_but("aasist-cqt", "mhfa-cqcc", "ecapa-sinc", "linear-dasheng")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("back_end", ["lcnn", "resnet18", "aasist", "mhfa", "ecapa", "linear"])
def test_all_that_learns_gets_a_gradient_before_back_ends(kind, back_end, waveforms):
    network = built(kind, back_end).train()
    learning = [name for name in trainable_names(network) if name.startswith("front_end.")]
    if kind.startswith("cq"):
        assert not any(name.startswith("front_end.") for name in network.state_dict())
    elif kind == "sinc":
        assert learning == [f"front_end.model.{name}_shift" for name in ("low", "width")]
    network(waveforms)[1].square().sum().backward()
    assert names_with_gradient(network) == trainable_names(network)


@pytest.mark.parametrize("kind", KINDS)
def test_it_comes_back_from_its_file_and_is_cached_and_exported_as_a_graph(
    kind, waveforms, tmp_path
):
    network = built(kind, frozen=True)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.003
    settings = settings_of(kind, frozen=True)
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    again, _ = read_network(tmp_path / "net.pt")
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])
    if kind in FILTERED:
        features = network.front_end_features(waveforms)
        assert torch.equal(FromFeatures(network)(features)[1], network(waveforms)[1])
    assert trainable_names(network)[0].startswith("back_end.")
    # Both compare the graph with the network; Dasheng's at lengths of one chunk and of many.
    write_torchscript(network, tmp_path / "net.ts", 8000)
    assert "of any length" in write_onnx(network, tmp_path / "net.onnx")

"""Pruning: what is left has the numbers that it had, and importance is what it says it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch
import torch.nn.functional as F

import asdf
from asdf.__main__ import main
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import UsageError
from asdf.interchange import read_network
from asdf.networks.front_ends.architectures import KNOWN
from asdf.pruning import Importance, choose_sizes, measure_importance, pruned_network
from asdf.settings.sections import Sections
from tests.unit.commands.test_export_network import settings_of
from tests.unit.interchange.test_transformers_folder import drawn

TINY = replace(KNOWN["tiny"], layers=3)
PRE_NORM = replace(TINY, extractor_mode="layer_norm", conv_bias=True)
WAVLM = replace(TINY, layer_norm_first=False, relative_positions=(8, 20))


def settings_with(architecture=TINY, kind="SSL_Linear") -> Sections:
    settings = settings_of(kind)
    settings.front_end.architecture = architecture.to_text()
    return settings


def file_of(network, settings) -> NetworkFile:
    return NetworkFile.from_network(network, settings)


def importance_of(network, **changed) -> Importance:
    """Return an importance by which the first of all parts are kept."""
    sizes = network.front_end.architecture
    falling = {
        "channels": [torch.arange(each, 0, -1.0) for each, _, _ in sizes.conv_layers],
        "units": [torch.arange(sizes.feed_forward, 0, -1.0)] * sizes.layers,
        "layers": torch.arange(sizes.layers, 0, -1.0),
        "utterances": 1,
    }
    return Importance(**{**falling, **changed})


WAVEFORMS = 0.1 * torch.randn(2, 6000, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("architecture", [TINY, PRE_NORM, WAVLM])
def test_with_everything_left_the_scores_are_the_same(architecture):
    settings = settings_with(architecture)
    network = drawn(settings)
    sizes = choose_sizes(importance_of(network), architecture, 1.0, 1.0, 3)
    pruned, file = pruned_network(network, file_of(network, settings), sizes)
    assert file.settings["front_end"]["architecture"] == architecture.to_text()
    with torch.no_grad():
        torch.testing.assert_close(pruned(WAVEFORMS), network(WAVEFORMS), rtol=0, atol=0)


@pytest.mark.parametrize("architecture", [TINY, PRE_NORM, WAVLM])
def test_units_that_give_nothing_can_go_without_any_change(architecture):
    settings = settings_with(architecture)
    network = drawn(settings)
    layers = network.front_end.model.encoder.transformer.layers
    idle = torch.randperm(128, generator=torch.Generator().manual_seed(1))[:64]
    with torch.no_grad():
        for layer in layers:
            layer.feed_forward.output_dense.weight[:, idle] = 0
        expected = network(WAVEFORMS)
    measured = measure_importance(network, [(WAVEFORMS[0], 1), (WAVEFORMS[1], 0)])
    for units in measured.units:
        assert set(units.argsort()[:64].tolist()) == set(idle.tolist())
    sizes = choose_sizes(measured, architecture, 1.0, 0.5, 3)
    pruned = pruned_network(network, file_of(network, settings), sizes)[0]
    assert pruned.front_end.architecture.feed_forward == 64
    with torch.no_grad():
        torch.testing.assert_close(pruned(WAVEFORMS), expected, rtol=0, atol=1e-6)
    assert sum(map(torch.numel, pruned.parameters())) < sum(map(torch.numel, network.parameters()))


def test_channels_that_nothing_reads_can_go():
    # A group norm is one per channel, so other channels do not depend on those that go.
    settings = settings_with(TINY)
    network = drawn(settings)
    stem = network.front_end.model.feature_extractor.conv_layers
    with torch.no_grad():
        for number in range(len(stem) - 1):
            stem[number + 1].conv.weight[:, 16:] = 0
        expected = network(WAVEFORMS)
    channels = [torch.arange(32, 0, -1.0) for _ in stem]
    # The norm before the projection looks at all channels of the last convolution.
    importance = importance_of(network, channels=channels)
    sizes = choose_sizes(importance, TINY, 0.5, 1.0, 3)
    sizes = replace(sizes, channels=(*sizes.channels[:-1], torch.arange(32)))
    pruned, _ = pruned_network(network, file_of(network, settings), sizes)
    conv_layers = pruned.front_end.architecture.conv_layers
    assert [channels for channels, _, _ in conv_layers] == [16] * 6 + [32]
    with torch.no_grad():
        torch.testing.assert_close(pruned(WAVEFORMS), expected, rtol=0, atol=1e-6)


def test_layers_that_only_pass_on_are_the_first_to_go():
    settings = settings_with(TINY)
    network = drawn(settings)
    idle = network.front_end.model.encoder.transformer.layers[1]
    with torch.no_grad():
        for dense in (idle.attention.out_proj, idle.feed_forward.output_dense):
            dense.weight.zero_()
            dense.bias.zero_()
        expected = network(WAVEFORMS)
    measured = measure_importance(network, [(WAVEFORMS[0], 1)])
    assert measured.layers.argmin() == 1 and measured.layers[1] == pytest.approx(0, abs=1e-6)
    sizes = choose_sizes(measured, TINY, 1.0, 1.0, 2)
    assert sizes.layers == (0, 2)
    pruned, _ = pruned_network(network, file_of(network, settings), sizes)
    with torch.no_grad():
        torch.testing.assert_close(pruned(WAVEFORMS), expected, rtol=0, atol=1e-6)


def test_importance_is_the_change_of_the_loss_to_first_order():
    settings = settings_with(TINY)
    network = drawn(settings)
    measured = measure_importance(network, [(WAVEFORMS[0], 1)])
    assert all(each.grad is None for each in network.parameters())
    dense = network.front_end.model.encoder.transformer.layers[2].feed_forward.output_dense
    scale = torch.ones(128, requires_grad=True)
    handle = dense.register_forward_pre_hook(lambda module, inputs: (inputs[0] * scale,))
    logits = network(WAVEFORMS[:1])[1]
    (slope,) = torch.autograd.grad(F.cross_entropy(logits, torch.tensor([1])), scale)
    handle.remove()
    torch.testing.assert_close(measured.units[2], slope.abs(), rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("kind", ["SSL_MHFA", "weighted"])
def test_weights_of_layers_go_with_the_layers(kind):
    settings = settings_with(TINY, "SSL_Linear" if kind == "weighted" else kind)
    if kind == "weighted":
        settings.front_end.layer = "weighted"
    network = drawn(settings)
    importance = importance_of(network, layers=torch.tensor([1.0, 3.0, 2.0]))
    sizes = choose_sizes(importance, TINY, 1.0, 1.0, 2)
    pruned, _ = pruned_network(network, file_of(network, settings), sizes)
    name = "front_end.layer_sum.weights" if kind == "weighted" else "back_end.weights_k"
    expected = network.state_dict()[name][[0, 2, 3]]
    torch.testing.assert_close(pruned.state_dict()[name], expected)
    assert pruned(WAVEFORMS)[1].shape == (2, 2)


def test_what_cannot_be_pruned_is_refused():
    with pytest.raises(UsageError, match="AASIST has no front end"):
        measure_importance(drawn(settings_of("AASIST")), [])
    settings = settings_with(TINY)
    settings.front_end.layer = 2
    network = drawn(settings)
    sizes = choose_sizes(importance_of(network), TINY, 1.0, 1.0, 2)
    with pytest.raises(UsageError, match="uses layer 2"):
        pruned_network(network, file_of(network, settings), sizes)
    with pytest.raises(UsageError, match="has 3 layers"):
        choose_sizes(importance_of(network), TINY, 1.0, 1.0, 4)
    with pytest.raises(UsageError, match="no trials"):
        measure_importance(network, [])


def test_the_command_writes_a_network_and_says_what_changed(tmp_path, capsys):
    settings = settings_with(TINY)
    settings.network.min_evaluation_utterance_length_in_samples = 400
    network = drawn(settings)
    write_network_file(tmp_path / "net.pt", file_of(network, settings))
    noise = np.random.default_rng(0)
    lines = []
    for number in range(6):
        soundfile.write(tmp_path / f"{number}.wav", 0.1 * noise.standard_normal(5000), 16000)
        lines.append(f"{number}.wav {number % 2}\n")
    (tmp_path / "list.txt").write_text("".join(lines))
    out = tmp_path / "small.pt"
    words = [str(tmp_path / "net.pt"), str(tmp_path / "list.txt"), "-o", str(out)]
    assert main(["prune", *words, "--channels", "0.5", "--layers", "2"]) == 0
    said = capsys.readouterr().out
    assert "64 of 128 units per layer, 112 of 224 channels, 2 of 3 layers, without " in said
    assert "EER on list, by which parts were chosen: " in said
    pruned, file = read_network(out)
    assert file.calibration is None and pruned.front_end.architecture.layers == 2
    score = asdf.Detector(out, "cpu").score(WAVEFORMS[0].numpy(), 16000)
    with torch.no_grad():
        assert score == pytest.approx(float(pruned(WAVEFORMS[:1])[1][0, 1]), abs=1e-5)
    assert out.stat().st_size < (tmp_path / "net.pt").stat().st_size
    assert main(["prune", *words]) == 2
    assert "exists already" in capsys.readouterr().err
    assert main(["prune", *words[:2], "-o", str(tmp_path / "x.pt"), "--units", "0"]) == 2
    assert "0 is not a proportion" in capsys.readouterr().err

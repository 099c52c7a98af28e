"""The front end of band-passes that learn, against the fixed ones and numpy's convolution."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import UsageError
from asdf.interchange import read_network, write_onnx, write_torchscript
from asdf.networks import SincFrontEnd, build_network
from asdf.networks.filters import band_pass_filters
from asdf.settings.sections import Sections, assign
from tests.unit.networks.inspection import trainable_names

SMALL = {"sinc.filters": 16, "sinc.taps": 64}


def sections(values: dict, back_end: str = "asp") -> Sections:
    settings = Sections()
    settings.front_end.front_end_class = "sinc"
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.back_end.back_end_class = back_end
    assign(settings, values)
    return settings


def front_end(values: dict) -> SincFrontEnd:
    return SincFrontEnd.from_settings(sections(values)).eval()


def detector(values: dict, back_end: str = "asp") -> torch.nn.Module:
    torch.manual_seed(0)
    return build_network(sections(values, back_end))


def test_at_the_start_they_are_the_fixed_filters_of_rawnet2_and_aasist():
    ours = front_end({"sinc.filters": 70, "sinc.taps": 128, "sinc.low_hz": 0.0}).model.filters()
    fixed = band_pass_filters(70, 129)
    assert ours.shape == (70, 129)
    np.testing.assert_allclose(ours.detach().numpy(), fixed, rtol=0, atol=1e-6)


def test_features_are_log_powers_of_what_numpy_filters(waveforms):
    model = front_end({**SMALL, "sinc.low_hz": 100.0})
    with torch.no_grad():
        model.model.low_shift[3] += 0.01
        model.model.width_shift[3] += 0.02
    features = model(waveforms).detach()
    assert features.shape == (2, (8000 - 464) // 160 + 1, 16) and model.window == 464
    mel = np.linspace(2595 * np.log10(1 + 100 / 700), 2595 * np.log10(1 + 8000 / 700), 17)
    edges = 700 * (10 ** (mel / 2595) - 1)
    low, high = edges[3] + 160, edges[3] + 160 + edges[4] - edges[3] + 320
    times = np.arange(-32, 33) / 16000
    ideal = 2 * high * np.sinc(2 * high * times) - 2 * low * np.sinc(2 * low * times)
    taps = np.hamming(65) * ideal / 16000
    waveform = waveforms[1].double().numpy()
    emphasized = np.append(waveform[0], waveform[1:] - 0.97 * waveform[:-1])
    filtered = np.convolve(emphasized, taps, "valid")
    for frame in (0, 5, 47):
        power = np.mean(filtered[160 * frame : 160 * frame + 400] ** 2)
        expected = np.log10(power + 2**-23)
        assert features[1, frame, 3].item() == pytest.approx(expected, abs=2e-4)


def test_edges_learn_stay_in_the_band_and_never_cross(waveforms):
    model = front_end(SMALL).train()
    model(waveforms).square().sum().backward()
    assert model.model.low_shift.grad.abs().min() > 0
    # The highest band ends at 8 kHz: widening it changes nothing.
    assert model.model.width_shift.grad[:-1].abs().min() > 0
    with torch.no_grad():
        model.model.low_shift.copy_(torch.linspace(-2, 2, 16))
        model.model.width_shift.copy_(torch.linspace(2, -2, 16))
    low, high = model.model.edges()
    assert low.min() >= 0 and high.max() <= 0.5 and torch.all(low <= high)
    assert torch.isfinite(model(waveforms)).all()


@pytest.mark.parametrize("back_end", ["lcnn", "resnet18", "aasist", "mhfa", "ecapa"])
def test_back_ends_learn_with_it(back_end, waveforms):
    model = detector(SMALL, back_end).train()
    assert trainable_names(model)[:2] == [
        "front_end.model.low_shift",
        "front_end.model.width_shift",
    ]
    before = model(waveforms)[1].detach()
    optimiser = torch.optim.SGD(model.front_end.parameters(), 0.1)
    model(waveforms)[1].square().sum().backward()
    optimiser.step()
    assert not torch.equal(model(waveforms)[1], before)


def test_lengths_and_independence_of_utterances(waveforms):
    model = front_end(SMALL)
    for samples in (model.window, model.window + 159, model.window + 160, 7999):
        features = model(waveforms[:, :samples])
        assert features.shape == (2, model.frames(samples), 16)
        used = model.scoring_length(samples)
        torch.testing.assert_close(model(waveforms[:, :used]), features)
    torch.testing.assert_close(model(waveforms)[1:], model(waveforms[1:]), rtol=0, atol=1e-5)
    plain = model(waveforms)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model(waveforms), plain)


def test_it_comes_back_from_its_file_with_what_it_learnt(waveforms, tmp_path):
    network = detector(SMALL).eval()
    with torch.no_grad():
        network.front_end.model.low_shift += 0.003
    file = NetworkFile.from_network(network, sections(SMALL))
    write_network_file(tmp_path / "net.pt", file)
    again, _ = read_network(tmp_path / "net.pt")
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])
    frozen = detector({**SMALL, "front_end.frozen": True})
    assert trainable_names(frozen)[0].startswith("back_end.")


def test_it_is_exported_as_a_graph(tmp_path):
    network = detector(SMALL).eval()
    # Both compare the graph with the network.
    write_torchscript(network, tmp_path / "net.ts", 4000)
    assert "of any length" in write_onnx(network, tmp_path / "net.onnx")


def test_a_band_above_the_highest_frequency_is_refused():
    with pytest.raises(UsageError, match=r"sinc\.low_hz = 8000: the lowest filter"):
        front_end({"sinc.low_hz": 8000.0})

"""Constant-Q front ends against the paper's sums in numpy, scipy's splines, librosa and nnAudio."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.fft import dct
from scipy.interpolate import CubicSpline

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import UsageError
from asdf.extras.zoo.networks.constant_q import (
    constant_q_cepstrum,
    tone_frequencies,
    window_lengths,
)
from asdf.interchange import read_network, write_onnx, write_torchscript
from asdf.networks import CQCCFrontEnd, CQTFrontEnd, build_network
from asdf.networks.split import FromFeatures, feature_identity
from asdf.settings.sections import Sections, assign
from tests.unit.networks.inspection import trainable_names

KINDS = {"cqt": CQTFrontEnd, "cqcc": CQCCFrontEnd}
# Windows of 0.2 s and less, for clips of half a second.
SMALL = {"cqt.bins_per_octave": 12, "cqt.low_hz": 250.0, "cqt.offset_hz": 50.0}


def sections(kind: str, values: dict | None = None) -> Sections:
    settings = Sections()
    settings.front_end.front_end_class = kind
    assign(settings, SMALL if values is None else values)
    return settings


def front_end(kind: str, values: dict | None = None) -> CQTFrontEnd:
    return KINDS[kind].from_settings(sections(kind, values)).eval()


def detector(kind: str, back_end: str = "asp", **front_end_settings) -> torch.nn.Module:
    settings = sections(kind)
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.back_end.back_end_class = back_end
    assign(settings, {f"front_end.{name}": value for name, value in front_end_settings.items()})
    torch.manual_seed(0)
    return build_network(settings)


def power_of_paper(waveform: np.ndarray, middle: int, frequency: float, length: float) -> float:
    """Equations 3 to 6 of Todisco et al., 2017, one sample after another."""
    half = int(length // 2)
    total = 0j
    norm = 0.0
    for sample in range(middle - half, middle + half + 1):
        position = (sample - middle + length / 2) / length
        taper = 0.5 - 0.5 * np.cos(2 * np.pi * position)
        angle = 2 * np.pi * (sample - middle + length / 2) * frequency / 16000
        total += waveform[sample] * taper * np.exp(-1j * angle)
        norm += taper
    return abs(total / norm) ** 2


@pytest.mark.parametrize("offset_hz", [0.0, 228.7])
def test_powers_are_the_sums_of_the_paper(offset_hz, waveforms):
    values = {**SMALL, "cqt.bins_per_octave": 6, "cqt.offset_hz": offset_hz, "spectrum.hop": 400}
    model = front_end("cqt", values)
    features = model(waveforms).double().numpy()
    quality = 1 / (2 ** (1 / 6) - 1)
    frequencies = 250 * 2 ** (np.arange(30) / 6)
    assert model.dimension == 30 and np.allclose(model.frequencies_K, frequencies)
    for frame in (0, 3):
        for tone in (0, 7, 29):
            frequency = frequencies[tone]
            length = quality * 16000 / (frequency + offset_hz)
            expected = power_of_paper(
                waveforms[1].double().numpy(), frame * 400 + model.window // 2, frequency, length
            )
            assert features[1, frame, tone] == pytest.approx(np.log(expected), abs=2e-4)


def test_a_tone_is_in_its_bin_with_a_quarter_of_its_squared_amplitude():
    times = torch.arange(16000) / 16000
    waveform = (0.5 * torch.cos(2 * torch.pi * 1000 * times)).unsqueeze(0)
    powers = front_end("cqt", {"cqt.bins_per_octave": 24})(waveform)[0].exp()
    # 6 octaves above 15.625 Hz.
    assert torch.all(powers.argmax(dim=1) == 6 * 24)
    torch.testing.assert_close(
        powers[:, 144], torch.full((len(powers),), 0.0625), rtol=1e-3, atol=0
    )


def test_sizes_are_those_of_the_baselines():
    model = front_end("cqcc", {})
    assert len(model.frequencies_K) == 864 and model.dimension == 60
    assert model.frequencies_K[0] == 15.625 and model.frequencies_K[-1] < 8000
    assert model.window == 9037 and model.hop == 160
    assert front_end("cqt", {}).dimension == 432


def test_cepstra_are_scipys_cosine_transform_of_scipys_spline(waveforms):
    values = {**SMALL, "spectrum.deltas": 0, "spectrum.coefficients": 13}
    logarithms = front_end("cqt", values)(waveforms)[0].double().numpy()
    frequencies = 250 * 2 ** (np.arange(60) / 12)
    uniform = np.arange(250, frequencies[-1], 250 / 16)
    spline = CubicSpline(frequencies, logarithms, axis=1, bc_type="not-a-knot")
    expected = dct(spline(uniform), norm="ortho")[:, :13]
    ours = front_end("cqcc", values)(waveforms)[0].numpy()
    np.testing.assert_allclose(ours, expected, rtol=0, atol=3e-3)


def test_the_cepstrums_matrix_is_exact_in_the_baselines_sizes():
    frequencies = tone_frequencies(15.625, 8000, 96)
    values = np.random.default_rng(0).normal(size=(3, 864))
    uniform = 15.625 + 15.625 / 16 * np.arange(8118)
    assert uniform[-1] < frequencies[-1] < uniform[-1] + 15.625 / 16
    spline = CubicSpline(frequencies, values, axis=1, bc_type="not-a-knot")
    expected = dct(spline(uniform), norm="ortho")[:, :20]
    ours = values @ constant_q_cepstrum(frequencies, 16, 20)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-9)


def test_librosas_windows_are_as_long(waveforms):
    librosa = pytest.importorskip("librosa")
    frequencies = librosa.cqt_frequencies(60, fmin=250.0, bins_per_octave=12)
    ours = window_lengths(tone_frequencies(250.0, 8000, 12), 12, 0.0)
    assert np.allclose(tone_frequencies(250.0, 8000, 12), frequencies)
    lengths, _ = librosa.filters.wavelet_lengths(freqs=frequencies, sr=16000, gamma=0, alpha=None)
    # Its Q is that of both neighbours, 3 % more at 12 bins per octave.
    np.testing.assert_allclose(ours * (1 + 2 ** (1 / 12)) / 2, lengths, rtol=2e-3)


def test_levels_are_those_of_nnaudio(waveforms):
    nnaudio = pytest.importorskip("nnAudio.features")
    theirs = nnaudio.CQT1992v2(
        sr=16000,
        hop_length=160,
        fmin=250,
        n_bins=59,
        bins_per_octave=12,
        center=False,
        verbose=False,
        norm=1,
    )
    model = front_end("cqt", {**SMALL, "cqt.offset_hz": 0.0})
    # Its windows of whole samples lie in the middle of one of a power of two.
    lead = theirs.kernel_width // 2 - model.window // 2
    levels = theirs(waveforms, normalization_type="convolutional")
    expected = levels[0].square().log().T
    ours = model(waveforms[:, lead:])[0, : len(expected), :59]
    gap = (ours - expected).abs()
    # Half a percent of a window's length: 0.1 dB, more where waves cancel each other.
    assert gap.median() < 0.02 and np.corrcoef(ours.flatten(), expected.flatten())[0, 1] > 0.999


@pytest.mark.parametrize("kind", KINDS)
def test_lengths_and_independence_of_frames_and_utterances(kind, waveforms):
    model = front_end(kind)
    for samples in (model.window, model.window + 159, model.window + 160, 7999):
        features = model(waveforms[:, :samples])
        assert features.shape == (2, model.frames(samples), model.dimension)
        used = model.scoring_length(samples)
        assert torch.equal(model(waveforms[:, :used]), features)
    whole = front_end(kind, {**SMALL, "spectrum.deltas": 0})
    torch.testing.assert_close(
        whole(waveforms[:, 320:])[:, :9], whole(waveforms)[:, 2:11], rtol=0, atol=2e-3
    )
    torch.testing.assert_close(model(waveforms)[1:], model(waveforms[1:]), rtol=0, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("back_end", ["lcnn", "resnet18", "aasist", "mhfa"])
def test_back_ends_learn_behind_it_and_nothing_else_does(kind, back_end, waveforms):
    model = detector(kind, back_end).train()
    assert not any(name.startswith("front_end.") for name in model.state_dict())
    model(waveforms)[1].square().sum().backward()
    assert all(weight.grad is not None for weight in model.parameters() if weight.requires_grad)
    assert trainable_names(model)[0].startswith("back_end.")


@pytest.mark.parametrize("kind", KINDS)
def test_it_comes_back_from_its_file_and_can_be_cached(kind, waveforms, tmp_path):
    network = detector(kind, frozen=True).eval()
    settings = sections(kind)
    settings.front_end.frozen = True
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.back_end.back_end_class = "asp"
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    again, _ = read_network(tmp_path / "net.pt")
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])
    features = network.front_end_features(waveforms)
    assert torch.equal(FromFeatures(network)(features)[1], network(waveforms)[1])
    settings.cqt.offset_hz = 60.0
    assert feature_identity(build_network(settings)) != feature_identity(network)


@pytest.mark.parametrize("kind", KINDS)
def test_features_are_in_float32_and_normalised_as_others(kind, waveforms):
    model = front_end(kind)
    plain = model(waveforms)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model(waveforms), plain)
    centred = front_end(kind, {**SMALL, "spectrum.normalization": "mean"})(waveforms)
    torch.testing.assert_close(centred, plain - plain.mean(dim=1, keepdim=True))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_exported_as_a_graph(kind, tmp_path):
    network = detector(kind).eval()
    # Both compare the graph with the network.
    write_torchscript(network, tmp_path / "net.ts", 6000)
    assert "of any length" in write_onnx(network, tmp_path / "net.onnx")


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("cqt", {"cqt.low_hz": 8000.0}, r"cqt\.low_hz is 8000 and cqt\.high_hz 8000"),
        ("cqt", {"cqt.high_hz": 9000.0}, "at most 8000"),
        ("cqt", {"cqt.low_hz": 1.0, "cqt.offset_hz": 0.0}, r"its window would be 69 s long"),
        ("cqcc", {"spectrum.coefficients": 900}, "coefficients is 900, and there are 864 tones"),
        ("cqcc", {"cqt.high_hz": 15.8}, "there are 2 tones"),
        ("cqcc", {"cqt.samples_per_octave": 1024}, r"519,492 uniform frequencies; the max"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(kind, values, message):
    with pytest.raises(UsageError, match=message):
        front_end(kind, values)

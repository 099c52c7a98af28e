"""Spectral front ends against the official baseline's formula in numpy, and against torchaudio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
import torchaudio
from scipy.fft import dct

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import UsageError
from asdf.interchange import read_network, write_onnx, write_torchscript
from asdf.networks import FrontEnd, build_network
from asdf.networks.filters import cosine_transform, linear_filters, mel_filters
from asdf.networks.split import FromFeatures, feature_identity
from asdf.networks.ssl_detector import find_front_end_class
from asdf.settings.sections import Sections
from tests.unit.networks.inspection import trainable_names

# Values per frame and samples of the first frame.
KINDS = {
    "raw": (1, 1),
    "spectrogram": (257, 320),
    "filter_bank": (60, 320),
    "log_mel": (80, 400),
    "lfcc": (60, 320),
    "mfcc": (60, 320),
}
SPECTRAL = [kind for kind in KINDS if kind != "raw"]


def sections(kind: str, **spectrum) -> Sections:
    settings = Sections()
    settings.front_end.front_end_class = kind
    for name, value in spectrum.items():
        setattr(settings.spectrum, name, value)
    return settings


def front_end(kind: str, **spectrum) -> FrontEnd:
    settings = sections(kind, **spectrum)
    kind_class = find_front_end_class(settings.front_end)
    assert kind_class is not None
    return kind_class.from_settings(settings)


def detector(kind: str, network: str = "SSL_ASP", **front_end_settings) -> torch.nn.Module:
    settings = sections(kind)
    settings.network.network_class = f"asdf.networks.{network}"
    settings.front_end = replace(settings.front_end, **front_end_settings)
    torch.manual_seed(0)
    return build_network(settings)


def triangles(n_fft: int, low: float, high: float, filters: int) -> tuple[slice, np.ndarray]:
    """The official filter bank: each triangle by itself, from fractions of half the sample rate."""
    first = int(low * (n_fft // 2 + 1))
    last = int(high * (n_fft // 2 + 1))
    frequencies = 8000 * np.linspace(low, high, last - first)
    edges = np.linspace(frequencies[0], frequencies[-1], filters + 2)
    bank = np.zeros((last - first, filters))
    for number in range(filters):
        a, b, c = edges[number : number + 3]
        for bin_number, hertz in enumerate(frequencies):
            if a < hertz < b:
                bank[bin_number, number] = (hertz - a) / (b - a)
            elif b < hertz < c:
                bank[bin_number, number] = (c - hertz) / (c - b)
            elif hertz == b:
                bank[bin_number, number] = 1
    return slice(first, last), bank


def differences(features: np.ndarray) -> np.ndarray:
    padded = np.pad(features, ((1, 1), (0, 0)), "edge")
    return padded[2:] - padded[:-2]


def official_static(waveform: np.ndarray, n_fft: int = 1024, high: float = 0.5) -> np.ndarray:
    """Static LFCC of the official baseline, (frames, 20): zeros around the waveform, framed."""
    emphasized = waveform.copy()
    emphasized[1:] -= 0.97 * waveform[:-1]
    padded = np.pad(emphasized, n_fft // 2)
    window = np.zeros(n_fft)
    left = (n_fft - 320) // 2
    # A periodic Hamming window in the middle of each frame of the Fourier transform.
    window[left : left + 320] = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(320) / 320)
    bins, bank = triangles(n_fft, 0, high, 20)
    rows = []
    for start in range(0, len(waveform) + 1, 160):
        spectrum = np.fft.rfft(padded[start : start + n_fft] * window)
        powers = np.abs(spectrum[bins]) ** 2
        row = dct(np.log10(powers @ bank + 2**-23), norm="ortho")
        row[0] = np.log10(powers.sum() / n_fft + 2**-23)
        rows.append(row)
    return np.array(rows)


def test_lfcc_is_the_official_baselines_where_no_padding_is_seen(waveforms):
    features = front_end("lfcc")(waveforms)
    assert features.shape == (2, 49, 60)
    for waveform, ours in zip(waveforms.double().numpy(), features.numpy(), strict=True):
        # Its first frame begins 160 samples before the waveform.
        static = official_static(waveform)[1:50]
        deltas = differences(static)
        expected = np.concatenate([static, deltas, differences(deltas)], axis=1)
        np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-4)


def test_lfcc_without_a_band_limit_as_in_the_literature(waveforms):
    model = front_end("lfcc", n_fft=512, high_hz=8000.0, deltas=0)
    expected = official_static(waveforms[0].double().numpy(), 512, 1.0)[1:50]
    np.testing.assert_allclose(model(waveforms)[0].numpy(), expected, rtol=0, atol=2e-4)


def test_matrices_are_those_of_torchaudio():
    functional = torchaudio.functional
    linear = functional.linear_fbanks(257, 0.0, 8000.0, 60, 16000)
    np.testing.assert_allclose(linear_filters(512, 60, 0, 8000), linear, atol=1e-5)
    mel = functional.melscale_fbanks(257, 100.0, 7600.0, 40, 16000)
    band = mel_filters(512, 40, 100, 7600)
    np.testing.assert_allclose(band, mel[3 : 3 + len(band)], atol=1e-5)
    assert mel[:3].count_nonzero() == 0 and mel[3 + len(band) :].count_nonzero() == 0
    matrix = functional.create_dct(13, 20, "ortho")
    np.testing.assert_allclose(cosine_transform(20, 13), matrix, atol=3e-6)


def test_mel_features_are_torchaudios_without_padding(waveforms):
    plain = {"window_shape": "hann", "pre_emphasis": 0.0}
    mel = torchaudio.transforms.MelSpectrogram(
        n_fft=512, win_length=512, hop_length=160, n_mels=80, center=False
    )
    expected_BLC = (mel(waveforms) + 2**-23).log10().transpose(1, 2)
    ours_BLC = front_end("log_mel", window=512, **plain)(waveforms)
    torch.testing.assert_close(ours_BLC, expected_BLC, rtol=0, atol=1e-4)
    power = torchaudio.transforms.Spectrogram(n_fft=400, hop_length=160, center=False)
    expected_BLC = (power(waveforms) + 2**-23).log10().transpose(1, 2)
    ours_BLC = front_end("spectrogram", window=400, n_fft=400, **plain)(waveforms)
    torch.testing.assert_close(ours_BLC, expected_BLC, rtol=0, atol=1e-4)


def test_mfcc_is_the_transform_of_log_mel(waveforms):
    sizes = {"window": 400, "filters": 30, "deltas": 0}
    bands_BLN = front_end("log_mel", **sizes)(waveforms)
    expected_BLC = bands_BLN @ torchaudio.functional.create_dct(12, 30, "ortho")
    ours_BLC = front_end("mfcc", coefficients=12, energy=False, **sizes)(waveforms)
    torch.testing.assert_close(ours_BLC, expected_BLC, rtol=0, atol=1e-4)


def test_raw_samples_come_one_by_one_or_in_frames(waveforms):
    assert torch.equal(front_end("raw")(waveforms).squeeze(2), waveforms)
    framed = front_end("raw", window=40, hop=20)
    assert torch.equal(framed(waveforms)[:, 3], waveforms[:, 60:100])
    assert framed.dimension == 40


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_and_lengths_of_each_kind(kind, waveforms):
    model = front_end(kind).eval()
    dimension, window = KINDS[kind]
    assert (model.dimension, model.window) == (dimension, window)
    for samples in (window, window + 159, window + 160, 7999):
        features = model(waveforms[:, :samples])
        assert features.shape == (2, model.frames(samples), dimension)
        used = model.scoring_length(samples)
        assert torch.equal(model(waveforms[:, :used]), features)
        if used > window:
            assert model(waveforms[:, : used - 1]).shape[1] == features.shape[1] - 1


def test_normalisation_over_time(waveforms):
    plain = front_end("lfcc")(waveforms)
    mean = plain.mean(dim=1, keepdim=True)
    centred = front_end("lfcc", normalization="mean")(waveforms)
    torch.testing.assert_close(centred, plain - mean)
    scaled = front_end("lfcc", normalization="mean_variance")(waveforms)
    deviation = plain.std(dim=1, keepdim=True, correction=0)
    torch.testing.assert_close(scaled, (plain - mean) / deviation, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", SPECTRAL)
def test_behind_it_the_back_end_learns_and_nothing_else(kind, waveforms):
    model = detector(kind, "SSL_MHFA").train()
    assert not any(name.startswith("front_end.") for name in trainable_names(model))
    assert not any(name.startswith("front_end.") for name in model.state_dict())
    model(waveforms)[1].square().sum().backward()
    gradients = [weight.grad for weight in model.parameters() if weight.requires_grad]
    assert all(gradient is not None for gradient in gradients)


def test_masks_are_drawn_in_training_and_their_vector_learns(waveforms):
    masks = {"time_mask_proportion": 0.5, "channel_mask_proportion": 0.2, "channel_mask_length": 6}
    model = detector("lfcc", **masks).train()
    masked_BLC = model.front_end(waveforms)
    vector_C = model.front_end.masking.embedding
    is_masked = (masked_BLC == vector_C) | (masked_BLC == 0)
    assert 0.2 < is_masked.float().mean() < 0.8
    assert trainable_names(model)[0] == "front_end.masking.embedding"
    unmasked_BLC = model.eval().front_end(waveforms)
    assert torch.equal(unmasked_BLC, detector("lfcc").front_end(waveforms))


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_its_features_can_be_cached(kind, waveforms):
    network = detector(kind, frozen=True).eval()
    features = network.front_end_features(waveforms)
    assert torch.equal(FromFeatures(network)(features)[1], network(waveforms)[1])
    identities = [feature_identity(network)]
    for change in ({"hop": 80, "window": 400}, {"pre_emphasis": 0.5}):
        other = sections(kind, **change)
        other.network.network_class = "asdf.networks.SSL_ASP"
        other.front_end.frozen = True
        identities.append(feature_identity(build_network(other)))
    assert identities[0] != identities[1]
    if kind != "raw":
        assert identities[0] != identities[2]
        assert identities[0] != feature_identity(
            detector("mfcc" if kind == "lfcc" else "lfcc", frozen=True)
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_comes_back_from_its_file_with_the_settings_of_its_features(
    kind, waveforms, tmp_path
):
    settings = sections(kind, window=300, hop=150, pre_emphasis=0.9)
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.back_end.back_end_class = "asp"
    network = build_network(settings).eval()
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    again, _ = read_network(tmp_path / "net.pt")
    assert again.front_end.window == 300
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])


@pytest.mark.parametrize("kind", SPECTRAL)
def test_features_are_in_float32_whatever_autocast_says(kind, waveforms):
    model = front_end(kind).eval()
    expected = model(waveforms)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model(waveforms), expected)


def test_shapes_are_known_without_numbers():
    with torch.device("meta"):
        assert detector("lfcc", "SSL_AASIST")(torch.empty(1, 8000))[1].shape == (1, 2)


@pytest.mark.parametrize(
    ("spectrum", "message"),
    [
        ({"window": 2000}, r"spectrum\.window is 2000 samples, and spectrum\.n_fft is 1024"),
        ({"coefficients": 30}, r"spectrum\.coefficients is 30, but spectrum\.filters is 20"),
        ({"low_hz": 5000.0}, r"spectrum\.low_hz is 5000 and spectrum\.high_hz 4000"),
        ({"high_hz": 9000.0}, "at most 8000"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(spectrum, message):
    with pytest.raises(UsageError, match=message):
        front_end("lfcc", **spectrum)


@pytest.mark.parametrize("kind", ["lfcc", "log_mel", "spectrogram"])
def test_it_is_exported_as_a_graph(kind, tmp_path):
    settings = sections(kind)
    settings.network.network_class = "asdf.networks.ComposedDetector"
    # Its norm needs to know the number of values.
    settings.back_end.back_end_class = "mlp"
    network = build_network(settings).eval()
    # Both compare the graph with the network.
    write_torchscript(network, tmp_path / "net.ts", 4000)
    assert "of any length" in write_onnx(network, tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").stat().st_size > 1000

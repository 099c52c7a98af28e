"""Constant-Q front ends against the paper's sums in numpy and scipy's splines."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.fft import dct
from scipy.interpolate import CubicSpline

from asdf.errors import UsageError
from asdf.extras.zoo.networks.constant_q import constant_q_cepstrum, tone_frequencies
from asdf.networks import CQCCFrontEnd, CQTFrontEnd, build_network
from asdf.networks.split import feature_identity
from asdf.settings.sections import Sections, assign

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


@pytest.mark.parametrize("kind", KINDS)
def test_frames_depend_on_their_windows_and_are_normalised_as_others(kind, waveforms):
    whole = front_end(kind, {**SMALL, "spectrum.deltas": 0})
    torch.testing.assert_close(
        whole(waveforms[:, 320:])[:, :9], whole(waveforms)[:, 2:11], rtol=0, atol=2e-3
    )
    plain = front_end(kind)(waveforms)
    centred = front_end(kind, {**SMALL, "spectrum.normalization": "mean"})(waveforms)
    torch.testing.assert_close(centred, plain - plain.mean(dim=1, keepdim=True))


@pytest.mark.parametrize("kind", KINDS)
def test_features_of_other_windows_are_others(kind):
    identities = []
    for offset_hz in (50.0, 60.0):
        settings = sections(kind, {**SMALL, "cqt.offset_hz": offset_hz})
        settings.network.network_class = "asdf.networks.SSL_ASP"
        settings.front_end.frozen = True
        identities.append(feature_identity(build_network(settings)))
    assert identities[0] != identities[1]


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

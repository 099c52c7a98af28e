"""Statistics over time are those of numpy and scipy, and forget what a channel adds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kurtosis, skew

from asdf.extras.zoo.networks.moments import LAGS, PULSES, SOUNDS, STEPS, BandEnergies
from asdf.networks import MomentsFrontEnd, build_network
from asdf.settings.sections import Sections

SECOND = 16_000


@pytest.fixture
def waveforms() -> torch.Tensor:
    """Noise whose level changes at the pace of syllables, of unit variance: (2, 24000)."""
    generator = torch.Generator().manual_seed(5)
    noise_BT = torch.randn(2, 24_000, generator=generator)
    swell_T = 1.2 + torch.sin(torch.arange(24_000) / 2000)
    x_BT = noise_BT * swell_T
    return x_BT / x_BT.std(dim=1, keepdim=True)


def front_end(*parts: str) -> MomentsFrontEnd:
    settings = Sections()
    if parts:
        settings.moments.parts = parts
    return MomentsFrontEnd.from_settings(settings)


def group(model: MomentsFrontEnd, features_B1S: torch.Tensor, name: str) -> np.ndarray:
    return features_B1S[0, 0, list(model.groups[name])].numpy()


def moving(roots_NL: np.ndarray) -> np.ndarray:
    """Band energies without what is slower than 17 frames."""
    window = np.ones(17) / 17
    means = [np.convolve(row, window, "valid") for row in roots_NL]
    return roots_NL[:, 8:-8] - np.array(means)


def test_sounds_have_scipys_skewness_and_kurtosis(waveforms):
    model = front_end()
    features = model(waveforms)
    logs_NL = (model.model.sounds(waveforms)[0].double() + 1e-3).log().numpy()
    levels = group(model, features, "sound levels")
    np.testing.assert_allclose(levels[:40], skew(logs_NL, axis=1), rtol=0.01, atol=0.005)
    expected = np.log(kurtosis(logs_NL, axis=1, fisher=False))
    np.testing.assert_allclose(levels[40:], expected, atol=0.01)
    for step in STEPS:
        steps_NL = logs_NL[:, step:] - logs_NL[:, :-step]
        values = group(model, features, f"sound changes, {step}0 ms")
        np.testing.assert_allclose(values[:40], skew(steps_NL, axis=1), rtol=0.01, atol=0.005)
        expected = np.log(kurtosis(steps_NL, axis=1, fisher=False))
        np.testing.assert_allclose(values[40:], expected, atol=0.01)
    first, second = np.diff(logs_NL), np.diff(logs_NL, n=2)
    expected = np.log(second.std(axis=1) / first.std(axis=1))
    np.testing.assert_allclose(group(model, features, "sound smoothness"), expected, atol=0.01)


def test_pulses_have_numpys_correlations(waveforms):
    model = front_end()
    features = model(waveforms)
    powers_NL = model.model.pulses(waveforms)[0].double().numpy()
    x_NL = moving(powers_NL**0.25)
    bands = PULSES.bands
    matrix = np.corrcoef(x_NL)
    expected = matrix[np.triu_indices(bands, 1)]
    values = group(model, features, "pulse correlations")
    np.testing.assert_allclose(values, expected, atol=0.01)
    for lag in LAGS:
        values = group(model, features, f"pulse correlations, {lag} ms").reshape(bands, bands)
        # Row: the later band; its mean and deviation are those of all frames.
        unit_NL = (x_NL - x_NL.mean(axis=1, keepdims=True)) / x_NL.std(axis=1, keepdims=True)
        later, earlier = unit_NL[3, lag:], unit_NL[7, :-lag]
        assert values[3, 7] == pytest.approx((later * earlier).mean(), abs=0.01)


def test_band_energies_are_powers_under_mel_triangles():
    # A sine in the middle of the spectrum of ones: all its power lies around 1 kHz.
    time = torch.arange(SECOND) / SECOND
    sine_BT = (2 * np.pi * 1000 * time).sin().unsqueeze(0)
    powers_NL = BandEnergies(SOUNDS)(sine_BT)[0]
    strongest = int(powers_NL.mean(dim=1).argmax())
    edges_mel = np.linspace(2595 * np.log10(1 + 80 / 700), 2595 * np.log10(1 + 7600 / 700), 42)
    middles_hz = 700 * (10 ** (edges_mel[1:-1] / 2595) - 1)
    assert strongest == int(np.abs(middles_hz - 1000).argmin())
    assert powers_NL.shape == (40, (SECOND - 400) // 160 + 1)


def test_a_colour_and_a_level_change_next_to_nothing(waveforms):
    model = front_end("sounds")
    spectrum = torch.fft.rfft(waveforms)
    # 12 dB from the lowest to the highest frequency, as of another microphone.
    tilt = 10 ** (torch.linspace(0, 12, spectrum.shape[1]) / 20)
    coloured = torch.fft.irfft(spectrum * tilt, waveforms.shape[1])
    difference = (model(coloured) - model(waveforms)).abs().mean()
    # Another recording is far away by the same measure.
    features = model(waveforms)
    assert difference < 0.2 * (features[0] - features[1]).abs().mean()


def test_time_reversed_speech_has_opposite_changes(waveforms):
    model = front_end("sounds")
    # A frame of the reversed waveform is the reversed frame where windows fit exactly.
    # Windows fit exactly; torch's Hann window is longer by a zero at one end only.
    whole = waveforms[:, : 400 + 160 * 140]
    forwards, backwards = model(whole), model(whole.flip(1))
    for step in STEPS:
        values = group(model, forwards, f"sound changes, {step}0 ms")
        reversed_values = group(model, backwards, f"sound changes, {step}0 ms")
        np.testing.assert_allclose(values[:40], -reversed_values[:40], atol=0.03)
        np.testing.assert_allclose(values[40:], reversed_values[40:], atol=0.03)


def test_parts_choose_statistics(waveforms):
    both, pulses, sounds = front_end(), front_end("pulses"), front_end("sounds")
    assert (pulses.dimension, sounds.dimension, both.dimension) == (735, 440, 1175)
    together = torch.cat([pulses(waveforms), sounds(waveforms)], dim=2)
    assert torch.equal(both(waveforms), together)
    assert both.feature_settings() != pulses.feature_settings()


def test_samples_behind_the_last_windows_do_not_count(waveforms):
    model = front_end()
    used = model.used_samples(23_999)
    # Pulses: 80 + 16 k; sounds: 400 + 160 k.
    assert used == 80 + 16 * ((23_999 - 80) // 16)
    assert torch.equal(model(waveforms[:, :used]), model(waveforms[:, :23_999]))
    assert not torch.equal(model(waveforms[:, : used - 16]), model(waveforms[:, :used]))


def test_one_frame_from_a_third_of_a_second_on(waveforms):
    model = front_end()
    assert model.window == 400 + 31 * 160
    assert [model.frames(samples) for samples in (5359, 5360, 10_000_000)] == [0, 1, 1]
    assert model(waveforms[:, :5360]).shape == (2, 1, 1175)
    # A shorter one is repeated.
    short = waveforms[:, :3000]
    repeated = torch.cat([short, short], dim=1)[:, :5360]
    assert torch.equal(model(short), model(repeated))


def test_silence_has_finite_statistics():
    features = front_end()(torch.zeros(1, SECOND))
    assert torch.isfinite(features).all()


def test_the_detector_scores_recordings_alike_alone_and_together(waveforms):
    settings = Sections()
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.front_end.front_end_class = "moments"
    settings.back_end.back_end_class = "mlp"
    torch.manual_seed(0)
    network = build_network(settings).eval()
    with torch.no_grad():
        embeddings, together = network(waveforms)
        _, alone = network(waveforms[1:])
    assert embeddings.shape == (2, 64)
    torch.testing.assert_close(together[1:], alone, atol=1e-5, rtol=0)
    assert sum(parameter.numel() for parameter in network.parameters()) == 1175 * 64 + 64 + 130

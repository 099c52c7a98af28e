"""The front end of band-passes that learn, against the fixed ones and numpy's convolution."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from asdf.errors import UsageError
from asdf.networks import SincFrontEnd
from asdf.networks.filters import band_pass_filters
from asdf.settings.sections import Sections, assign

SMALL = {"sinc.filters": 16, "sinc.taps": 64}


def front_end(values: dict) -> SincFrontEnd:
    settings = Sections()
    settings.front_end.front_end_class = "sinc"
    assign(settings, values)
    return SincFrontEnd.from_settings(settings).eval()


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


def test_a_band_above_the_highest_frequency_is_refused():
    with pytest.raises(UsageError, match=r"sinc\.low_hz = 8000: the lowest filter"):
        front_end({"sinc.low_hz": 8000.0})

"""Bandwidth limits and masks of time and frequency."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio.augmentation.filtering import Bandwidth, FrequencyMask, TimeMask, limit_bandwidth
from tests.augmentations import augmentation


def bands_of(**values: float) -> FrequencyMask:
    return FrequencyMask(augmentation(**values), Path())


def stretches_of(**values: float) -> TimeMask:
    return TimeMask(augmentation(**values), Path())


def test_the_drawn_bands_are_stopped_and_the_rest_passes():
    part = bands_of(frequency_mask_max_hz=1500.0)
    # Tones of whole periods in 32,000 samples: amplitudes can be read off the spectrum.
    tones_hz = np.arange(50, 8000, 50)
    t = np.arange(64000) / 16000
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, len(tones_hz))
    tones = [np.cos(2 * np.pi * hz * t + phase) for hz, phase in zip(tones_hz, phases, strict=True)]
    clip = np.sum(tones, 0).astype(np.float32)
    masked = part.apply(clip, np.random.default_rng(8))
    assert masked.shape == clip.shape and masked.dtype == np.float32

    rng = np.random.default_rng(8)
    bands = [part.draw(rng) for _ in range(2)]
    inner = slice(16000, 48000)
    gains = np.fft.rfft(masked[inner])[2 * tones_hz] / np.fft.rfft(clip[inner])[2 * tones_hz]
    inside = np.zeros(len(tones_hz), bool)
    outside = np.ones(len(tones_hz), bool)
    for lowest, highest in bands:
        inside |= (tones_hz > lowest + 45) & (tones_hz < highest - 45)
        outside &= (tones_hz < lowest - 45) | (tones_hz > highest + 45)
    assert inside.sum() > 15 and outside.sum() > 100
    assert np.abs(gains[inside]).max() < 3e-4
    # No delay either: the gain is 1, not of modulus 1.
    assert_allclose(gains[outside], 1, atol=3e-4)


def test_bands_are_as_wide_as_allowed_and_lie_anywhere():
    part = bands_of(frequency_mask_max_hz=2000.0)
    rng = np.random.default_rng(1)
    lowest, highest = np.array([part.draw(rng) for _ in range(2000)]).T
    widths = highest - lowest
    assert 0 <= widths.min() < 10 and 1990 < widths.max() <= 2000
    assert abs(widths.mean() - 1000) < 40
    assert lowest.min() < 20 and 7980 < highest.max() <= 8000


def test_a_clip_shorter_than_the_filter_is_filtered():
    clip = np.random.default_rng(0).standard_normal(401).astype(np.float32)
    part = bands_of()
    part.count = 3
    coefficients = np.zeros(3 * 1024 + 1)
    coefficients[1536] = 1.0
    whole = part.apply(coefficients.astype(np.float32), np.random.default_rng(2))
    wanted = np.convolve(clip, whole)[1536 : 1536 + 401]
    assert_allclose(part.apply(clip, np.random.default_rng(2)), wanted, atol=1e-5)


def test_stretches_are_silent_and_all_else_stays(speech):
    part = stretches_of(time_mask_max_s=0.25)
    part.count = 3
    masked = part.apply(speech, np.random.default_rng(4))
    rng = np.random.default_rng(4)
    touched = np.zeros(len(speech), bool)
    for _ in range(3):
        start, length = part.draw(len(speech), rng)
        touched[start : start + length] = True
        assert not masked[start + 32 : start + length - 32].any()
    assert 2000 < touched.sum() < 12000
    assert_array_equal(masked[~touched], speech[~touched])
    assert masked.dtype == np.float32


def test_a_stretch_begins_and_ends_without_a_step():
    part = stretches_of()
    part.count = 1
    masked = part.apply(np.ones(16000, np.float32), np.random.default_rng(0))
    assert masked.min() == 0 and np.abs(np.diff(masked)).max() < np.pi / 64
    for length in range(5):
        gains = part.apply(np.ones(length, np.float32), np.random.default_rng(length))
        assert gains.shape == (length,) and np.isfinite(gains).all()


def test_stretches_are_as_long_as_allowed_and_lie_anywhere():
    part = stretches_of(time_mask_max_s=0.1)
    rng = np.random.default_rng(1)
    starts, lengths = np.array([part.draw(16000, rng) for _ in range(3000)]).T
    assert lengths.min() < 5 and 1595 < lengths.max() <= 1600 and abs(lengths.mean() - 800) < 30
    assert starts.min() < 30 and 15970 < (starts + lengths).max() <= 16000
    assert part.draw(0, rng) == (0, 0)


@pytest.mark.parametrize("part", [bands_of(), stretches_of()])
def test_what_is_masked_follows_from_the_generator(part, speech):
    before = speech.copy()
    first = part.apply(speech, np.random.default_rng(3))
    assert_array_equal(part.apply(speech, np.random.default_rng(3)), first)
    assert not np.array_equal(part.apply(speech, np.random.default_rng(4)), first)
    assert_array_equal(speech, before)


@pytest.mark.parametrize("limit_hz", [300, 3400, 4000, 5512.5, 7900, 8000])
def test_above_the_limit_nothing_is_left_and_below_all_is(limit_hz):
    impulse = np.zeros(32000, np.float32)
    impulse[16000] = 1
    limited = limit_bandwidth(impulse, limit_hz)
    assert limited.dtype == np.float32 and limited.shape == impulse.shape
    # Taken to the impulse's own time: a delay would turn the phase.
    gains = np.fft.rfft(np.roll(limited, -16000))
    frequencies = np.arange(16001) / 2
    assert_allclose(gains[frequencies < limit_hz - 80], 1, atol=2e-4)
    above = gains[frequencies > limit_hz]
    assert np.abs(above).max(initial=0) < 2e-4


def test_limits_are_drawn_in_the_range(speech):
    part = Bandwidth(augmentation(), Path())
    white = np.random.default_rng(0).standard_normal(16000).astype(np.float32)
    rng = np.random.default_rng(1)
    limits = []
    for _ in range(200):
        power = np.abs(np.fft.rfft(part.apply(white, rng))) ** 2
        limits.append(np.flatnonzero(power > 1e-3 * power.mean())[-1] / 2 * 2)
    assert 3350 < min(limits) < 3500 and 7400 < max(limits) < 7500
    assert abs(np.mean(limits) - 5450) < 250
    first = part.apply(speech, np.random.default_rng(3))
    assert_array_equal(part.apply(speech, np.random.default_rng(3)), first)
    assert not np.array_equal(part.apply(speech, np.random.default_rng(4)), first)


def test_a_fixed_limit_is_that_of_the_range():
    part = Bandwidth(augmentation(), Path())
    part.min_hz = part.max_hz = 4000.0
    white = np.random.default_rng(0).standard_normal(9000).astype(np.float32)
    limited = part.apply(white, np.random.default_rng(0))
    assert_array_equal(limited, limit_bandwidth(white, 4000.0))
    assert part.describe() == "bandwidth (4000 to 4000 Hz)"

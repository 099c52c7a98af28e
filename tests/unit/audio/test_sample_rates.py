from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
import torchaudio
from numpy.testing import assert_allclose

from asdf.audio import sample_rates
from asdf.audio.sample_rates import resample, resampled_length, source_span


def noise(length: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, length).astype(np.float32)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_equals_torchaudio(rate):
    x = noise(3001)
    expected = torchaudio.functional.resample(torch.from_numpy(x), rate, 16000).numpy()
    assert resample(x, rate).dtype == np.float32
    assert_allclose(resample(x, rate), expected, rtol=0, atol=4e-7)


@pytest.mark.parametrize("rate", [8000, 11025, 44100])
def test_without_a_table_the_filter_is_the_same(rate, monkeypatch):
    x = noise(3001)
    with_table = resample(x, rate)
    monkeypatch.setattr(sample_rates, "_LARGEST_TABLE", 0)
    # torchaudio computes the table in float32.
    assert_allclose(resample(x, rate), with_table, atol=1e-4)


def test_rates_without_a_common_factor():
    """11,127 Hz, of old Macintosh recordings: a table of the phases would take gigabytes."""
    seconds = np.arange(11127) / 11127
    y = resample(np.sin(2 * np.pi * 440 * seconds).astype(np.float32), 11127)
    assert len(y) == 16000
    expected = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    assert_allclose(y[200:-200], expected[200:-200], atol=2e-3)


@pytest.mark.parametrize("rate", [8000, 11127, 16000, 44100, 48000, 96000])
def test_length_is_the_ceiling_of_the_exact_quotient(rate):
    for frames in (1, 2, 3, 441, 1000, 44101):
        x = noise(frames)
        assert (
            len(resample(x, rate)) == resampled_length(frames, rate) == -(-frames * 16000 // rate)
        )


def test_length_where_torchaudio_rounds():
    frames = 441 * 500 + pow(160, -1, 441)  # 1/441 more than a whole number of samples at 16 kHz
    x = noise(frames)
    short = torchaudio.functional.resample(torch.from_numpy(x), 44100, 16000).numpy()
    y = resample(x, 44100)
    assert len(y) == len(short) + 1 == frames * 160 // 441 + 1
    assert_allclose(y[:-1], short, atol=1e-6)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000, 11127])
def test_source_span_holds_all_that_an_output_depends_on(rate):
    x = noise(4 * rate)
    whole = resample(x, rate)
    for start, stop in ((0, 1), (1, 2), (30000, 30500), (33333, 33334), (63990, 64000)):
        first, last = source_span(start, stop, rate)
        offset = first * 16000 // rate
        assert first * 16000 % rate == 0 and offset <= start
        part = resample(x[first : min(last, len(x))], rate)[start - offset : stop - offset]
        assert_allclose(part, whole[start:stop], atol=1e-6)


def test_without_a_table_memory_is_that_of_a_part(monkeypatch):
    x = noise(20011)
    whole = resample(x, 1009)
    monkeypatch.setattr(sample_rates, "_AT_ONCE", 1000)
    assert np.array_equal(resample(x, 1009), whole)
    tracemalloc.start()
    try:
        resample(x, 1009)
        assert tracemalloc.get_traced_memory()[1] < 2 * whole.nbytes
    finally:
        tracemalloc.stop()

"""Inputs of encoders, held against the extractors of transformers."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import Tensor

from asdf.networks.casting import without_autocast
from asdf.networks.front_ends.spectral import StackedFilterBank, WhisperLogMel


def quiet_and_silent_parts(samples: int) -> Tensor:
    numbers = torch.Generator().manual_seed(samples)
    waveforms_BT = 0.1 * torch.randn(2, samples, generator=numbers)
    waveforms_BT[1, samples // 4 : samples // 2] *= 1e-4
    waveforms_BT[1, samples // 2 : samples // 2 + 1000] = 0
    return waveforms_BT


@pytest.mark.parametrize("samples", [8000, 64000])
def test_filter_banks_are_those_of_the_extractor_of_w2v_bert(samples):
    waveforms_BT = quiet_and_silent_parts(samples)
    x_BLC = StackedFilterBank(80)(waveforms_BT)
    extractor = transformers.SeamlessM4TFeatureExtractor()
    rows = list(waveforms_BT.numpy())
    expected = extractor(rows, sampling_rate=16000, return_tensors="pt").input_features
    # It appends a frame that it then masks. Its sums are float32, whose roundings reach 1e-5.
    torch.testing.assert_close(x_BLC, expected[:, : x_BLC.shape[1]], rtol=0, atol=3e-5)


@pytest.mark.parametrize("samples", [8000, 64000])
def test_log_mel_features_are_those_of_the_extractor_of_whisper(samples):
    waveforms_BT = quiet_and_silent_parts(samples)
    x_BNL = WhisperLogMel(80)(waveforms_BT)
    extractor = transformers.WhisperFeatureExtractor()
    for row_T, x_NL in zip(waveforms_BT, x_BNL, strict=True):
        # In numpy, as it computes without torch: then in float64.
        exact = extractor._np_extract_fbank_features(row_T.numpy()[None], "cpu")
        torch.testing.assert_close(x_NL, torch.from_numpy(exact[0]).float(), rtol=0, atol=1e-6)
        features = extractor(row_T.numpy(), sampling_rate=16000, padding=False, return_tensors="pt")
        torch.testing.assert_close(x_NL, features.input_features[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("inputs", [StackedFilterBank(80), WhisperLogMel(80)])
def test_features_are_float32_also_within_autocast_and_in_converted_networks(inputs):
    waveforms_BT = quiet_and_silent_parts(8000)
    expected = inputs(waveforms_BT)
    assert expected.dtype is torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16), without_autocast(waveforms_BT):
        assert torch.equal(inputs(waveforms_BT), expected)
    converted = type(inputs)(80).float()
    torch.testing.assert_close(converted(waveforms_BT), expected, rtol=0, atol=1e-4)

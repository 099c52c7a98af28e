"""The packed stem gives the frames of torchaudio's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchaudio.models.wav2vec2.components import FeatureExtractor, _get_feature_extractor

from asdf.extras.cpu.packed_wav2vec2 import PackedStem, pack_stem
from asdf.extras.cpu.packed_weights import is_available

pytestmark = pytest.mark.skipif(not is_available(), reason="torch lacks oneDNN's products here")

LAYERS = [[16, 10, 5], [24, 3, 2], [24, 2, 2]]


def make_stem(norm: str, bias: bool) -> FeatureExtractor:
    torch.manual_seed(3)
    stem = _get_feature_extractor(norm, LAYERS, bias).eval()
    for layer in stem.conv_layers:
        if layer.layer_norm is not None:
            nn.init.uniform_(layer.layer_norm.weight, 0.5, 2.0)
            nn.init.uniform_(layer.layer_norm.bias, -1.0, 1.0)
    return stem


@pytest.mark.parametrize("norm", ["group_norm", "layer_norm"])
@pytest.mark.parametrize("bias", [False, True])
def test_frames_are_the_plain_ones(norm, bias):
    stem = make_stem(norm, bias)
    assert pack_stem(stem, torch.float32)
    draw = torch.Generator().manual_seed(4)
    # Two levels, one of them with a constant added, and silence.
    waveforms_BT = torch.randn(3, 4000, generator=draw) * torch.tensor([[0.3], [0.001], [0.0]])
    waveforms_BT[1] += 0.05
    lengths_B = torch.tensor([4000, 3000, 2000])
    with torch.inference_mode():
        plain = stem(waveforms_BT, lengths_B)
        packed = PackedStem(stem, torch.float32)(waveforms_BT, lengths_B)
    torch.testing.assert_close(packed[0], plain[0], atol=2e-5, rtol=1e-5)
    assert torch.equal(packed[1], plain[1])


def test_a_norm_of_another_kind_stays_plain():
    stem = make_stem("group_norm", False)
    for norm in (nn.GroupNorm(2, 16), nn.GroupNorm(16, 16, affine=False)):
        stem.conv_layers[0].layer_norm = norm
        assert pack_stem(stem, torch.float32) is None

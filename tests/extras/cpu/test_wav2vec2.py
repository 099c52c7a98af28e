"""The packed stem and positions give the frames of torchaudio's."""

import pytest
import torch
from torch import nn
from torchaudio.models.wav2vec2.components import (
    ConvolutionalPositionalEmbedding,
    FeatureExtractor,
    _get_feature_extractor,
)

from asdf.extras.cpu.packed_wav2vec2 import PackedPositions, PackedStem, pack_stem
from asdf.extras.cpu.packed_weights import is_available

needs_packing = pytest.mark.skipif(not is_available(), reason="torch lacks oneDNN's products here")

LAYERS = [[16, 10, 5], [24, 3, 2], [24, 2, 2]]


def make_stem(norm: str, bias: bool) -> FeatureExtractor:
    torch.manual_seed(3)
    stem = _get_feature_extractor(norm, LAYERS, bias).eval()
    for layer in stem.conv_layers:
        if layer.layer_norm is not None:
            nn.init.uniform_(layer.layer_norm.weight, 0.5, 2.0)
            nn.init.uniform_(layer.layer_norm.bias, -1.0, 1.0)
    return stem


@needs_packing
@pytest.mark.parametrize("norm", ["group_norm", "layer_norm"])
@pytest.mark.parametrize("bias", [False, True])
def test_frames_of_the_stem_are_the_plain_ones(norm, bias):
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


@needs_packing
def test_a_norm_of_another_kind_stays_plain():
    stem = make_stem("group_norm", False)
    for norm in (nn.GroupNorm(2, 16), nn.GroupNorm(16, 16, affine=False)):
        stem.conv_layers[0].layer_norm = norm
        assert pack_stem(stem, torch.float32) is None


# Fewer frames than the kernel has, one segment exactly (257), one frame more, and several segments.
@pytest.mark.parametrize("frames", [1, 40, 257, 258, 1100])
@pytest.mark.parametrize(("kernel", "groups"), [(128, 4), (127, 1)])
def test_frames_with_positions_are_the_plain_ones(frames, kernel, groups):
    torch.manual_seed(frames)
    positions = ConvolutionalPositionalEmbedding(24, kernel, groups).eval()
    torch.nn.init.normal_(positions.conv.bias)
    draw = torch.Generator().manual_seed(5)
    # Of different levels: a loud utterance takes no digits from a soft one.
    x_BLC = torch.randn(2, frames, 24, generator=draw) * torch.tensor([20.0, 0.01]).view(2, 1, 1)
    with torch.inference_mode():
        plain_BLC = positions(x_BLC)
        packed_BLC = PackedPositions(positions)(x_BLC)
    assert packed_BLC.shape == (2, frames, 24)
    torch.testing.assert_close(packed_BLC[0], plain_BLC[0], atol=6e-5, rtol=1e-5)
    torch.testing.assert_close(packed_BLC[1], plain_BLC[1], atol=3e-6, rtol=1e-6)

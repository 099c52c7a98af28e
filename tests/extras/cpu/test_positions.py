"""The convolution of positions by Fourier transforms gives the frames of torchaudio's."""

from __future__ import annotations

import pytest
import torch
from torchaudio.models.wav2vec2.components import ConvolutionalPositionalEmbedding

from asdf.extras.cpu.packed_wav2vec2 import PackedPositions


# Fewer frames than the kernel has, one segment exactly (257), one frame more, and several segments.
@pytest.mark.parametrize("frames", [1, 40, 257, 258, 1100])
@pytest.mark.parametrize(("kernel", "groups"), [(128, 4), (127, 1)])
def test_frames_are_the_plain_ones(frames, kernel, groups):
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

"""wav2vec 2.0's convolution that encodes positions, computed by Fourier transforms.

Invariant: what torchaudio's layer computes. Its kernel spans 128 frames, so that a product of
spectra needs a fifth of the operations. Frames are cut into segments that overlap by a kernel; what
wraps around in a segment is thrown away (overlap-save).

Source: Oppenheim and Schafer, "Discrete-Time Signal Processing", section 8.7.3.

Shapes: B utterances, L frames, G groups of I channels coming in and O going out, C channels of all
groups, K values of a kernel, S segments of N frames, F frequencies; 1 a single value.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchaudio.models.wav2vec2.components import ConvolutionalPositionalEmbedding

# Of a segment. Shorter ones overlap more, longer ones are larger than a recording of 4 s.
_KERNELS = 3


class PackedPositions(nn.Module):
    """The convolution, with its weight norm computed once, and GELU."""

    def __init__(self, positions: ConvolutionalPositionalEmbedding) -> None:
        super().__init__()
        conv = positions.conv
        (self._kernel,) = conv.kernel_size
        (self._padding,) = conv.padding
        self._groups = conv.groups
        self._removed = positions.num_remove
        self._length = _KERNELS * self._kernel
        self._step = self._length - self._kernel + 1
        # Turned around: products of spectra are those of a convolution, the layer's a correlation.
        kernels_CIK = conv.weight.detach().double().flip(2)
        spectra_CIF = torch.fft.rfft(kernels_CIK, self._length).to(torch.complex64)
        spectra_GOIF = spectra_CIF.unflatten(0, (self._groups, -1))
        self._spectra_IGO1F = spectra_GOIF.permute(2, 0, 1, 3).unsqueeze(3).contiguous()
        self._bias_C = conv.bias.detach().clone()

    def forward(self, x_BLC: Tensor) -> Tensor:
        """Map (batch, frames, channels) to the same shape."""
        frames = x_BLC.shape[1] + 2 * self._padding - self._kernel + 1
        y_BLC = self._convolve(x_BLC.float(), frames)[:, : frames - self._removed]
        result_BLC: Tensor = F.gelu(y_BLC + self._bias_C)
        return result_BLC

    def _convolve(self, x_BLC: Tensor, frames: int) -> Tensor:
        """Return so many frames of all channels, without the bias."""
        segments = -(-frames // self._step)
        end = (segments - 1) * self._step + self._length
        padding = (self._padding, end - x_BLC.shape[1] - self._padding)
        x_BCSN = F.pad(x_BLC.transpose(1, 2), padding).unfold(2, self._length, self._step)
        x_BGISF = torch.fft.rfft(x_BCSN).unflatten(1, (self._groups, -1))
        y_BCSN = torch.fft.irfft(self._mix(x_BGISF).flatten(1, 2), self._length)
        # The first ones of each segment wrapped around.
        y_BCL = y_BCSN[..., self._kernel - 1 :].flatten(2)
        y_BLC: Tensor = y_BCL[..., :frames].transpose(1, 2)
        return y_BLC

    def _mix(self, x_BGISF: Tensor) -> Tensor:
        """Return the spectra (batch, G, O, S, F) of what goes out."""
        inputs = x_BGISF.unsqueeze(3).unbind(2)
        y_BGOSF: Tensor = inputs[0] * self._spectra_IGO1F[0]
        for x_BG1SF, spectra_GO1F in zip(inputs[1:], self._spectra_IGO1F[1:], strict=True):
            y_BGOSF.addcmul_(x_BG1SF, spectra_GO1F)
        return y_BGOSF

"""Front ends of the constant-Q transform: its log powers (CQT), and their cepstra (CQCC).

Invariant: as in the spectral front ends, a frame is computed from its window alone, features end
with the last whole window, and nothing is trained. The window is that of the lowest frequency;
those of higher frequencies lie in its middle.

Source: as in `constant_q_matrices.py`. The authors' code computes all frames from the Fourier
transform of the whole recording, which treats it as periodic; here each frame has the window of the
paper's equations.

Shapes: B utterances, T samples, L frames, K tones, W samples of a window, C feature values.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.extras.zoo.networks.constant_q_matrices import (
    constant_q_cepstrum,
    tone_frequencies,
    tone_matrix,
    window_lengths,
)
from asdf.extras.zoo.settings import ConstantQ, sections_of
from asdf.networks.front_ends.spectral import FramedFrontEnd, in_time
from asdf.networks.functions import windows
from asdf.settings.sections import FrontEnd as FrontEndSettings

HOP = 160
MAX_WINDOW = 2**18
MAX_UNIFORM = 2**17
# A spline with not-a-knot ends needs at least three pieces.
MIN_TONES = 4


@dataclass(frozen=True)
class Usual:
    """Default sizes for settings of None; 0 coefficients mean log powers without a transform."""

    bins_per_octave: int
    coefficients: int
    deltas: int


class CQTFrontEnd(FramedFrontEnd):
    """The logarithms of the powers of the constant-Q transform."""

    usual: ClassVar[Usual] = Usual(48, 0, 0)
    cacheable = True
    bins_per_octave: int
    coefficients: int
    frequencies_K: np.ndarray

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read the section `cqt`, and the settings of `spectrum` for all features of frames.

        Raises:
            UsageError: settings contradict each other, or a window would be too long.
        """
        cqt = sections_of(self.sections).cqt
        spectrum = self.sections.spectrum
        rate = self.sections.audio.sample_rate
        self.bins_per_octave = cqt.bins_per_octave or self.usual.bins_per_octave
        if cqt.low_hz >= cqt.high_hz or cqt.high_hz > rate / 2:
            raise UsageError(
                f"cqt.low_hz is {cqt.low_hz:g} and cqt.high_hz {cqt.high_hz:g}: the first must be "
                f"below the second, and the second at most {rate // 2}."
            )
        self.frequencies_K = tone_frequencies(cqt.low_hz, cqt.high_hz, self.bins_per_octave)
        self.coefficients = 0
        if self.usual.coefficients:
            self.coefficients = spectrum.coefficients or self.usual.coefficients
            check_cepstrum(cqt, self.frequencies_K, self.coefficients)
        longest = self.window_lengths()[0]
        if longest > MAX_WINDOW:
            raise UsageError(
                f"cqt.low_hz = {cqt.low_hz:g}: its window would be {longest / rate:.0f} s long; "
                f"the max is {MAX_WINDOW / rate:.0f} s. Set a higher cqt.low_hz or cqt.offset_hz, "
                "or fewer cqt.bins_per_octave."
            )
        # Odd, so that all tones are centred on one sample.
        self.window = 2 * int(longest // 2) + 1
        self.hop = spectrum.hop or in_time(HOP, rate)
        deltas = self.usual.deltas if spectrum.deltas is None else spectrum.deltas
        self.set_dimension(self.coefficients or len(self.frequencies_K), deltas)

    def window_lengths(self) -> np.ndarray:
        """Return the window lengths of the tones, (K) samples, the longest first."""
        offset_hz = sections_of(self.sections).cqt.offset_hz
        rate = self.sections.audio.sample_rate
        return window_lengths(self.frequencies_K, self.bins_per_octave, offset_hz, rate)

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the module that computes static features."""
        cqt = sections_of(self.sections).cqt
        tones = LogTones(self, cqt.log_floor)
        if not self.coefficients:
            return tones
        matrix_KC = constant_q_cepstrum(
            self.frequencies_K, cqt.samples_per_octave, self.coefficients
        )
        return nn.Sequential(tones, FixedMap(matrix_KC))

    def feature_settings(self) -> dict[str, Any]:
        """Return the settings of the base class, and those of the transform."""
        sizes = {"bins_per_octave": self.bins_per_octave, "coefficients": self.coefficients}
        cqt = {
            **asdict(sections_of(self.sections).cqt),
            **sizes,
            "hop": self.hop,
            "deltas": self.deltas,
        }
        return {**super().feature_settings(), "cqt": cqt}


class CQCCFrontEnd(CQTFrontEnd):
    """Constant-Q cepstral coefficients, in the sizes of ASVspoof's baselines."""

    usual = Usual(96, 20, 2)
    cacheable = True


class LogTones(nn.Module):
    """A module from waveforms (batch, samples) to log powers (batch, frames, tones)."""

    def __init__(self, front_end: CQTFrontEnd, floor: float) -> None:
        super().__init__()
        self.floor = floor
        self.window = front_end.window
        self.hop = front_end.hop
        lengths_K = front_end.window_lengths()
        rate = front_end.sections.audio.sample_rate
        self.octaves = 0
        # One matrix per octave: higher octaves have shorter windows, so a joint one would be mostly
        # 0.
        for first in range(0, len(lengths_K), front_end.bins_per_octave):
            tones = slice(first, first + front_end.bins_per_octave)
            matrix_WK = tone_matrix(front_end.frequencies_K[tones], lengths_K[tones], rate)
            # Not persistent, since they depend only on the settings.
            tensor_WK = torch.tensor(matrix_WK, dtype=torch.float32)
            self.register_buffer(f"octave_{self.octaves}", tensor_WK, persistent=False)
            self.octaves += 1

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        powers = []
        for octave in range(self.octaves):
            matrix_WK = self.get_buffer(f"octave_{octave}")
            margin = (self.window - matrix_WK.shape[0]) // 2
            middle_BT = waveforms_BT[:, margin : waveforms_BT.shape[1] - margin]
            frames_BLW = windows(middle_BT, matrix_WK.shape[0], self.hop)
            real_BLK, imaginary_BLK = (frames_BLW @ matrix_WK).chunk(2, dim=2)
            powers.append(real_BLK.square() + imaginary_BLK.square())
        return (torch.cat(powers, dim=2) + self.floor).log()


class FixedMap(nn.Module):
    """A linear map of features whose matrix depends only on the settings."""

    matrix: Tensor

    def __init__(self, matrix_KC: np.ndarray) -> None:
        super().__init__()
        matrix = torch.tensor(matrix_KC, dtype=torch.float32)
        self.register_buffer("matrix", matrix, persistent=False)

    def forward(self, x_BLK: Tensor) -> Tensor:
        return x_BLK @ self.matrix


def check_cepstrum(cqt: ConstantQ, frequencies_K: np.ndarray, coefficients: int) -> None:
    """Check that cepstra of the tones can be computed.

    Raises:
        UsageError: there are too few tones, or too many uniform frequencies.
    """
    tones = len(frequencies_K)
    if tones < max(coefficients, MIN_TONES):
        raise UsageError(
            f"spectrum.coefficients is {coefficients}, and there are {tones} tones between "
            "cqt.low_hz and cqt.high_hz: coefficients cannot outnumber tones, and at least "
            f"{MIN_TONES} tones are needed."
        )
    uniform = cqt.samples_per_octave * (frequencies_K[-1] / frequencies_K[0] - 1)
    if uniform > MAX_UNIFORM:
        raise UsageError(
            f"cqt.samples_per_octave = {cqt.samples_per_octave}: from {cqt.low_hz:g} to "
            f"{cqt.high_hz:g} Hz there would be {uniform:,.0f} uniform frequencies; the max is "
            f"{MAX_UNIFORM:,}. Set fewer, or a higher cqt.low_hz."
        )

"""Front ends of the constant-Q transform: its log powers (CQT), and their cepstra (CQCC).

Invariant: as in the spectral front ends, a frame is computed from its window alone, features end
with the last whole window, and nothing is trained. The window is that of the lowest frequency;
those of higher frequencies lie in its middle.

The authors' code computes all frames from the Fourier
transform of the whole recording, which treats it as periodic; here each frame has the window of the
paper's equations.

Shapes: B utterances, T samples, L frames, K tones, W samples of a window, C feature values.

The matrices of constant-Q features: windowed tones, and the cepstrum of their log powers.

Invariant: results are float64 and depend only on sizes.

Source: Todisco et al., "Constant Q cepstral coefficients", Computer Speech & Language, 2017: the
transform is its equations 3 to 6, after Brown, JASA, 1991. Windows are shorter at low frequencies
than a constant Q has them, as in the code of its authors (asvspoof-challenge/2021, cqcc.m), by
Schörkhuber et al., AES 53, 2014.

Shapes: K tones, W samples of a window, U uniform frequencies, C coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.networks.filters import cosine_transform
from asdf.networks.front_ends.spectral import FramedFrontEnd, in_time
from asdf.networks.functions import windows
from asdf.settings.fields import MAX_FILTERS, OwnSettings, setting
from asdf.settings.sections import FrontEnd as FrontEndSettings


def tone_frequencies(low_hz: float, high_hz: float, bins_per_octave: int) -> np.ndarray:
    """Return the frequencies (K) from `low_hz` up to below `high_hz`, in Hz."""
    # Rounding of the logarithm must not add a tone at `high_hz`.
    tones = int(np.ceil(bins_per_octave * np.log2(high_hz / low_hz) - 1e-9))
    return low_hz * 2.0 ** (np.arange(tones) / bins_per_octave)


def window_lengths(
    frequencies_K: np.ndarray, bins_per_octave: int, offset_hz: float, rate: int = SAMPLE_RATE
) -> np.ndarray:
    """Return the window lengths of the tones in samples, not necessarily integers: (K).

    Each is Q periods of its frequency plus `offset_hz`, with Q = 1 / (2 ** (1 / B) - 1) for B bins
    per octave.
    """
    quality = 1 / (2 ** (1 / bins_per_octave) - 1)
    return quality * rate / (frequencies_K + offset_hz)


def tone_matrix(
    frequencies_K: np.ndarray, lengths_K: np.ndarray, rate: int = SAMPLE_RATE
) -> np.ndarray:
    """Return windowed tones as a matrix (W, 2 K): real parts, imaginary parts.

    All tones are centred in the window, which has the length of the longest. A tone of amplitude 1
    at one of the frequencies has a power near 1/4, since its window sums to 1.
    """
    half = int(lengths_K.max() // 2)
    times_W1 = np.arange(-half, half + 1)[:, None]
    phases_WK = times_W1 / lengths_K
    hann_WK = 0.5 + 0.5 * np.cos(2 * np.pi * phases_WK)
    hann_WK[np.abs(times_W1) > lengths_K // 2] = 0
    hann_WK /= hann_WK.sum(axis=0)
    angles_WK = 2 * np.pi / rate * times_W1 * frequencies_K
    return np.concatenate([hann_WK * np.cos(angles_WK), -hann_WK * np.sin(angles_WK)], axis=1)


def constant_q_cepstrum(
    frequencies_K: np.ndarray, samples_per_octave: int, coefficients: int
) -> np.ndarray:
    """Return the matrix (K, C) from the log powers of a frame to its cepstral coefficients.

    A cubic spline over frequency interpolates the logarithms and is sampled `samples_per_octave`
    times in the lowest octave, with the same spacing above; then follows a cosine transform.
    """
    step_hz = frequencies_K[0] / samples_per_octave
    # Rounding must not lose a frequency at the end.
    count = int((frequencies_K[-1] - frequencies_K[0]) / step_hz + 1e-9) + 1
    uniform_U = frequencies_K[0] + step_hz * np.arange(count)
    transform_UC = cosine_transform(count, coefficients)
    return _transposed_spline(frequencies_K, uniform_U, transform_UC)


def _transposed_spline(
    knots_K: np.ndarray, points_U: Sequence[float] | np.ndarray, weights_UC: np.ndarray
) -> np.ndarray:
    """Return the matrix (K, C) from values at the knots to weighted sums of spline points.

    The cubic spline has not-a-knot ends, as in MATLAB: its first two pieces are one cubic, and so
    are its last two.
    """
    points_U = np.asarray(points_U)
    steps_K = np.diff(knots_K)
    # The last knot begins no piece: points at it belong to the last one.
    piece_U = np.clip(np.searchsorted(knots_K, points_U, side="right") - 1, 0, len(steps_K) - 1)
    width_U = steps_K[piece_U]
    right_U = (points_U - knots_K[piece_U]) / width_U
    left_U = 1 - right_U
    values_KC = np.zeros((len(knots_K), weights_UC.shape[1]))
    curvatures_KC = np.zeros_like(values_KC)
    for knot_U, share_U in ((piece_U, left_U), (piece_U + 1, right_U)):
        np.add.at(values_KC, knot_U, share_U[:, None] * weights_UC)
        bend_U = (share_U**3 - share_U) * width_U**2 / 6
        np.add.at(curvatures_KC, knot_U, bend_U[:, None] * weights_UC)
    conditions_KK, differences_KK = _spline_equations(steps_K)
    sums_KC: np.ndarray = values_KC
    # Solved for each coefficient, of which there are far fewer than uniform frequencies.
    sums_KC += differences_KK.T @ np.linalg.solve(conditions_KK.T, curvatures_KC)
    return sums_KC


def _spline_equations(steps_K: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return matrices A and D with A (second derivatives) = D y for values y at the knots."""
    knots = len(steps_K) + 1
    conditions_KK = np.zeros((knots, knots))
    differences_KK = np.zeros((knots, knots))
    before_K = steps_K[:-1]
    after_K = steps_K[1:]
    inner_K = np.arange(1, knots - 1)
    conditions_KK[inner_K, inner_K - 1] = before_K
    conditions_KK[inner_K, inner_K] = 2 * (before_K + after_K)
    conditions_KK[inner_K, inner_K + 1] = after_K
    differences_KK[inner_K, inner_K - 1] = 6 / before_K
    differences_KK[inner_K, inner_K] = -6 / before_K - 6 / after_K
    differences_KK[inner_K, inner_K + 1] = 6 / after_K
    # The third derivative is continuous at the second knot and at the second to last.
    conditions_KK[0, :3] = steps_K[1], -steps_K[0] - steps_K[1], steps_K[0]
    conditions_KK[-1, -3:] = steps_K[-1], -steps_K[-2] - steps_K[-1], steps_K[-2]
    return conditions_KK, differences_KK


HOP = 160
MAX_WINDOW = 2**18
MAX_UNIFORM = 2**17
# A spline with not-a-knot ends needs at least three pieces.
MIN_TONES = 4


@dataclass
class ConstantQ(OwnSettings, section_name="cqt"):
    """The constant-Q front ends, cqt and cqcc (Todisco et al., 2017)."""

    bins_per_octave: int | None = setting(None, at_least=1, at_most=MAX_FILTERS)
    """frequencies per octave; None: 48 of cqt, 96 of cqcc"""
    low_hz: float = setting(15.625, unit="Hz", at_least=1)
    """the lowest frequency; 9 octaves below 8000"""
    high_hz: float = setting(8000.0, unit="Hz", above=0)
    """frequencies are below this one"""
    offset_hz: float = setting(228.7, unit="Hz", at_least=0)
    """a window has as many samples as Q periods of its frequency and this together, which shortens
    those of low ones, as in the authors' code; 0: a constant Q"""
    samples_per_octave: int = setting(16, at_least=1)
    """cqcc: uniform frequencies in the lowest octave, to which logarithms are resampled"""
    log_floor: float = setting(2**-52, above=0)
    """added to powers before their natural logarithm is taken"""


@dataclass(frozen=True)
class Usual:
    """Default sizes for settings of None; 0 coefficients mean log powers without a transform."""

    bins_per_octave: int
    coefficients: int
    deltas: int


class CQTFrontEnd(FramedFrontEnd):
    """The logarithms of the powers of the constant-Q transform."""

    short_name = "cqt"
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
        cqt = ConstantQ.of(self.sections)
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
        offset_hz = ConstantQ.of(self.sections).offset_hz
        rate = self.sections.audio.sample_rate
        return window_lengths(self.frequencies_K, self.bins_per_octave, offset_hz, rate)

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the module that computes static features."""
        cqt = ConstantQ.of(self.sections)
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
            **asdict(ConstantQ.of(self.sections)),
            **sizes,
            "hop": self.hop,
            "deltas": self.deltas,
        }
        return {**super().feature_settings(), "cqt": cqt}


class CQCCFrontEnd(CQTFrontEnd):
    """Constant-Q cepstral coefficients, in the sizes of ASVspoof's baselines."""

    short_name = "cqcc"
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
            tones = int(matrix_WK.shape[1]) // 2
            squares_BLK = (frames_BLW @ matrix_WK).square()
            # An exporter to ONNX knows sizes of slices, not of chunks.
            powers.append(squares_BLK[:, :, :tones] + squares_BLK[:, :, tones:])
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

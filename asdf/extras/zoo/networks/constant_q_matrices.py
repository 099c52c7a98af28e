"""The matrices of constant-Q features: windowed tones, and the cepstrum of their log powers.

Invariant: results are float64 and depend only on sizes.

Source: Todisco et al., "Constant Q cepstral coefficients", Computer Speech & Language, 2017: the
transform is its equations 3 to 6, after Brown, JASA, 1991. Windows are shorter at low frequencies
than a constant Q has them, as in the code of its authors (asvspoof-challenge/2021, cqcc.m), by
Schörkhuber et al., AES 53, 2014.

Shapes: K tones, W samples of a window, U uniform frequencies, C coefficients.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asdf.facts import SAMPLE_RATE
from asdf.networks.filters import cosine_transform


def tone_frequencies(low_hz: float, high_hz: float, bins_per_octave: int) -> np.ndarray:
    """Return the frequencies (K) from `low_hz` up to below `high_hz`, in Hz."""
    # Rounding of the logarithm must not add a tone at `high_hz`.
    tones = int(np.ceil(bins_per_octave * np.log2(high_hz / low_hz) - 1e-9))
    frequencies_K: np.ndarray = low_hz * 2.0 ** (np.arange(tones) / bins_per_octave)
    return frequencies_K


def window_lengths(
    frequencies_K: np.ndarray, bins_per_octave: int, offset_hz: float, rate: int = SAMPLE_RATE
) -> np.ndarray:
    """Return the window lengths of the tones in samples, not necessarily integers: (K).

    Each is Q periods of its frequency plus `offset_hz`, with Q = 1 / (2 ** (1 / B) - 1) for B bins
    per octave.
    """
    quality = 1 / (2 ** (1 / bins_per_octave) - 1)
    lengths_K: np.ndarray = quality * rate / (frequencies_K + offset_hz)
    return lengths_K


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

"""Student's t distribution, for tests over a few seeds; numpy has no distribution functions."""

from __future__ import annotations

import math

# Far more than are needed: seeds are few.
_TERMS = 400


def two_sided_p(t: float, degrees: float) -> float:
    """Return the probability of a value as far from 0 as `t`, or farther.

    It is I_x(degrees / 2, 1 / 2) at x = degrees / (degrees + t^2): Abramowitz and Stegun, Handbook
    of Mathematical Functions, 26.5.27.
    """
    return regularised_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


def regularised_beta(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), 0 <= x <= 1.

    By the continued fraction of the NIST Digital Library of Mathematical Functions, 8.17.22.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # The fraction converges quickly on this side; the other side is what is left of 1.
    if x > (a + 1) / (a + b + 2):
        return 1 - regularised_beta(1 - x, b, a)
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - log_beta)
    fraction = 1.0
    # From the innermost term outward.
    for number in range(_TERMS, 0, -1):
        fraction = 1 + _fraction_term(number, x, a, b) / fraction
    return front / (a * fraction)


def _fraction_term(number: int, x: float, a: float, b: float) -> float:
    half, odd = divmod(number, 2)
    below = (a + number - 1) * (a + number)
    if odd:
        return -(a + half) * (a + b + half) * x / below
    return half * (b - half) * x / below

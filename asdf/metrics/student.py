"""Student's t and beta distributions, for few seeds, speakers or errors; numpy has neither."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist

import numpy as np

# Far more than are needed: seeds are few.
_TERMS = 400
# Terms for each unit of the square root of the larger parameter, where these are more.
_TERMS_PER_ROOT = 4
# Each halves the range; of a quantile so many digits are far more than are shown.
_HALVINGS = 80
_PRECISION = 1e-11
# A t quantile of one degree of freedom at 99.99 % lies below this.
_HIGHEST_T = 1e5


def two_sided_p(t: float, degrees: float) -> float:
    """Return the probability of a value as far from 0 as `t`, or farther.

    It is I_x(degrees / 2, 1 / 2) at x = degrees / (degrees + t^2): Abramowitz and Stegun, Handbook
    of Mathematical Functions, 26.5.27. With infinitely many degrees of freedom it is that of the
    normal distribution.
    """
    if math.isinf(degrees):
        return math.erfc(abs(t) / math.sqrt(2))
    return regularised_beta(degrees / (degrees + t * t), degrees / 2, 0.5)


# Every interval of a set asks for the same few.
@lru_cache(maxsize=256)
def t_quantile(level: float, degrees: float) -> float:
    """Return the value that |t| stays below with probability `level`; 1.96 for .95 and infinity."""
    if math.isinf(degrees):
        return NormalDist().inv_cdf((1 + level) / 2)
    return _bisect(lambda t: 1 - two_sided_p(t, degrees), level, _HIGHEST_T)


def beta_quantile(share: float, a: float, b: float) -> float:
    """Return the value that the beta distribution of a, b > 0 stays below with this probability."""
    return _bisect(lambda x: regularised_beta(x, a, b), share, 1.0)


def _bisect(rising: Callable[[float], float], target: float, highest: float) -> float:
    """Return where a rising function of numbers from 0 to `highest` reaches a target."""
    low, high = 0.0, highest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if high - low < _PRECISION * high:
            break
        if rising(middle) < target:
            low = middle
        else:
            high = middle
    return high


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
    for term in reversed(_fraction_terms(x, a, b)):
        fraction = 1 + term / fraction
    return front / (a * fraction)


def _fraction_terms(x: float, a: float, b: float) -> list[float]:
    count = max(_TERMS, int(_TERMS_PER_ROOT * math.sqrt(max(a, b))))
    number = np.arange(1, count + 1)
    half, odd = np.divmod(number, 2)
    below = (a + number - 1) * (a + number)
    odd_terms = -(a + half) * (a + b + half) * x / below
    even_terms = half * (b - half) * x / below
    terms: list[float] = np.where(odd, odd_terms, even_terms).tolist()
    return terms

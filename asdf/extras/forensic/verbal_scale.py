"""Likelihood ratios in the words of the ENFSI guideline.

Invariant: the words for a ratio and its inverse differ only in the propositions, and a larger ratio
never has weaker words.

Source: ENFSI guideline for evaluative reporting in forensic science, version 3.0, 2015, section 4:
its verbal equivalents and their limits. It has no words between 1 and 2; here the findings then
support neither proposition.
"""

from __future__ import annotations

import math

NEITHER = "no support for one proposition over the other"
"""Words for a likelihood ratio between 1/2 and 2."""

# The lowest ratio of each, from the strongest on.
_STRENGTHS = (
    (1_000_000, "extremely strong"),
    (10_000, "very strong"),
    (1_000, "strong"),
    (100, "moderately strong"),
    (10, "moderate"),
    (2, "weak"),
)
# Tolerance for rounding, since exp(log(10)) is slightly below ten.
_ROUNDING = 1e-12


def describe_llr(llr: float) -> str:
    """Return a log-likelihood ratio in the words of the ENFSI guideline.

    Args:
        llr: Natural logarithm of the ratio of the probabilities of the findings if the recording is
            bona fide and if it is a spoof.

    >>> describe_llr(math.log(150))
    'moderately strong support for bona fide rather than spoof'
    >>> describe_llr(-math.log(150))
    'moderately strong support for spoof rather than bona fide'
    >>> describe_llr(0.1)
    'no support for one proposition over the other'
    """
    if math.isnan(llr):
        raise ValueError("a likelihood ratio that is not a number has no verbal equivalent")
    propositions = "bona fide rather than spoof" if llr > 0 else "spoof rather than bona fide"
    for lowest_ratio, strength in _STRENGTHS:
        if abs(llr) >= math.log(lowest_ratio) - _ROUNDING:
            return f"{strength} support for {propositions}"
    return NEITHER

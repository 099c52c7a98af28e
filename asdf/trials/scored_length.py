"""How much of each recording was scored: the part of a protocol that a score file does not show.

Invariant: results that were scored from different lengths are never compared without saying so.
Published detectors score 64,600 samples (4.04 s), repeated or cut; the same weights give other
scores from whole recordings.
"""

from __future__ import annotations

from dataclasses import dataclass

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE

UNKNOWN = "not known"


@dataclass(frozen=True)
class ScoredLength:
    """How many samples of recordings at 16 kHz are scored.

    Attributes:
        min_samples: shorter recordings are repeated up to it.
        max_samples: longer ones are cut at it; None: nothing is cut.
    """

    min_samples: int
    max_samples: int | None

    def describe(self) -> str:
        """Describe it for a table or a log."""
        if self.max_samples is None:
            return "whole"
        if self.min_samples >= self.max_samples:
            return f"first {self.max_samples:,} samples"
        max_s = self.max_samples / SAMPLE_RATE
        return f"whole, up to {max_s:g} s"

    def agrees_with(self, other: ScoredLength) -> bool:
        """Whether results of both may be compared: equal lengths, or both of whole recordings."""
        return self == other or (self._is_whole and other._is_whole)

    @property
    def _is_whole(self) -> bool:
        # Few utterances of a corpus are shorter than a second or longer than a minute.
        minute = 60 * SAMPLE_RATE
        is_cut = self.max_samples is not None and self.max_samples < minute
        return self.min_samples <= SAMPLE_RATE and not is_cut


PUBLISHED = ScoredLength(64600, 64600)
"""The protocol of AASIST, SSL_Anti-spoofing, SLS, Nes2Net-X and most papers after them."""

WHOLE = ScoredLength(1, None)
"""Every recording as it is."""


def described(scored: ScoredLength | None) -> str:
    """Describe `scored`; 'not known' for None, as of score files of other programs."""
    if scored is None:
        return UNKNOWN
    return scored.describe()


def parse_scored_length(text: str) -> ScoredLength:
    """Read 'published', 'whole' or a number of samples that all recordings are cut or repeated to.

    Raises:
        UsageError: it is none of these.
    """
    if text == "published":
        return PUBLISHED
    if text == "whole":
        return WHOLE
    if text.isascii() and text.isdigit() and int(text):
        samples = int(text)
        return ScoredLength(samples, samples)
    raise UsageError(
        f"{text!r} is no scored length. Give published (64,600 samples), whole, or a number of "
        "samples."
    )

"""How much of each recording a score is of: the part of a protocol that a score file does not show.

Invariant: results that were scored from different lengths are never compared without saying so. Published detectors
score 64,600 samples (4.04 s), repeated or cut; the same weights give other scores from whole recordings.
"""

from __future__ import annotations

from dataclasses import dataclass

from asdf.errors import UsageError

_HZ = 16000
UNKNOWN = "not known"


@dataclass(frozen=True)
class ScoredLength:
    """Recordings are repeated up to `min_samples` and cut at `max_samples`, both at 16 kHz; None: nothing is cut."""

    min_samples: int
    max_samples: int | None

    def describe(self) -> str:
        """What is scored, in words for a table or a log."""
        if self.max_samples is None:
            return "whole"
        if self.min_samples >= self.max_samples:
            return f"first {self.max_samples:,} samples"
        return f"whole, up to {self.max_samples / _HZ:g} s"

    def agrees_with(self, other: ScoredLength) -> bool:
        """Whether results of both may be compared: the same lengths, or both of recordings as they are."""
        return self == other or (self._is_whole and other._is_whole)

    @property
    def _is_whole(self) -> bool:
        # Few utterances of a corpus are shorter than a second or longer than a minute.
        return self.min_samples <= _HZ and (self.max_samples or 60 * _HZ) >= 60 * _HZ


PUBLISHED = ScoredLength(64600, 64600)
"""The protocol of AASIST, SSL_Anti-spoofing, SLS, Nes2Net-X and most papers after them."""

WHOLE = ScoredLength(1, None)
"""Every recording as it is."""


def described(scored: ScoredLength | None) -> str:
    """`scored` in words; 'not known' for None, as of score files of other programs."""
    return UNKNOWN if scored is None else scored.describe()


def parse_scored_length(text: str) -> ScoredLength:
    """'published', 'whole' or a number of samples that every recording is cut or repeated to.

    Raises:
        UsageError: it is none of these.
    """
    named = {"published": PUBLISHED, "whole": WHOLE}
    if text in named:
        return named[text]
    if text.isascii() and text.isdigit() and int(text):
        return ScoredLength(int(text), int(text))
    raise UsageError(
        f"{text!r} is no scored length. Give published (64,600 samples), whole, or a number of samples."
    )

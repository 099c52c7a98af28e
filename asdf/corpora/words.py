"""The words that label files have for the two classes."""

from __future__ import annotations

BONA_FIDE = frozenset(
    ("bonafide", "bona-fide", "bona_fide", "bona fide", "real", "genuine", "human", "original")
)
SPOOF = frozenset(
    (
        *("spoof", "spoofed", "spoofing", "fake", "deepfake"),
        *("synthetic", "generated", "manipulated", "vocoded"),
    )
)


def label_of(word: str) -> int | None:
    """Return 1 for a word that means bona fide, 0 for one that means spoof, None for others."""
    plain = word.strip().lower()
    if plain in BONA_FIDE:
        return 1
    return 0 if plain in SPOOF else None

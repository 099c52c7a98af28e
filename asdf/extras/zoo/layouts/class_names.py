"""Detection of the bona fide classes of a classifier from their names.

Invariant: a name counts only if its words are unambiguous. Otherwise the user decides: nothing is
guessed from the order or the number of the classes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError, UsageError
from asdf.hub import name_of
from asdf.text import and_more, shorten

_BONA_FIDE = (
    "actual authentic bona bonafide fide genuine human humans legit legitimate live natural "
    "original real unaltered"
)
_SPOOF = (
    "ai aigenerated artificial clone cloned cloning computer converted deep deepfake deepfakes "
    "fabricated fake faked fakes forged generated machine manipulated morphed replay "
    "replayed spoof spoofed spoofing synth synthesised synthesized synthetic tampered tts vc "
    "vocoded"
)
_NEGATIONS = "no non not un"
# Words for what is heard, which do not indicate a side.
_NEUTRAL = "audio class clip label person recording sample sound speaker speech utterance voice"
_SIDES = {**dict.fromkeys(_BONA_FIDE.split(), 1), **dict.fromkeys(_SPOOF.split(), 0)}
# 'HumanVoice', 'AIVoice', 'AI-generated', 'bona_fide'
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SHOWN = 6


@dataclass(frozen=True)
class Polarity:
    """The bona fide classes of a classifier.

    Attributes:
        bona_fide: Indices of the bona fide classes, from 0; empty if the names do not determine
            them.
        reason: Reason in words.
    """

    bona_fide: tuple[int, ...]
    reason: str


def side_of(name: str) -> int | None:
    """Return 1 for a name that means bona fide, 0 for spoof; None for neither, or both.

    Examples:
        >>> from asdf.extras.zoo.layouts.class_names import side_of
        >>> [side_of(name) for name in ("bona-fide", "AIVoice", "not real", "LABEL_1")]
        [1, 0, 0, None]
    """
    sides = set()
    flips = False
    for word in _split(name):
        if word in _NEGATIONS.split():
            flips = not flips  # two negations cancel each other
        elif word in _SIDES:
            sides.add(_SIDES[word])
        elif word not in _NEUTRAL.split() and not word.isdecimal():
            return None
    if len(sides) != 1:
        return None
    side: int = sides.pop()
    return 1 - side if flips else side


def read_polarity(names: Sequence[str]) -> Polarity:
    """Return which classes are bona fide, if each name indicates its side."""
    sides = [side_of(name) for name in names]
    shown = and_more([f"{number} {name!r}" for number, name in enumerate(names)], _SHOWN)
    unclear = [name for name, side in zip(names, sides, strict=True) if side is None]
    if unclear:
        reason = f"its classes are {shown}; these do not say genuine or spoofed: {quoted(unclear)}"
        return Polarity((), reason)
    bona_fide = tuple(number for number, side in enumerate(sides) if side == 1)
    if not 0 < len(bona_fide) < len(names):
        which = "bona fide" if bona_fide else "spoof"
        return Polarity((), f"its classes are {shown}, which all mean {which}")
    return Polarity(bona_fide, f"by the names of its classes, {shown}")


def chosen_polarity(chosen: Sequence[object], names: Sequence[str]) -> Polarity:
    """Return the polarity that a user states by numbers or names of the bona fide classes.

    Raises:
        UsageError: there is no such class, or no spoof class remains.
    """
    numbers = []
    for each in chosen:
        number = _find(str(each), names)
        if number is None:
            known = and_more([f"{at} {name!r}" for at, name in enumerate(names)], _SHOWN)
            raise UsageError(f"there is no class {shorten(str(each))!r}: the classes are {known}.")
        numbers.append(number)
    bona_fide = tuple(sorted(set(numbers)))
    if len(bona_fide) == len(names):
        raise UsageError("all classes would be bona fide and none spoof. Name fewer.")
    return Polarity(bona_fide, "as chosen")


def quoted(names: Sequence[str]) -> str:
    """Return the first names, quoted, and the number of others."""
    return and_more([repr(shorten(name)) for name in names], _SHOWN)


class UnknownPolarityError(AsdfError):
    """The bona fide classes are unknown.

    Attributes:
        classes: Number of classes.
    """

    def __init__(self, message: str, classes: int) -> None:
        super().__init__(message)
        self.classes = classes


def unknown_polarity(path: Path, polarity: Polarity, classes: int) -> UnknownPolarityError:
    """Return the error of a classifier whose class names do not show which are bona fide."""
    source = name_of(path) or path
    clips = ""
    if classes == 2:
        clips = (
            ", or pass recordings with known labels: --genuine a.wav --spoofed b.wav (better "
            "several of each)"
        )
    return UnknownPolarityError(
        f"{source}: it is not known which classes are bona fide: {polarity.reason}. A wrong guess "
        f"would invert every verdict. State it on import: python -m asdf import {source} OUT "
        f"--bona-fide-class NUMBER{clips}. Without classes for genuine and spoofed speech it is "
        "not a detector.",
        classes,
    )


def _find(text: str, names: Sequence[str]) -> int | None:
    if text.isdecimal() and int(text) < len(names):
        return int(text)
    matches = [at for at, name in enumerate(names) if name.lower() == text.lower()]
    # Two classes may differ in case alone.
    return matches[0] if len(matches) == 1 else None


def _split(name: str) -> list[str]:
    words = []
    for word in _WORD.findall(name):
        lower = word.lower()
        # 'realvoice', 'fakeaudio'
        for ending in _NEUTRAL.split():
            bare = lower.removesuffix(ending)
            if bare != lower and bare in _SIDES:
                lower = bare
                break
        words.append(lower)
    return words

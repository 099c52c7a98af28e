"""Check of a detector's polarity with recordings of known labels.

Invariant: recordings never change a stated polarity; if they disagree, it is refused with the
numbers. An unstated polarity follows from the recordings if they are clear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asdf.errors import AsdfError

# Proportion of all pairs of a genuine and a spoofed recording; between the limits nothing is known.
_CLEAR = 0.75
# Three of each kind: by chance, these would all agree with either polarity one time in ten.
_ENOUGH = 9
_SHOWN = 4


@dataclass(frozen=True)
class ClipScores:
    """Scores of recordings with known labels.

    Attributes:
        genuine, spoofed: Scores by the names of the recordings.
    """

    genuine: dict[str, float]
    spoofed: dict[str, float]

    @property
    def share(self) -> float:
        """Proportion of pairs in which the genuine recording scores higher; ties count half."""
        wins = 0.0
        for genuine in self.genuine.values():
            for spoofed in self.spoofed.values():
                wins += 0.5 if genuine == spoofed else float(genuine > spoofed)
        return wins / (len(self.genuine) * len(self.spoofed))

    @property
    def pairs(self) -> int:
        return len(self.genuine) * len(self.spoofed)

    def describe(self) -> str:
        """Return the numbers in words."""
        wins = self.share * self.pairs
        return (
            f"genuine {_list(self.genuine)}; spoofed {_list(self.spoofed)}: the genuine one is "
            f"higher in {wins:g} of {self.pairs} {'pair' if self.pairs == 1 else 'pairs'}"
        )


def check_stated(scores: ClipScores, path: object) -> str:
    """Return a sentence on recordings that agree with the stated polarity.

    Raises:
        AsdfError: they contradict it.
    """
    if scores.share < 1 - _CLEAR:
        raise AsdfError(
            f"{path}: the recordings contradict its bona fide output; nothing was written. Scores: "
            f"{scores.describe()}. Its labels are wrong, or it errs on these recordings. Pass more "
            "recordings, or name the bona fide class they indicate (--bona-fide-class)."
        )
    agree = "agree" if scores.share > _CLEAR else "neither contradict nor confirm it"
    return f"reference recordings {agree}: {scores.describe()}"


def is_reversed(scores: ClipScores, path: object) -> bool:
    """Return whether the tested polarity, which nobody stated, is reversed.

    Raises:
        AsdfError: the recordings are not clear.
    """
    share = scores.share
    if 1 - _CLEAR < share < _CLEAR:
        raise AsdfError(
            f"{path}: the recordings do not show which class is bona fide; nothing was written. "
            f"Scores with class 1 as bona fide: {scores.describe()}. Pass more recordings, or name "
            "the class: --bona-fide-class."
        )
    return share <= 1 - _CLEAR


def describe_decision(scores: ClipScores) -> str:
    """Return the numbers that determined the polarity, and their significance."""
    if scores.pairs >= _ENOUGH:
        return scores.describe()
    return (
        f"{scores.describe()}. That is little evidence: one error of the detector would invert its "
        "verdicts. Pass more recordings of each kind"
    )


def _list(scores: dict[str, float]) -> str:
    listed = [f"{name} {score:.4f}" for name, score in scores.items()]
    rest = len(listed) - _SHOWN
    shown: Sequence[str] = listed[:_SHOWN]
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")

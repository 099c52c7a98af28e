"""Check of imported detectors with recordings of known labels.

Invariant: recordings never change a stated polarity; if they contradict it, no file is written, and
the message gives the numbers. An unstated polarity follows from the recordings if they are clear.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from asdf.commands.score_recordings import Recordings, find_recordings
from asdf.errors import AsdfError, UsageError
from asdf.text import and_more, count_of

if TYPE_CHECKING:
    from asdf.extras.zoo.layouts.importing import Imported

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
        lists = []
        for scores in (self.genuine, self.spoofed):
            listed = [f"{name} {score:.4f}" for name, score in scores.items()]
            lists.append(and_more(listed, _SHOWN))
        wins = self.share * self.pairs
        return (
            f"genuine {lists[0]}; spoofed {lists[1]}: the genuine one is higher in {wins:g} of "
            f"{count_of(self.pairs, 'pair')}"
        )


class Clips(NamedTuple):
    """Recordings of each class."""

    genuine: Recordings
    spoofed: Recordings


def find_clips(genuine: Sequence[str], spoofed: Sequence[str]) -> Clips | None:
    """Return the recordings on the command line; None if there are none.

    Raises:
        UsageError: a recording does not exist, only one class is given, or one is in both.
    """
    if not genuine and not spoofed:
        return None
    if not genuine or not spoofed:
        missing = "--genuine" if spoofed else "--spoofed"
        raise UsageError(f"recordings of both classes are needed, and {missing} is missing.")
    clips = Clips(find_recordings(genuine), find_recordings(spoofed))
    both = set(clips.genuine.paths) & set(clips.spoofed.paths)
    if both:
        raise UsageError(
            f"{min(both)} is given as genuine and as spoofed. Remove it from one of them."
        )
    return clips


def import_checked(
    path: Path,
    chosen: Mapping[str, Any],
    folder: Path | None,
    bona_fide: Sequence[str],
    clips: Clips | None,
    out: Path,
) -> tuple[Imported, list[str]]:
    """Import a detector, and check it with recordings; return it with the outcome.

    Args:
        chosen, folder, bona_fide: Settings, folder and classes, as in `import_detector`.
        clips: Recordings; None: no check.
        out: File that will be written, in whose folder the network is stored for the check.

    Raises:
        UsageError: as `import_detector`.
        AsdfError: as `import_detector`; or the recordings contradict it, or cannot be scored.
    """
    from asdf.extras.zoo.layouts.hub.class_names import UnknownPolarityError
    from asdf.extras.zoo.layouts.importing import import_detector

    try:
        imported = import_detector(path, chosen, folder, bona_fide)
    except UnknownPolarityError as error:
        # With more than two classes, recordings of two labels do not determine the polarity.
        if clips is None or error.classes != 2:
            raise
        imported = import_detector(path, chosen, folder, ["1"])
        scores = _score_clips(imported, clips, folder, out)
        if 1 - _CLEAR < scores.share < _CLEAR:
            raise AsdfError(
                f"{path}: the recordings do not show which class is bona fide; nothing was "
                f"written. Scores with class 1 as bona fide: {scores.describe()}. Pass more "
                "recordings, or name the class: --bona-fide-class."
            ) from None
        if scores.share <= 1 - _CLEAR:
            imported = import_detector(path, chosen, folder, ["0"])
            scores = _score_clips(imported, clips, folder, out)
        decision = f"which class is bona fide follows from {scores.describe()}"
        if scores.pairs < _ENOUGH:
            decision += (
                ". That is little evidence: one error of the detector would invert its verdicts. "
                "Pass more recordings of each kind"
            )
        return imported, [decision]
    if clips is None:
        return imported, []
    scores = _score_clips(imported, clips, folder, out)
    if scores.share < 1 - _CLEAR:
        raise AsdfError(
            f"{path}: the recordings contradict its bona fide output; nothing was written. Scores: "
            f"{scores.describe()}. Its labels are wrong, or it errs on these recordings. Pass more "
            "recordings, or name the bona fide class they indicate (--bona-fide-class)."
        )
    agree = "agree" if scores.share > _CLEAR else "neither contradict nor confirm it"
    return imported, [f"reference recordings {agree}: {scores.describe()}"]


def _score_clips(imported: Imported, clips: Clips, folder: Path | None, out: Path) -> ClipScores:
    from asdf.checkpoint.network_file import write_network_file
    from asdf.scoring.detector import Detector

    # In OUT's folder, which has enough space.
    with TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as temporary:
        network = Path(temporary) / "network.pt"
        write_network_file(network, imported.file)
        detector = Detector(network, "cpu", network_folder=folder)
        sides = []
        for recordings in (clips.genuine, clips.spoofed):
            scores = {}
            for scored in detector.score_many(recordings.paths):
                if scored.score is None:
                    raise AsdfError(f"{scored.name} cannot be scored: {scored.error}")
                scores[str(scored.name)] = float(scored.score)
            sides.append(scores)
    return ClipScores(*sides)

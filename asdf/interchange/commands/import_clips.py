"""Imported detectors held against recordings whose truth the user knows.

Invariant: what the recordings contradict leaves no file, and what they decide is said with the
numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from asdf.commands.score_recordings import Recordings, find_recordings
from asdf.errors import AsdfError, UsageError

if TYPE_CHECKING:
    from asdf.interchange import ClipScores, Imported

# What is tried where nobody says which of two classes is bona fide.
_TRIED = ("1",)
_OTHER = ("0",)


@dataclass(frozen=True)
class Clips:
    """Recordings whose truth is known.

    Attributes:
        genuine, spoofed: Recordings of each kind.
    """

    genuine: Recordings
    spoofed: Recordings


def find_clips(genuine: Sequence[str], spoofed: Sequence[str]) -> Clips | None:
    """Return the recordings that a command line names; None where it names none.

    Raises:
        UsageError: a recording does not exist, only one kind is named, or one is of both.
    """
    if not genuine and not spoofed:
        return None
    if not genuine or not spoofed:
        missing = "--genuine" if spoofed else "--spoofed"
        raise UsageError(f"name recordings of both kinds: {missing} is missing.")
    clips = Clips(find_recordings(genuine), find_recordings(spoofed))
    both = set(clips.genuine.paths) & set(clips.spoofed.paths)
    if both:
        raise UsageError(f"{min(both)} is named as genuine and as spoofed.")
    return clips


def import_checked(
    path: Path,
    chosen: Mapping[str, Any],
    folder: Path | None,
    bona_fide: Sequence[str],
    clips: Clips | None,
    out: Path,
) -> tuple[Imported, list[str]]:
    """Import a detector, and hold it against recordings; return it with what they said.

    Args:
        chosen, folder, bona_fide: as of `import_detector`.
        clips: Recordings; None: none.
        out: File that will be written, next to which the network is while they are scored.

    Raises:
        UsageError: as `import_detector`.
        AsdfError: as `import_detector`; the recordings contradict it, or cannot be scored.
    """
    from asdf.interchange import (
        UnknownPolarityError,
        check_stated,
        describe_decision,
        import_detector,
        is_reversed,
    )

    try:
        imported = import_detector(path, chosen, folder, bona_fide)
    except UnknownPolarityError as error:
        # Of more than two classes recordings of two kinds do not say which is which.
        if clips is None or error.classes != len((*_TRIED, *_OTHER)):
            raise
        imported = import_detector(path, chosen, folder, _TRIED)
        scores = _score_clips(imported, clips, folder, out)
        if is_reversed(scores, path):
            imported = import_detector(path, chosen, folder, _OTHER)
            scores = _score_clips(imported, clips, folder, out)
        return imported, [f"which class is bona fide follows from {describe_decision(scores)}"]
    if clips is None:
        return imported, []
    return imported, [check_stated(_score_clips(imported, clips, folder, out), path)]


def _score_clips(imported: Imported, clips: Clips, folder: Path | None, out: Path) -> ClipScores:
    from asdf.checkpoint.network_file import write_network_file
    from asdf.interchange import ClipScores
    from asdf.scoring.detector import Detector

    # Next to OUT: there is room for it.
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

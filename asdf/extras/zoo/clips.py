"""Check of imported detectors with recordings of known labels.

Invariant: if the recordings contradict the detector, no file is written; if they determine its
polarity, the message gives the numbers.
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
    from asdf.extras.zoo.layouts.hub.reference_clips import ClipScores
    from asdf.extras.zoo.layouts.importing import Imported

# Polarity to try if nobody states which of two classes is bona fide.
_TRIED = ("1",)
_OTHER = ("0",)


@dataclass(frozen=True)
class Clips:
    """Recordings with known labels.

    Attributes:
        genuine, spoofed: Recordings of each class.
    """

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
    from asdf.extras.zoo.layouts.hub.reference_clips import (
        check_stated,
        describe_decision,
        is_reversed,
    )
    from asdf.extras.zoo.layouts.importing import import_detector

    try:
        imported = import_detector(path, chosen, folder, bona_fide)
    except UnknownPolarityError as error:
        # With more than two classes, recordings of two labels do not determine the polarity.
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
    from asdf.extras.zoo.layouts.hub.reference_clips import ClipScores
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

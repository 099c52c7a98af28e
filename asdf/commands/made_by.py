"""What JSON says of how scores were made: `made_by`, the same of commands and of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector
    from asdf.scoring.provenance import Provenance


def provenance_of(detector: Detector) -> Provenance:
    """Return the versions, the network's digest and the options of a detector.

    Raises:
        AsdfError: the network's file is gone.
    """
    from asdf.scoring.provenance import describe

    options = {
        "threshold": detector.threshold,
        "precision": detector.precision,
        "engine": detector.engine,
        "device": detector.device.type,
        "max_samples": detector.length.max_samples,
    }
    return describe(detector.source, options)


def made_by(
    provenance: Provenance, trial: bool, window: tuple[float, float] | None
) -> dict[str, Any]:
    """Return `made_by` for scores that are made now.

    Args:
        trial: Whether they are trial scores.
        window: Seconds of a window and from one to the next; None without windows.
    """
    entry = provenance.now().entry()
    window_s, hop_s = window or (None, None)
    options = {**entry["options"], "trial": trial, "window": window_s, "hop": hop_s}
    return {**entry, "options": options}

"""What a client may ask of a recording."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """What a client wants to know of a recording.

    Attributes:
        window: seconds of a window and of the hop, for scores over time.
        trial: score its beginning, as a trial of the network's protocol.
        points: Points of the outline of the waveform; 0: none.
        watermarks: Whether watermarks are searched for too.
    """

    window: tuple[float, float] | None = None
    trial: bool = False
    points: int = 0
    watermarks: bool = False

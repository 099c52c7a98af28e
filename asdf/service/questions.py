"""Options of a client's request for a recording."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """The options of a request.

    Attributes:
        window: Length and hop of the windows for scores over time, in seconds.
        trial: Whether to score the beginning of the recording, as a trial of the network's
            protocol.
        points: Number of points of the waveform's outline; 0: none.
    """

    window: tuple[float, float] | None = None
    trial: bool = False
    points: int = 0

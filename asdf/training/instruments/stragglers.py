"""The process that the others wait for: the slowest one, and the part in which it is slow.

Parts prolonged by waiting for others say nothing about a process. Only parts without an exchange
are therefore compared: reading, the optimiser, and work between the steps; also the forward pass,
unless a norm is over all processes or layers are gathered.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from asdf.training.instruments.clock import DATA, FORWARD, OPTIMISER, REST

# A smaller lag is within the scatter between log lines.
_SHARE = 0.1


@dataclass(frozen=True)
class OwnTimes:
    """The seconds of a process in each part of its steps, on its host."""

    host: str
    seconds: Mapping[str, float]

    @classmethod
    def of(cls, seconds: Mapping[str, float]) -> OwnTimes:
        """Return the times of this process."""
        return cls(socket.gethostname(), seconds)


@dataclass(frozen=True)
class Straggler:
    """The slowest process.

    Attributes:
        part: Part of its steps with the largest lag.
        lag: Time by which it is slower than the median, as a share of its total time.
    """

    rank: int
    host: str
    part: str
    lag: float

    def describe(self) -> str:
        """Return 'rank 3 (node7) slower by 12 %: waiting for data'."""
        return f"rank {self.rank} ({self.host}) slower by {100 * self.lag:.0f} %: {self.part}"

    def record(self) -> dict[str, object]:
        """Return plain values for a log of numbers."""
        return {"rank": self.rank, "host": self.host, "part": self.part, "lag": self.lag}


def find_straggler(times: Sequence[OwnTimes], forward_is_own: bool) -> Straggler | None:
    """Return the process that the others wait for; None if all take about as long.

    Args:
        times: Times of all processes since the last line, by rank.
        forward_is_own: Whether a forward pass does not wait for other processes.
    """
    parts = [DATA, OPTIMISER, REST]
    if forward_is_own:
        parts.append(FORWARD)
    usual = {}
    for part in parts:
        # Of two processes this is the faster one, to which the other is compared.
        usual[part] = median_low([one.seconds[part] for one in times])
    slowest: Straggler | None = None
    for rank, one in enumerate(times):
        total = sum(one.seconds.values())
        lost = {part: max(0.0, one.seconds[part] - usual[part]) for part in parts}
        lag = sum(lost.values()) / total if total else 0.0
        if lag >= _SHARE and (slowest is None or lag > slowest.lag):
            part = max(parts, key=lost.__getitem__)
            slowest = Straggler(rank, one.host, part, lag)
    return slowest

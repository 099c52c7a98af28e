"""What a service takes of its clients and of its machine, and how it refuses the rest.

Invariant: whatever is refused is refused with a status that says whose turn it is: the client's to
change the request (4xx), or to come again later (429 and 503, with Retry-After).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE

GONE = 499
"""nginx's status of a client that has closed its connection: nobody reads it, it is for the log."""

_MB = 1_000_000
_BYTES_OF_SAMPLE = 4
MAX_OVERLAP = 5
"""How often scores over time hear a recording of the maximal length, or a call, at most."""

_POSITIVE = ("max_mb", "max_seconds", "call_s", "head_s", "upload_s", "request_s", "stop_s")
_COUNTS = ("queue", "calls", "readers", "connections", "client_connections")


# Advice of messages that is for who owns the lists and the limits, and no client of a service.
_NOT_FOR_CLIENTS = re.compile(r"[,:;]?(?: or)? (?:take (?:it|them) off the list|raise the limit)")


def for_clients(message: str) -> str:
    """Return a message on a recording without the advice that clients cannot follow."""
    return _NOT_FOR_CLIENTS.sub("", message)


class Refusal(Exception):
    """A request that is not answered with a score.

    Attributes:
        status: HTTP status.
        message: Words on what is wrong and what to do.
        retry_after_s: after how many seconds the same request may succeed; None: never.
    """

    def __init__(self, status: int, message: str, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class ServiceLimits:
    """The limits of a service.

    Attributes:
        max_mb: megabytes of a recording as it is uploaded.
        max_seconds: Max length of a recording.
        queue: recordings that are in memory together; more are refused until one is done.
        calls: Calls that are heard together, by websockets; more are refused until one ends.
        call_s: Max seconds of a call, of its audio as of the clock.
        rate: requests per minute of a client, which may come all at once; 0: any number, of any
            length.
        audio_rate: seconds of audio per minute of a client that the network may hear, references
            included, and where windows overlap several times; 0: any.
        connections: open connections, whatever they are for.
        client_connections: open connections of one client.
        readers: threads that decode.
        head_s: seconds that a client may take to send the headers of a request.
        upload_s: seconds that a client may take to send a recording.
        request_s: seconds that a recording may take from there to its score.
        stop_s: seconds that a service that is requested to stop may take to finish what it has.
    """

    max_mb: float = 32.0
    max_seconds: float = 600.0
    queue: int = 32
    calls: int = 32
    call_s: float = 7200.0
    rate: int = 120
    audio_rate: float = 1800.0
    connections: int = 256
    client_connections: int = 64
    readers: int = 2
    head_s: float = 10.0
    upload_s: float = 60.0
    request_s: float = 120.0
    stop_s: float = 30.0

    def check(self) -> None:
        """Raise a UsageError where a limit leaves nothing to serve."""
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"{name} = {getattr(self, name):g}: give a positive number.")
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)}: give 1 or more.")
        if self.rate < 0:
            raise UsageError(f"rate = {self.rate}: give 1 or more, or 0 for any number.")
        # Not `audio_rate < 0`: of NaN that is False too.
        if not 0 <= self.audio_rate < float("inf"):
            raise UsageError(
                f"audio_rate = {self.audio_rate:g}: give a positive number, or 0 for any."
            )

    @property
    def max_bytes(self) -> int:
        return int(self.max_mb * _MB)

    @property
    def max_piece_s(self) -> float:
        """Seconds that the network may hear for the scores over time of one recording."""
        return MAX_OVERLAP * self.max_seconds

    @property
    def memory_mb(self) -> float:
        """Megabytes that all recordings may take together: as uploaded, and as samples."""
        samples = self.max_seconds * SAMPLE_RATE * _BYTES_OF_SAMPLE / _MB
        return self.queue * (self.max_mb + samples)

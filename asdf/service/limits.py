"""Limits of a service on clients and resources, and refusals.

Invariant: a refusal has a status that says what to do: change the request (4xx), or try again later
(429 and 503, with Retry-After).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE

GONE = 499
"""nginx's status for a client that closed its connection, used only in the log."""

_MB = 1_000_000
_BYTES_OF_SAMPLE = 4
MAX_OVERLAP = 5
"""Maximum ratio of audio heard to length, for scores over time of a maximal recording or a call."""

_POSITIVE = ("max_mb", "max_seconds", "call_s", "head_s", "upload_s", "request_s", "stop_s")
_COUNTS = ("queue", "calls", "readers", "connections", "client_connections")


# Advice in messages for owners of lists and limits, which clients of a service cannot follow.
_NOT_FOR_CLIENTS = re.compile(r"[,:;]?(?: or)? (?:take (?:it|them) off the list|raise the limit)")


def for_clients(message: str) -> str:
    """Return a message about a recording without the advice that clients cannot follow."""
    return _NOT_FOR_CLIENTS.sub("", message)


class Refusal(Exception):
    """A request that is not answered with a score.

    Attributes:
        status: HTTP status.
        message: Description of the problem and the remedy.
        retry_after_s: Time after which the same request may succeed, in seconds; None: never.
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
        max_mb: Maximum size of an upload, in megabytes.
        max_seconds: Maximum length of a recording, in seconds.
        queue: Maximum number of recordings in memory; more are refused until one is done.
        calls: Maximum number of simultaneous calls over websockets; more are refused until one
            ends.
        call_s: Maximum length of a call, both of its audio and of real time, in seconds.
        rate: Maximum number of requests of a client per minute, which may come all at once; 0: any
            number, of any length.
        audio_rate: Maximum length of audio that the network hears for a client per minute, in
            seconds, including references and counting overlapping windows repeatedly; 0: any.
        connections: Maximum number of open connections of any kind.
        client_connections: Maximum number of open connections of one client.
        readers: Number of decoding threads.
        head_s: Maximum time for a client to send the headers of a request, in seconds.
        upload_s: Maximum time for a client to send a recording, in seconds.
        request_s: Maximum time from the end of the upload to the score, in seconds.
        stop_s: Maximum time to finish the current work after a stop request, in seconds.
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
        """Raise a UsageError if a limit leaves nothing to serve."""
        for name in _POSITIVE:
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"{name} = {getattr(self, name):g}: give a positive number.")
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise UsageError(f"{name} = {getattr(self, name)}: give 1 or more.")
        if self.rate < 0:
            raise UsageError(f"rate = {self.rate}: give 1 or more, or 0 for any number.")
        # `audio_rate < 0` would let NaN pass.
        if not 0 <= self.audio_rate < float("inf"):
            raise UsageError(
                f"audio_rate = {self.audio_rate:g}: give a positive number, or 0 for any."
            )

    @property
    def max_bytes(self) -> int:
        return int(self.max_mb * _MB)

    @property
    def max_piece_s(self) -> float:
        """Maximum length of audio that the network hears for scores over time of one recording."""
        return MAX_OVERLAP * self.max_seconds

    @property
    def memory_mb(self) -> float:
        """Maximum memory of all recordings together, as uploaded and as samples, in megabytes."""
        samples = self.max_seconds * SAMPLE_RATE * _BYTES_OF_SAMPLE / _MB
        return self.queue * (self.max_mb + samples)

"""Limits of a service on clients and resources, and refusals.

Invariant: a refusal has a status that says what to do: change the request (4xx), or try again later
(503, with Retry-After).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE

GONE = 499
"""nginx's status for a client that closed its connection, used only in the log."""

_MB = 1_000_000
_BYTES_OF_SAMPLE = 4
# What a place of the queue holds; a larger recording takes several.
_PLACE_S = 300.0
_PLACE_MB = 16.0
# Maximum ratio of audio heard to length, for scores over time of a recording of maximum length.
_MAX_OVERLAP = 5
# Advice in messages for owners of lists and limits, which clients of a service cannot follow.
_NOT_FOR_CLIENTS = re.compile(r"[,:;]?(?: or)? (?:take (?:it|them) off the list|raise the limit)")


def other_ways(option: str) -> str:
    """Return what to do with a recording beyond a limit; it may be evidence, and stays whole."""
    return (
        f"Ask who runs this service for a higher limit ({option}), or score the file with "
        "`asdf-antispoofing score`."
    )


def for_clients(message: str) -> str:
    """Return a message about a recording without the advice that clients cannot follow."""
    what, limit, _ = message.partition(", the limit max_seconds")
    if limit:
        return f"{what}. {other_ways('--max-seconds')}"
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
    """The limits of each process of a service.

    Attributes:
        max_mb: Maximum size of an upload, in megabytes.
        max_seconds: Maximum length of a recording, in seconds.
        queue: Maximum number of recordings in memory, of which long ones count as several; more
            are refused until one is done.
        connections: Maximum number of open connections; more wait until one is closed.
        readers: Number of decoding threads.
        head_s: Maximum time for a client to send the headers of a request, in seconds.
        upload_s: Maximum time for a client to send a recording, in seconds.
        request_s: Maximum time from the end of the upload to the score, in seconds, besides the
            length of the recording.
        stop_s: Maximum time to finish the current work after a stop request, in seconds.
    """

    max_mb: float = 256.0
    max_seconds: float = 7200.0
    queue: int = 64
    connections: int = 256
    readers: int = 2
    head_s: float = 10.0
    upload_s: float = 300.0
    request_s: float = 120.0
    stop_s: int = 30

    def check(self) -> None:
        """Raise a UsageError if a limit leaves nothing to serve."""
        for name in ("max_mb", "max_seconds"):
            if not 0 < getattr(self, name) < float("inf"):
                raise UsageError(f"{name} = {getattr(self, name):g}: give a positive number.")
        if self.queue < 1:
            raise UsageError(f"queue = {self.queue}: give 1 or more.")

    @property
    def max_bytes(self) -> int:
        return int(self.max_mb * _MB)

    @property
    def max_heard_s(self) -> float:
        """Maximum length of audio that the network hears for scores over time of one recording."""
        return _MAX_OVERLAP * self.max_seconds

    def places(self, bytes_sent: float, seconds: float) -> int:
        """Return how many places of the queue a recording takes."""
        return max(1, math.ceil(bytes_sent / _MB / _PLACE_MB), math.ceil(seconds / _PLACE_S))

    @property
    def memory_mb(self) -> float:
        """Maximum memory of all recordings together, as uploaded and as samples, in megabytes."""
        mb_per_s = SAMPLE_RATE * _BYTES_OF_SAMPLE / _MB
        # One recording is taken at any size within the limits, if there is no other.
        largest = self.max_mb + self.max_seconds * mb_per_s
        place = min(self.max_mb, _PLACE_MB) + min(self.max_seconds, _PLACE_S) * mb_per_s
        return max(largest, self.queue * place)

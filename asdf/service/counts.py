"""What a service counts, in the format of Prometheus.

Invariant: labels have few values, none of which a client chooses.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_PIECES = (1, 2, 4, 8, 16, 32, 64, 128)


class Counts:
    """The numbers of one service, in a registry of its own: a process may have several."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self.requests = Counter(
            "asdf_requests",
            "Requests answered, by path and status.",
            ["path", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "asdf_request_seconds",
            "Seconds from a request for a score to its answer.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.recordings = Counter("asdf_recordings", "Recordings scored.", registry=registry)
        self.audio_seconds = Counter(
            "asdf_audio_seconds", "Seconds of recordings scored.", registry=registry
        )
        self.received_bytes = Counter(
            "asdf_received_bytes", "Bytes of recordings received.", registry=registry
        )
        self.pass_pieces = Histogram(
            "asdf_pass_pieces",
            "Pieces of recordings in a forward pass of the network.",
            registry=registry,
            buckets=_PIECES,
        )
        self.call_windows = Counter(
            "asdf_call_windows", "Windows of calls scored.", registry=registry
        )
        self.window_seconds = Histogram(
            "asdf_call_window_seconds",
            "Seconds from the message that completes a window of a call to its score.",
            registry=registry,
            buckets=_SECONDS,
        )
        ProcessCollector(registry=registry)

    def watch(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Add a number that is asked for when the others are read."""
        Gauge(name, meaning, registry=self._registry).set_function(value)

    def as_text(self) -> bytes:
        """Return all numbers in Prometheus' text format."""
        return generate_latest(self._registry)

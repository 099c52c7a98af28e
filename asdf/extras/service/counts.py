"""Metrics of a service, in the format of Prometheus.

Invariant: labels have few values, none of which a client can choose. Where several processes
serve, they count in files of a folder that they share, as in the package's multiprocess mode, and
any of them states the sums.
"""

from __future__ import annotations

import os
from typing import Literal

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Variable of prometheus_client with the folder; it is read when the package is imported."""

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_PIECES = (1, 2, 4, 8, 16, 32, 64, 128)
_Mode = Literal["livesum", "livemax"]


class Counts:
    """The metrics of one process, in their own registry: a test has several services."""

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(name, meaning, labels, registry=registry)

        def gauge(name: str, meaning: str, mode: _Mode = "livesum") -> Gauge:
            return Gauge(name, meaning, registry=registry, multiprocess_mode=mode)

        self.requests = counter(
            "asdf_requests", "Requests answered, by path and status.", "path", "status"
        )
        self.recordings = counter("asdf_recordings", "Recordings scored.")
        self.audio_seconds = counter("asdf_audio_seconds", "Seconds of recordings scored.")
        self.received_bytes = counter("asdf_received_bytes", "Bytes of recordings received.")
        self.seconds = Histogram(
            "asdf_request_seconds",
            "Seconds from a request for a score to its answer.",
            registry=registry,
            buckets=_SECONDS,
        )
        self.pass_pieces = Histogram(
            "asdf_pass_pieces",
            "Pieces of recordings in a forward pass of the network.",
            registry=registry,
            buckets=_PIECES,
        )
        self.ready = gauge("asdf_ready", "Processes that accept recordings.")
        self.in_memory = gauge("asdf_recordings_in_memory", "Recordings in memory.")
        self.pieces_waiting = gauge(
            "asdf_pieces_waiting", "Pieces of recordings that wait for a forward pass."
        )
        self.queue_age_seconds = gauge(
            "asdf_queue_age_seconds",
            "Seconds that the oldest recording had waited when the last forward pass began.",
            "livemax",
        )
        if FOLDER_VARIABLE not in os.environ:
            # Memory and CPU time of one of several processes could be mistaken for those of all.
            ProcessCollector(registry=registry)

    def as_text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        registry = self._registry
        if FOLDER_VARIABLE in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)
        return generate_latest(registry)

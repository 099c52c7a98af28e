"""Metrics of a service, in the format of Prometheus.

Invariant: labels have few values, none of which a client can choose.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
    values,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_PIECES = (1, 2, 4, 8, 16, 32, 64, 128)


def sum_over_workers(folder: Path) -> None:
    """Let this process count in files of a folder that it shares with the other workers.

    This applies to the whole process, from the next `Counts` on.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    # The class was chosen when the package was imported, possibly before the fork.
    values.ValueClass = values.get_value_class()


class _Watched(Collector):
    """Values that are read when the metrics are collected."""

    def __init__(self) -> None:
        self.numbers: dict[str, tuple[str, Callable[[], float]]] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, (meaning, value) in self.numbers.items():
            yield GaugeMetricFamily(name, meaning, value=value())


class Counts:
    """The metrics of one service, in their own registry: a process may have several."""

    def __init__(self, folder: Path | None = None) -> None:
        """Start counting.

        Args:
            folder: Folder of `sum_over_workers`; None: the service has a single process.
        """
        registry = CollectorRegistry()
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
        self._watched = _Watched()
        self._read = _join(registry, folder)
        self._read.register(self._watched)

    def watch(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Add a value that is read when the metrics are collected."""
        self._watched.numbers[name] = (meaning, value)

    def as_text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._read)


def _join(registry: CollectorRegistry, folder: Path | None) -> CollectorRegistry:
    """Return the registry to read: metrics of the process, or of all workers."""
    if folder is None:
        ProcessCollector(registry=registry)
        return registry
    # Memory and CPU time of a single worker could be mistaken for those of all.
    summed = CollectorRegistry()
    MultiProcessCollector(summed, str(folder))
    return summed

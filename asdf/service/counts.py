"""What a service counts, in the format of Prometheus.

Invariant: labels have few values, none of which a client chooses.
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
    """Let this process count in files of a folder, which it shares with the other workers.

    It holds for all of the process, from the next `Counts` on.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    # Of what a process was when the package was imported, which may be before the fork.
    values.ValueClass = values.get_value_class()


class _Watched(Collector):
    """Numbers that are asked for when the others are read."""

    def __init__(self) -> None:
        self.numbers: dict[str, tuple[str, Callable[[], float]]] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, (meaning, value) in self.numbers.items():
            yield GaugeMetricFamily(name, meaning, value=value())


class Counts:
    """The numbers of one service, in a registry of its own: a process may have several."""

    def __init__(self, folder: Path | None = None) -> None:
        """Begin to count.

        Args:
            folder: Folder of `sum_over_workers`; None: the service is this process alone.
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
        """Add a number that is asked for when the others are read."""
        self._watched.numbers[name] = (meaning, value)

    def as_text(self) -> bytes:
        """Return all numbers in Prometheus' text format."""
        return generate_latest(self._read)


def _join(registry: CollectorRegistry, folder: Path | None) -> CollectorRegistry:
    """Return what is read of a process's numbers: with those of the process, or of all workers."""
    if folder is None:
        ProcessCollector(registry=registry)
        return registry
    # Memory and processor time of a single worker would be taken for those of all.
    summed = CollectorRegistry()
    MultiProcessCollector(summed, str(folder))
    return summed

"""Memory shared by the workers of a service: allowances of clients, and load of each worker.

Invariant: a limit applies to all workers together, and a worker that dies leaves nothing behind.
Each worker writes its load to its own row, which is cleared when the worker is gone; shared values
are changed under a lock that the system releases if its holder dies.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import IO

import numpy as np

from asdf.runs.systems import lock, unlock

# Clients are hashed into groups; if a group is full, the client that was seen longest ago is
# dropped. Groups of 16 hold 2.5 clients on average for 10,000 clients, so none of those is dropped.
_GROUPS = 4096
_WAYS = 16
_ALLOWANCE = np.dtype([("client", "u8"), ("requests", "f8"), ("audio_s", "f8"), ("time_s", "f8")])
_HELD = np.dtype(
    [
        ("recordings", "i8"),
        ("calls", "i8"),
        ("pieces", "i8"),
        ("waits_s", "f8"),
        ("ready", "i8"),
        # Incremented while the worker is alive.
        ("beats", "i8"),
    ]
)
# Workers of the current network, those of the previous one that finish their work, and new ones.
_GENERATIONS = 3


class Board:
    """State that the workers of a service share; made before they are forked.

    Attributes:
        rows: Maximum number of workers at a time, including those of a reload.
        max_connections: Maximum number of connections of a worker.
        allowances: Allowances of clients, (groups, ways).
        held: Load of each worker, (rows,).
        connections: Client keys of the open connections of each worker, (rows, connections); 0 for
            none.
    """

    def __init__(
        self, workers: int = 1, max_connections: int = 256, lock_file: Path | None = None
    ) -> None:
        """Start with an empty board.

        Args:
            lock_file: File that workers lock; None: there is only one worker.
        """
        self.rows = 1 if workers == 1 else _GENERATIONS * workers
        self.max_connections = max_connections
        self.allowances = _share((_GROUPS, _WAYS), _ALLOWANCE)
        self.held = _share((self.rows,), _HELD)
        self.connections = _share((self.rows, max_connections), np.dtype("u8"))
        # The salt prevents choosing addresses that displace another client.
        self._salt = os.urandom(16)
        self._threads = threading.Lock()
        self._lock_file = lock_file
        self._opened: IO[bytes] | None = None
        self._opened_by = 0

    def key_of(self, client: str) -> int:
        """Return the number of a client, which is not 0."""
        digest = blake2b(client.encode("utf-8", "surrogatepass"), digest_size=8, key=self._salt)
        return int.from_bytes(digest.digest(), "little") or 1  # 0 marks an unused entry

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the shared state against other threads and workers."""
        with self._threads:
            if self._lock_file is None:
                yield
                return
            # If the file was opened before the fork, its lock would be shared by all workers.
            if self._opened is None or self._opened_by != os.getpid():
                self._opened = self._lock_file.open("ab")
                self._opened_by = os.getpid()
            lock(self._opened, wait=True)
            try:
                yield
            finally:
                unlock(self._opened)

    def find_client(self, client: str) -> tuple[np.void, bool]:
        """Return the allowance of a client, while locked, and whether the client was known.

        An unknown client replaces the one that was seen longest ago.
        """
        key = self.key_of(client)
        group = self.allowances[key % _GROUPS]
        (known,) = np.nonzero(group["client"] == key)
        if len(known):
            return group[known[0]], True
        # Unused entries have the time 0.
        free = int(np.where(group["client"] == 0, -np.inf, group["time_s"]).argmin())
        group[free]["client"] = key
        return group[free], False

    def empty(self, row: int) -> None:
        """Clear the row of a worker that is gone."""
        self.held[row] = np.zeros((), _HELD)
        self.connections[row] = 0


class Seat:
    """A worker's row of the board."""

    def __init__(self, board: Board, row: int = 0) -> None:
        self.board = board
        self.row = row

    def count(self, name: str) -> int:
        """Return how many of `name` all workers hold."""
        return int(self.board.held[name].sum())

    def take(self, name: str, limit: int) -> bool:
        """Take one more of `name`; return False if all workers together hold `limit` already."""
        with self.board.lock():
            if self.count(name) >= limit:
                return False
            self.board.held[name][self.row] += 1
            return True

    def give_back(self, name: str) -> None:
        """Release one of `name`."""
        with self.board.lock():
            self.board.held[name][self.row] -= 1

    def note(self, name: str, value: float) -> None:
        """Publish a number of this worker."""
        self.board.held[name][self.row] = value

    def beat(self) -> None:
        """Signal that this worker is alive."""
        self.board.held["beats"][self.row] += 1

    def note_connections(self, keys: list[int]) -> None:
        """Publish the client keys of this worker's open connections."""
        row = self.board.connections[self.row]
        row[: len(keys)] = keys[: len(row)]
        row[len(keys) :] = 0

    def count_connections(self, key: int | None = None) -> int:
        """Return the number of the other workers' connections, in total or of a client."""
        others = np.delete(self.board.connections, self.row, axis=0)
        is_counted = others != 0 if key is None else others == key
        return int(np.count_nonzero(is_counted))


def _share(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array of zeros that forked processes share."""
    size = max(1, int(np.prod(shape)) * dtype.itemsize)
    memory = mmap.mmap(-1, size)
    return np.frombuffer(memory, dtype, int(np.prod(shape))).reshape(shape)

"""Memory that the workers of a service share: what clients have left, and what each worker holds.

Invariant: a limit holds over all workers, and a worker that dies takes nothing along. Each writes
what it holds in a row of its own, which is emptied when it has gone; what belongs to all is changed
under a lock that the system opens again when its holder dies.
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

# Clients are spread over groups by a digest; of a full group the one seen longest ago is forgotten.
# Groups of 16 hold 2.5 on average where there are 10,000 clients, so none of those is.
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
        # Goes up as long as the worker works.
        ("beats", "i8"),
    ]
)
# Workers of the network of now, those of the one before that end what they have, and those to come.
_GENERATIONS = 3


class Board:
    """What the workers of a service share; made before they are forked.

    Attributes:
        rows: Number of workers that may be there together, those of a reload included.
        max_connections: Number of connections that a worker may have.
        allowances: Allowances of clients, (groups, ways).
        held: What each worker holds, (rows,).
        connections: Clients' keys of the open connections of each worker, (rows, connections); 0
            where there is none.
    """

    def __init__(
        self, workers: int = 1, max_connections: int = 256, lock_file: Path | None = None
    ) -> None:
        """Share nothing yet.

        Args:
            lock_file: File that workers lock; None: there is one.
        """
        self.rows = 1 if workers == 1 else _GENERATIONS * workers
        self.max_connections = max_connections
        self.allowances = _share((_GROUPS, _WAYS), _ALLOWANCE)
        self.held = _share((self.rows,), _HELD)
        self.connections = _share((self.rows, max_connections), np.dtype("u8"))
        # Nobody can choose addresses that push another client out.
        self._salt = os.urandom(16)
        self._threads = threading.Lock()
        self._lock_file = lock_file
        self._opened: IO[bytes] | None = None
        self._opened_by = 0

    def key_of(self, client: str) -> int:
        """Return a client's number, which is not 0."""
        digest = blake2b(client.encode("utf-8", "surrogatepass"), digest_size=8, key=self._salt)
        return int.from_bytes(digest.digest(), "little") or 1

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Change what is shared, alone among threads and workers."""
        with self._threads:
            if self._lock_file is None:
                yield
                return
            # A file that was opened before the fork would be locked for all workers at once.
            if self._opened is None or self._opened_by != os.getpid():
                self._opened = self._lock_file.open("ab")
                self._opened_by = os.getpid()
            lock(self._opened, wait=True)
            try:
                yield
            finally:
                unlock(self._opened)

    def find_client(self, client: str) -> tuple[np.void, bool]:
        """Return the allowance of a client, under the lock, and whether it was known.

        That of a client that was not known takes the place of the one seen longest ago.
        """
        key = self.key_of(client)
        group = self.allowances[key % _GROUPS]
        (known,) = np.nonzero(group["client"] == key)
        if len(known):
            return group[known[0]], True
        # Places that nobody has had are of the time 0.
        free = int(np.where(group["client"] == 0, -np.inf, group["time_s"]).argmin())
        group[free]["client"] = key
        return group[free], False

    def empty(self, row: int) -> None:
        """Forget what a worker that has gone held."""
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
        """Hold one more of `name`; False where all workers hold `limit` already."""
        with self.board.lock():
            if self.count(name) >= limit:
                return False
            self.board.held[name][self.row] += 1
            return True

    def give_back(self, name: str) -> None:
        """Hold one less of `name`."""
        with self.board.lock():
            self.board.held[name][self.row] -= 1

    def note(self, name: str, value: float) -> None:
        """State a number of this worker."""
        self.board.held[name][self.row] = value

    def beat(self) -> None:
        """State that this worker works."""
        self.board.held["beats"][self.row] += 1

    def note_connections(self, keys: list[int]) -> None:
        """State the clients' keys of this worker's open connections."""
        row = self.board.connections[self.row]
        row[: len(keys)] = keys[: len(row)]
        row[len(keys) :] = 0

    def count_connections(self, key: int | None = None) -> int:
        """Return how many connections the other workers have open, in all or of a client's key."""
        others = np.delete(self.board.connections, self.row, axis=0)
        is_counted = others != 0 if key is None else others == key
        return int(np.count_nonzero(is_counted))


def _share(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return zeros that forked processes share."""
    size = max(1, int(np.prod(shape)) * dtype.itemsize)
    memory = mmap.mmap(-1, size)
    return np.frombuffer(memory, dtype, int(np.prod(shape))).reshape(shape)

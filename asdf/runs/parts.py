"""Long work on the entries of a list, saved in parts from which the same command goes on.

Invariant: a part is whole or absent, and holds what its numbers depend on. Parts of other work are
never used: they are removed, and the log says in what they differ. So what was saved survives any
end of the process, `kill -9` among them, and any number of processes may go on from it.
"""

from __future__ import annotations

import json
import secrets
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from asdf.remote import is_remote
from asdf.runs.files import atomic_write, files_named, remove_unfinished
from asdf.runs.log import LOG

# Arrays of equally many rows, or of as many as a column of counts says.
Columns = dict[str, np.ndarray]

# How much a killed process may lose: on a disk, and in a store, where each part is a request.
SAVED_EVERY_S = 20.0
STORED_EVERY_S = 60.0
_WORK = "work"
# A part is written within seconds.
_ABANDONED_S = 3600.0


class Parts:
    """What this process has done of some work, and what any process had saved of it.

    Attributes:
        saved: True if this process has saved a part.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str,
        work: Callable[[], dict[str, Any]],
        others: Sequence[str] = (),
    ) -> None:
        """Prepare parts in `folder`, which all processes see; nothing is read or written yet.

        Args:
            folder: Folder on a disk or in a store.
            prefix: Beginning of the names of the parts' files.
            work: returns all that the numbers depend on, as plain values; called when a part is
                read or written, as it may take seconds.
            others: Beginnings of the names of files of the same work that are read, too.
        """
        self.saved = False
        self._folder = folder
        self._prefix = prefix
        self._others = others
        self._work = work
        self._added: list[Columns] = []
        self._saved_at = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether the last part was saved, or the work begun, long enough ago."""
        every = STORED_EVERY_S if is_remote(self._folder) else SAVED_EVERY_S
        return time.monotonic() - self._saved_at > every

    def add(self, columns: Columns) -> None:
        """Add what has been done; it is lost with the process until `save`."""
        self._added.append(columns)

    def save(self) -> None:
        """Write what was added since the last time.

        Raises:
            AsdfError: it cannot be written.
        """
        if self._added:
            work = np.array(_encode(self._work()))
            arrays: dict[str, Any] = {_WORK: work, **join_columns(self._added)}
            # A name of its own: several processes save parts of the same work.
            path = self._folder / f"{self._prefix}{secrets.token_hex(8)}.npz"
            with atomic_write(path, "wb") as file:
                np.savez(file, **arrays)
            self.saved = True
        self._added = []
        self._saved_at = time.monotonic()

    def read(self, what: str) -> list[Columns]:
        """Return the parts that were saved; the main process alone may call this.

        Parts of other work, and what is not a part, are removed.

        Args:
            what: the work in words, such as 'scoring dev', for the log.
        """
        parts: list[Columns] = []
        others: set[str] = set()
        for path in self._paths():
            columns = _read_part(path)
            differs = _difference(columns, self._work()) if columns else "is damaged"
            if columns is None or differs:
                others.add(differs)
                path.unlink(missing_ok=True)
                continue
            del columns[_WORK]
            parts.append(columns)
        for differs in sorted(others):
            LOG.info("%s: what an earlier start had saved is not used: it %s", what, differs)
        return parts

    def remove(self) -> None:
        """Remove all parts: the work is done, and its result written."""
        for path in self._paths():
            path.unlink(missing_ok=True)
        # Another run may be at the same work, and writing a part now.
        remove_unfinished(self._folder, older_than_s=_ABANDONED_S)

    def _paths(self) -> list[Path]:
        return files_named(self._folder, self._prefix, *self._others, end=".npz")


def join_columns(parts: Sequence[Columns]) -> Columns:
    """Put the rows of some parts into one."""
    joined = {}
    for name in parts[0]:
        joined[name] = np.concatenate([part[name] for part in parts])
    return joined


def _encode(work: dict[str, Any]) -> str:
    return json.dumps(work, sort_keys=True)


def _read_part(path: Path) -> Columns | None:
    """Return the columns of a part, with its work; None for a file that is damaged."""
    with (
        suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile),
        path.open("rb") as opened,
        np.load(opened, allow_pickle=False) as file,
    ):
        return {name: file[name] for name in file.files}
    return None


def _difference(columns: Columns, work: dict[str, Any]) -> str:
    """Say in what the work of a part differs from `work`; '' if in nothing."""
    try:
        saved = json.loads(str(columns[_WORK]))
    except (KeyError, ValueError):
        return "does not say what it is of"
    if not isinstance(saved, dict):
        return "does not say what it is of"
    here = json.loads(_encode(work))
    others = [f"another {name}" for name in here | saved if here.get(name) != saved.get(name)]
    return f"is of {', '.join(others)}" if others else ""

"""Long work on the entries of a list, saved in parts from which the same command resumes.

Invariant: a part is whole or absent, and records the inputs of its numbers. Parts with other inputs
are never used: they are removed, and the log says what differs. Saved parts survive any end of the
process, including `kill -9`, and any number of processes may resume from them.
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

from asdf.runs.files import atomic_write, files_named, remove_unfinished
from asdf.runs.log import LOG

# Arrays with equal numbers of rows, or with the numbers of rows in a column of counts.
Columns = dict[str, np.ndarray]

# Maximum work that a killed process loses.
SAVED_EVERY_S = 20.0
_WORK = "work"
# Writing a part takes seconds, so an older unfinished file is abandoned.
_ABANDONED_S = 3600.0


class Parts:
    """The finished entries of some work, of this process and of earlier ones.

    Attributes:
        saved: Whether this process has saved a part.
    """

    def __init__(self, folder: Path, prefix: str, work: Callable[[], dict[str, Any]]) -> None:
        """Prepare parts in `folder`, which all processes share, without reading or writing.

        Args:
            folder: Folder of the parts' files.
            prefix: Prefix of the names of the parts' files.
            work: Function that returns all inputs that the numbers depend on, as plain values;
                called when a part is read or written, as it may take seconds.
        """
        self.saved = False
        self._folder = folder
        self._prefix = prefix
        self._work = work
        self._added: list[Columns] = []
        self._saved_at = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time to save another part."""
        return time.monotonic() - self._saved_at > SAVED_EVERY_S

    def add(self, columns: Columns) -> None:
        """Add finished rows, which are lost with the process until `save`."""
        self._added.append(columns)

    def save(self) -> None:
        """Write the rows added since the last save.

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
        """Return the saved parts; only the main process may call this.

        Parts with other inputs, and files that are not parts, are removed.

        Args:
            what: Description of the work for the log, such as 'scoring dev'.
        """
        parts: list[Columns] = []
        others: set[str] = set()
        for path in self._paths():
            columns: Columns = {}
            with (
                suppress(OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile),
                path.open("rb") as opened,
                np.load(opened, allow_pickle=False) as file,
            ):
                columns = {name: file[name] for name in file.files}
            saved = None
            with suppress(KeyError, ValueError):
                saved = json.loads(str(columns.pop(_WORK)))
            here = json.loads(_encode(self._work()))
            if saved == here:
                parts.append(columns)
                continue
            differs = "does not say what it belongs to" if columns else "is damaged"
            if isinstance(saved, dict):
                names = [name for name in here | saved if here.get(name) != saved.get(name)]
                differs = f"is of {', '.join(f'another {name}' for name in names)}"
            others.add(differs)
            path.unlink(missing_ok=True)
        for differs in sorted(others):
            LOG.info("%s: data saved by an earlier start is not used: it %s", what, differs)
        return parts

    def remove(self) -> None:
        """Remove all parts when the work is done and its result is written."""
        for path in self._paths():
            path.unlink(missing_ok=True)
        # Another run may be writing a part of the same work now.
        remove_unfinished(self._folder, older_than_s=_ABANDONED_S)

    def _paths(self) -> list[Path]:
        return files_named(self._folder, self._prefix, end=".npz")


def join_columns(parts: Sequence[Columns]) -> Columns:
    """Concatenate the rows of some parts."""
    joined = {}
    for name in parts[0]:
        joined[name] = np.concatenate([part[name] for part in parts])
    return joined


def _encode(work: dict[str, Any]) -> str:
    return json.dumps(work, sort_keys=True)

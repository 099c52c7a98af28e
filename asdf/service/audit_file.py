"""The audit file of a service: a line of JSON per verdict, each chained to the one before.

Invariant: a verdict is sent only after its line is on the disk, and existing lines are never
changed. `hash` is the SHA-256 of the line without it, which contains the hash of the line before as
`previous`: changing, removing or inserting a line requires changing all lines after it. Lines that
are cut off at the end can be detected only with a hash noted elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.runs.systems import lock, open_flags, read_at, unlock

FIRST = "0" * 64
"""`previous` of the first line."""

# Longer than any line: names of files are not recorded.
_MAX_LINE = 1 << 20
_ADVICE = (
    "It was changed, or is not an audit file. Check it with `python -m asdf audit-file`, and start "
    "a new file for the service."
)


def hash_of(entry: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an entry without its hash, as JSON with sorted keys and no spaces."""
    content = {key: value for key, value in entry.items() if key != "hash"}
    return hashlib.sha256(_canonical(content).encode()).hexdigest()


def _canonical(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


@dataclass(frozen=True)
class Chain:
    """The result of a check of an audit file.

    Attributes:
        lines: Number of valid lines from the start.
        last: Hash of the last valid line.
        problem: Problem of the next line; '' if there is none.
    """

    lines: int
    last: str
    problem: str = ""


def check_audit_file(path: Path, noted: str = "") -> Chain:
    """Check all lines of an audit file.

    Args:
        noted: Hash that a line of the file must have; '' for none.

    Raises:
        AsdfError: the file cannot be read.
    """
    previous = FIRST
    count = 0
    has_noted = not noted
    try:
        with path.open("rb") as file:
            # Limited, since a file without line ends would be read into memory as a whole.
            for line in iter(lambda: file.readline(_MAX_LINE), b""):
                problem = _problem_of(line, previous)
                if problem:
                    return Chain(count, previous, problem)
                count += 1
                previous = json.loads(line)["hash"]
                has_noted = has_noted or previous == noted
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}.") from None
    if not has_noted:
        return Chain(count, previous, f"no line has the hash {noted}: lines were cut off")
    return Chain(count, previous)


def _problem_of(line: bytes, previous: str) -> str:
    """Return the problem of a line after one with the hash `previous`; '' if there is none."""
    if not line.endswith(b"\n"):
        return "it is incomplete"
    try:
        entry = json.loads(line)
        stated, before = entry["hash"], entry["previous"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "it is not a line of an audit file"
    if before != previous:
        return "it does not follow the line before: lines were removed, inserted or moved"
    # The text is compared, too: other spaces or orders of keys would have the same hash.
    if hash_of(entry) != stated or line != f"{_canonical(entry)}\n".encode():
        return "it was changed: its hash differs"
    return ""


class AuditFile:
    """An audit file to which any number of threads and processes append."""

    def __init__(self, path: Path) -> None:
        """Open the file, or create it, and check that its last line is complete.

        Raises:
            AsdfError: it cannot be written, or its last line is not part of a chain.
        """
        self.path = path
        self._lock = threading.Lock()
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | open_flags()
        try:
            # Not readable for others: digests reveal who had which recording.
            self._file = os.open(path, flags, 0o600)
            with self._locked():
                self._last_hash()
        except OSError as error:
            raise AsdfError(
                f"the audit file {path} cannot be written: {error.strerror or error}."
            ) from None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            os.close(self._file)

    def add(self, entry: Mapping[str, Any]) -> str:
        """Append a line, wait until it is on the disk, and return its hash.

        Raises:
            OSError: the disk is full, or fails. No part of the line remains.
            AsdfError: the file was changed by others.
        """
        with self._locked():
            chained = {**entry, "previous": self._last_hash()}
            chained["hash"] = hash_of(chained)
            size = os.fstat(self._file).st_size
            line = f"{_canonical(chained)}\n".encode()
            try:
                # A full disk may accept a part of it.
                written = os.write(self._file, line)
                while written < len(line):
                    written += os.write(self._file, line[written:])
                os.fsync(self._file)
            except OSError:
                # Truncating needs no space. If it fails, the next line detects the rest.
                with suppress(OSError):
                    os.ftruncate(self._file, size)
                raise
            return str(chained["hash"])

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Exclude other threads and processes."""
        with self._lock:
            lock(self._file, wait=True)
            try:
                yield
            finally:
                unlock(self._file)

    def _last_hash(self) -> str:
        """Return the hash of the last line, which another process may have added.

        Raises:
            AsdfError: the end is not a line of a chain.
        """
        end = self._remove_unfinished()
        if not end:
            return FIRST
        tail = read_at(self._file, min(end, _MAX_LINE), max(0, end - _MAX_LINE))
        # The last byte ends the last line, so the search leaves it out.
        line = tail[tail.rfind(b"\n", 0, -1) + 1 :]
        try:
            before = json.loads(line)["previous"]
        except (ValueError, KeyError, TypeError, RecursionError):
            before = ""
        problem = _problem_of(line, before)
        if problem:
            raise AsdfError(f"{self.path}: the last line: {problem}. {_ADVICE}")
        return str(json.loads(line)["hash"])

    def _remove_unfinished(self) -> int:
        """Remove an incomplete line of a killed process; return the remaining size.

        No client got an answer for it, because answers wait for the complete line.
        """
        end = os.fstat(self._file).st_size
        tail = read_at(self._file, min(end, _MAX_LINE), max(0, end - _MAX_LINE))
        if not tail or tail.endswith(b"\n"):
            return end
        rest = len(tail) - tail.rfind(b"\n") - 1
        if (rest == len(tail) and end > len(tail)) or not tail[-rest:].startswith(b"{"):
            raise AsdfError(f"{self.path}: its last line is not from an audit file. {_ADVICE}")
        os.ftruncate(self._file, end - rest)
        LOG.warning("%s: removing %d bytes of an incomplete line", self.path, rest)
        return end - rest


def audit_entry(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of an answer: digests, time, verdict, score and options.

    It contains neither the recording nor its name, nor the client.
    """
    made_by = document["made_by"]
    (recording,) = document["recordings"]
    # Names of speakers are private too.
    speakers = {}
    if "speakers" in document:
        verdicts = []
        for each in document["speakers"]:
            verdicts.append({"score": each["score"], "verdict": each["verdict"]})
        speakers = {"speakers": verdicts}
    compared = {}
    if "reference_sha256" in recording:
        compared = {"reference_sha256": recording["reference_sha256"]}
    return {
        "time": made_by["date"],
        "recording_sha256": recording["sha256"],
        "network_sha256": made_by["network_sha256"],
        "asdf": made_by["asdf"],
        "kind": document["kind"],
        "score": recording["score"],
        "threshold": document["threshold"],
        "verdict": recording["verdict"],
        "parts": recording.get("parts"),
        "seconds": recording["seconds"],
        "remark": recording.get("remark"),
        "options": made_by["options"],
        **compared,
        **speakers,
    }

"""Download of a large file from the hub to its cache, resuming an interrupted one.

Invariant: a file enters the cache only if its SHA-256 is the one stated by the hub. huggingface_hub
compares sizes, and restarts a file if the process was killed meanwhile.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import time
from pathlib import Path
from typing import IO, Any

from asdf.errors import AsdfError
from asdf.hub.cache import CachedRepository, HubFile
from asdf.hub.hub_names import HubName
from asdf.hub.library import endpoint, is_unreachable
from asdf.runs.files import one_at_a_time
from asdf.runs.log import LOG, PROGRESS
from asdf.runs.progress import LINE_EVERY_S
from asdf.text import printable

_MEGABYTE = 1_000_000


def fetch_large(
    name: HubName, commit: str, file_name: str, file: HubFile, cached: CachedRepository
) -> None:
    """Download the content of a large file to the cache, unless it is there.

    Raises:
        AsdfError: the received content is not the file.
        OSError: the disk is full, or the hub or the network failed.
    """
    path = cached.blob_path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(path) as is_alone:
        part = path.with_name(f"{path.name}.asdf.part")
        if not is_alone:
            # Without locks in the file system, two processes must not write to the same file.
            part = part.with_name(f"{part.name}.{secrets.token_hex(4)}")
        # Another process may have downloaded it while this one waited.
        if path.is_file():
            return
        arrived = part.stat().st_size if part.exists() else 0
        # Checked before gigabytes are received.
        if shutil.disk_usage(part.parent).free < file.size - arrived:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(part))
        LOG.info("downloading %s of %s, %s MB", file_name, name, f"{file.size / _MEGABYTE:,.1f}")
        _receive(name, commit, file_name, file, part)
        if not file.is_content(part):
            part.unlink()
            raise AsdfError(
                f"{name}: {printable(file_name)} arrived damaged: its SHA-256 is not "
                f"{file.sha256}, as the hub states. It was removed. Run the command again; if that "
                "does not help, a proxy may be changing it."
            )
        part.replace(path)
        cached.note_checked(path, file)


def _receive(name: HubName, commit: str, file_name: str, file: HubFile, part: Path) -> None:
    """Append to the partial file until it is complete, while each connection makes progress."""
    while True:
        arrived = part.stat().st_size if part.exists() else 0
        try:
            _receive_rest(name, commit, file_name, file, part)
            return
        except Exception as error:
            has_grown = part.exists() and part.stat().st_size > arrived
            if not (has_grown and is_unreachable(error)):
                raise
            LOG.warning("%s: the connection broke; downloading the rest: %s", file_name, error)


def _receive_rest(name: HubName, commit: str, file_name: str, file: HubFile, part: Path) -> None:
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hf_hub_url(
        name.repository, file_name, repo_type=name.kind, revision=commit, endpoint=endpoint()
    )
    with part.open("ab") as opened:
        arrived = opened.tell()
        if arrived > file.size:
            # It is a part of another file.
            opened.truncate(0)
            arrived = 0
        http_get(
            url,
            _Watched(opened, file_name, file.size),  # type: ignore[arg-type]
            resume_size=arrived,
            headers=build_hf_headers(),
            expected_size=file.size,
            displayed_filename=file_name,
        )


class _Watched:
    """A file that logs the progress of writing."""

    def __init__(self, file: IO[bytes], name: str, size: int) -> None:
        self._file = file
        self._name = name
        self._size = size
        self._last_line = time.monotonic()

    def write(self, piece: bytes) -> int:
        written = self._file.write(piece)
        now = time.monotonic()
        if now - self._last_line > LINE_EVERY_S:
            self._last_line = now
            done = self._file.tell() // _MEGABYTE
            PROGRESS.info("downloading %s: %d of %d MB", self._name, done, self._size // _MEGABYTE)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

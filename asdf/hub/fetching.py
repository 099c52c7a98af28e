"""A large file from the hub into its cache: it goes on where an earlier command ended.

Invariant: a file enters the cache only when its SHA-256 is the one that the hub announces.
huggingface_hub compares sizes, and begins a file anew when the process was killed meanwhile.
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
    """Put the content of a large file into the cache, unless it is there.

    Raises:
        AsdfError: what arrives is not the file.
        OSError: the disk is full, or the hub or the network failed.
    """
    path = cached.blob_path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with one_at_a_time(path) as is_alone:
        part = path.with_name(f"{path.name}.asdf.part")
        if not is_alone:
            # File systems without locks: two processes must not write to one file.
            part = part.with_name(f"{part.name}.{secrets.token_hex(4)}")
        # Another process may have fetched it while this one waited.
        if path.is_file():
            return
        arrived = part.stat().st_size if part.exists() else 0
        if shutil.disk_usage(part.parent).free < file.size - arrived:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(part))
        LOG.info("fetching %s of %s, %s MB", file_name, name, f"{file.size / _MEGABYTE:,.1f}")
        _receive(name, commit, file_name, file, part)
        if not file.is_content(part):
            part.unlink()
            raise AsdfError(
                f"{name}: {printable(file_name)} arrived damaged: its SHA-256 is not "
                f"{file.sha256}, which the hub announces. It was removed. Run the command again; "
                "if that does not help, a proxy on the way changes it."
            )
        part.replace(path)
        cached.note_checked(path, file)


def _receive(name: HubName, commit: str, file_name: str, file: HubFile, part: Path) -> None:
    """Append to the part until it is whole, as long as each connection brings something."""
    while True:
        arrived = part.stat().st_size if part.exists() else 0
        try:
            _receive_rest(name, commit, file_name, file, part)
            return
        except Exception as error:
            has_grown = part.exists() and part.stat().st_size > arrived
            if not (has_grown and is_unreachable(error)):
                raise
            LOG.warning("%s: the connection broke; the rest is fetched: %s", file_name, error)


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
            # It is another file's.
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
    """A file that logs how much of it is written."""

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
            PROGRESS.info("fetching %s: %d of %d MB", self._name, done, self._size // _MEGABYTE)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

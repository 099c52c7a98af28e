"""Downloads of whole files: after a broken connection they go on where they ended.

Invariant: a file that is received without an error has the length that the server announced, and is
no web page, which proxies and login pages of a wireless network send instead of the file.
"""

from __future__ import annotations

import http.client
import math
from functools import partial
from itertools import chain
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from asdf.checkpoint.file_kinds import is_web_page
from asdf.runs.progress import track

TRIES = 3
# Of silence on the connection; a whole download takes longer.
_TIMEOUT_S = 60
_MEGABYTE = 1_000_000


class NotTheFileError(OSError):
    """The server sent something else than the file."""


class _BrokenOffError(OSError):
    """The connection ended before the file did."""


def receive(url: str, path: Path) -> None:
    """Write to `path` what the server sends for `url`, and show the progress.

    Raises:
        OSError: it cannot be received; `path` may then hold a part of it.
    """
    # What an earlier command left is of a version that is not known any more.
    path.unlink(missing_ok=True)
    download = _Download(url, path)
    for attempt in range(1, TRIES + 1):
        try:
            download.go_on()
            return
        except HTTPError:
            # The server's answer, which would be the same again.
            raise
        except (_BrokenOffError, ConnectionError, TimeoutError, http.client.HTTPException) as error:
            if attempt == TRIES:
                raise OSError(f"the connection broke off {TRIES} times: {error}") from error


class _Download:
    """One file on its way from a server.

    Attributes:
        version: Server's mark for this version of the file; only the rest of the same one fits.
    """

    def __init__(self, url: str, path: Path) -> None:
        self.url = url
        self.path = path
        self.version: str | None = None

    def go_on(self) -> None:
        """Append to what is at the path, or begin anew where the server cannot send the rest."""
        done = self.path.stat().st_size if self.path.exists() else 0
        request = Request(self.url)
        if done and self.version:
            request.add_header("Range", f"bytes={done}-")
            # Else the rest of a newer file might be appended to the beginning of an older one.
            request.add_header("If-Range", self.version)
        with urlopen(request, timeout=_TIMEOUT_S) as response:
            headers = response.headers
            # A server may ignore Range and send the whole file, or another part of it.
            is_rest = headers.get("Content-Range", "").startswith(f"bytes {done}-")
            if response.status != http.client.PARTIAL_CONTENT or not is_rest:
                done = 0
            self.version = headers.get("ETag") or headers.get("Last-Modified")
            announced = headers.get("Content-Length", "")
            total = done + int(announced) if announced.isdecimal() else None
            self._write(response, done, total)
        size = self.path.stat().st_size
        if total is not None and size != total:
            raise _BrokenOffError(f"{size:,} of {total:,} bytes came")

    def _write(self, response: http.client.HTTPResponse, done: int, total: int | None) -> None:
        # Looked at before the file is opened, so that a login page is never appended to a part.
        first = response.read(_MEGABYTE)
        if response.headers.get_content_type() == "text/html" or is_web_page(first):
            raise NotTheFileError("the server sent a web page")
        megabytes = math.ceil((total - done) / _MEGABYTE) if total else 0
        pieces = chain([first], iter(partial(response.read, _MEGABYTE), b""))
        with self.path.open("ab" if done else "wb") as file:
            for piece in track(pieces, megabytes, f"fetching {self.path.name}", unit="MB"):
                file.write(piece)

"""Downloads of whole files, which resume after a broken connection.

Invariant: a file that was downloaded without an error has the announced length, and is not a web
page, which proxies and login pages of wireless networks send instead.
"""

from __future__ import annotations

import http.client
import math
from functools import partial
from itertools import chain
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from asdf.checkpoint.weights_file import is_web_page
from asdf.runs.log import track

TRIES = 3
# Timeout of an idle connection; a whole download takes longer.
_TIMEOUT_S = 60
_MEGABYTE = 1_000_000


class NotTheFileError(OSError):
    """The server sent something other than the file."""


class _BrokenOffError(OSError):
    """The connection ended before the file did."""


def receive(url: str, path: Path) -> None:
    """Download `url` to `path`, showing the progress.

    Raises:
        OSError: the download failed; `path` may contain a part of the file.
    """
    # A file left by an earlier command may be of another version.
    path.unlink(missing_ok=True)
    download = _Download(url, path)
    for attempt in range(1, TRIES + 1):
        try:
            download.go_on()
            return
        except HTTPError:
            # The server's answer would be the same again.
            raise
        except (_BrokenOffError, ConnectionError, TimeoutError, http.client.HTTPException) as error:
            if attempt == TRIES:
                raise OSError(f"the connection broke {TRIES} times: {error}") from error


class _Download:
    """A download in progress.

    Attributes:
        version: Server's identifier of this version of the file, for resuming.
    """

    def __init__(self, url: str, path: Path) -> None:
        self.url = url
        self.path = path
        self.version: str | None = None

    def go_on(self) -> None:
        """Append to the existing part, or start again if the server cannot send the rest."""
        done = self.path.stat().st_size if self.path.exists() else 0
        request = Request(self.url)
        if done and self.version:
            request.add_header("Range", f"bytes={done}-")
            # Otherwise the rest of a newer file might be appended to a part of an older one.
            request.add_header("If-Range", self.version)
        with urlopen(request, timeout=_TIMEOUT_S) as response:
            headers = response.headers
            # A server may ignore Range and send the whole file, or another part.
            is_rest = headers.get("Content-Range", "").startswith(f"bytes {done}-")
            if response.status != http.client.PARTIAL_CONTENT or not is_rest:
                done = 0
            self.version = headers.get("ETag") or headers.get("Last-Modified")
            announced = headers.get("Content-Length", "")
            total = done + int(announced) if announced.isdecimal() else None
            self._write(response, done, total)
        size = self.path.stat().st_size
        if total is not None and size != total:
            raise _BrokenOffError(f"{size:,} of {total:,} bytes arrived")

    def _write(self, response: http.client.HTTPResponse, done: int, total: int | None) -> None:
        # Checked before the file is opened, so that a login page is never appended to a part.
        first = response.read(_MEGABYTE)
        if response.headers.get_content_type() == "text/html" or is_web_page(first):
            raise NotTheFileError("the server sent a web page")
        megabytes = math.ceil((total - done) / _MEGABYTE) if total else 0
        pieces = chain([first], iter(partial(response.read, _MEGABYTE), b""))
        with self.path.open("ab" if done else "wb") as file:
            for piece in track(pieces, megabytes, f"fetching {self.path.name}", unit="MB"):
                file.write(piece)

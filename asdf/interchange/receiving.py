"""A file from a server, whole: a broken connection is taken up again where it ended.

Invariant: what is returned without an error has the length that the server announced, and is no web
page in the place of the file, as proxies and login pages of a wireless network send one.
"""

from __future__ import annotations

import http.client
import math
from itertools import chain
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from asdf.interchange.file_kinds import is_web_page
from asdf.runs.progress import track

TRIES = 3
_TIMEOUT_S = 60
_MEGABYTE = 1_000_000


class NotTheFileError(OSError):
    """The server sent something else than the file."""


class _BrokenOffError(OSError):
    """The connection ended before the file did."""


def receive(url: str, path: Path) -> None:
    """Write to `path` what the server sends for `url`, and show how far it is.

    Raises:
        OSError: it cannot be had; `path` may then hold a part of it.
    """
    path.unlink(missing_ok=True)
    download = _Download(url, path)
    for attempt in range(1, TRIES + 1):
        try:
            download.go_on()
            return
        except HTTPError:
            raise
        except (_BrokenOffError, ConnectionError, TimeoutError, http.client.HTTPException) as error:
            if attempt == TRIES:
                raise OSError(f"the connection broke off {TRIES} times: {error}") from error


class _Download:
    def __init__(self, url: str, path: Path) -> None:
        self.url = url
        self.path = path
        # How the server marks this version of the file: a rest is asked for of the same one.
        self.version: str | None = None

    def go_on(self) -> None:
        """Append to what is at the path, or begin anew where the server cannot send a rest."""
        done = self.path.stat().st_size if self.path.exists() else 0
        with urlopen(self._request(done), timeout=_TIMEOUT_S) as response:
            if not _continues(response, done):
                done = 0
            self.version = response.headers.get("ETag") or response.headers.get("Last-Modified")
            announced = response.headers.get("Content-Length", "")
            total = done + int(announced) if announced.isdecimal() else None
            first = response.read(_MEGABYTE)
            if response.headers.get_content_type() == "text/html" or is_web_page(first):
                raise NotTheFileError("the server sent a web page")
            megabytes = math.ceil((total - done) / _MEGABYTE) if total else 0
            pieces = chain([first], iter(lambda: response.read(_MEGABYTE), b""))
            with self.path.open("ab" if done else "wb") as file:
                for piece in track(pieces, megabytes, f"fetching {self.path.name}", unit="MB"):
                    file.write(piece)
        size = self.path.stat().st_size
        if total is not None and size != total:
            raise _BrokenOffError(f"{size:,} of {total:,} bytes came")

    def _request(self, done: int) -> Request:
        request = Request(self.url)
        if done and self.version:
            request.add_header("Range", f"bytes={done}-")
            request.add_header("If-Range", self.version)
        return request


def _continues(response: http.client.HTTPResponse, done: int) -> bool:
    """Whether the answer is the rest behind the first `done` bytes, and not the whole file."""
    rest = response.headers.get("Content-Range", "").startswith(f"bytes {done}-")
    return response.status == http.client.PARTIAL_CONTENT and rest

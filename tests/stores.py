"""Stores for tests: fsspec's own in memory, and a web server that answers ranges, or fails to."""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest


def put(source: Path, address: str) -> None:
    """Copy a file, or all files of a folder, into a store."""
    system = fsspec.filesystem(address.partition(":")[0])
    files = [path for path in source.rglob("*") if path.is_file()] if source.is_dir() else [source]
    for path in files:
        inner = "" if path == source else f"/{path.relative_to(source).as_posix()}"
        system.pipe_file(f"{address}{inner}", path.read_bytes())


@contextmanager
def memory_store() -> Iterator[str]:
    """Give the address of an empty store in memory, which forked processes see as it is then."""
    system = fsspec.filesystem("memory")
    # Of each test another: a process remembers the archives that it opened.
    yield f"memory://{secrets.token_hex(4)}"
    system.store.clear()
    system.pseudo_dirs[:] = [""]


@contextmanager
def s3_store() -> Iterator[str]:
    """Give the address of an empty bucket of an S3 server, which the environment names."""
    s3fs = pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server.start()
    _, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        # Those of an earlier server, with its address.
        s3fs.S3FileSystem.clear_instance_cache()
        address = f"s3://corpora-{secrets.token_hex(4)}"
        s3fs.S3FileSystem(use_listings_cache=False).mkdir(address)
        try:
            yield address
        finally:
            server.stop()


class RangeServer:
    """A web server with some objects.

    Attributes:
        objects: Contents by path.
        requests: Method, path and range of each request, in order.
        failures: Statuses that are answered instead, one for each further GET; 'short' cuts the
            body.
        delay_s: Seconds before each answer.
        heeds_ranges: Whether parts are sent where parts are requested.
        states_sizes: Whether an answer states its length; if not, the connection's end ends it.
        most_at_once: Largest number of requests that were answered at the same time.
    """

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, str]] = []
        self.failures: deque[int | str] = deque()
        self.delay_s = 0.0
        self.heeds_ranges = True
        self.states_sizes = True
        self.most_at_once = 0
        self.running = 0
        self.lock = threading.Lock()
        self.port = 0

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def range_server() -> Iterator[RangeServer]:
    """Run a server for the block."""
    store = RangeServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body at once: a client acknowledges the first of two parts 40 ms later.
        wbufsize = -1

        def do_HEAD(self) -> None:
            self._answer(False)

        def do_GET(self) -> None:
            with store.lock:
                store.running += 1
                store.most_at_once = max(store.most_at_once, store.running)
            try:
                time.sleep(store.delay_s)
                self._answer(True)
            finally:
                with store.lock:
                    store.running -= 1

        def _answer(self, has_body: bool) -> None:
            wanted = self.headers.get("Range", "")
            store.requests.append((self.command, self.path, wanted))
            failure = store.failures.popleft() if store.failures and has_body else None
            content = store.objects.get(self.path)
            if isinstance(failure, int) or content is None:
                self.send_response(failure if isinstance(failure, int) else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            part = content
            status = 200
            limits = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)
            if limits and store.heeds_ranges:
                start = int(limits[1])
                stop = int(limits[2]) + 1 if limits[2] else len(content)
                part = content[start:stop]
                status = 206 if start < len(content) else 416
            self.send_response(status)
            self.send_header("ETag", f'"{hash(content) & 0xFFFFFFFF:x}"')
            self.send_header("Accept-Ranges", "bytes")
            if store.states_sizes:
                self.send_header("Content-Length", str(len(part)))
            else:
                self.send_header("Connection", "close")
            self.end_headers()
            if has_body:
                self.wfile.write(part[: len(part) // 2] if failure == "short" else part)
            if failure == "short":
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Keep the output of tests clean."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    store.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()

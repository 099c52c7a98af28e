"""Common handling of all answers: host names, headers, a log line, a count, the rest of a body.

Invariant: a client that is refused before it has sent its whole recording can read why: the answer
follows when the rest of its data was dropped, for at most half a minute. An earlier one would close
the connection, and be a broken pipe instead. Of what a client chooses, only the method and a path
of the service are logged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from asdf.extras.service.access import Names
from asdf.extras.service.counts import Counts
from asdf.extras.service.limits import Refusal
from asdf.runs.log import LOG

# For a client that keeps sending, and for one that does not.
_DRAIN_S = 30.0
_IDLE_S = 3.0
# The service's own paths; all others are counted together.
_PATHS = (
    *("/", "/score", "/health", "/ready", "/live", "/metrics", "/version"),
    *("/docs", "/openapi.json"),
)
_HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self'; style-src 'self'; "
    b"img-src 'self'; connect-src 'self'; media-src 'self' blob:; worker-src 'self'; "
    b"form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"permissions-policy": b"microphone=(self), camera=(), geolocation=()",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}


class Exchanges:
    """The application behind the common handling of answers."""

    def __init__(self, app: ASGIApp, counts: Counts, names: Names) -> None:
        self._app = app
        self._counts = counts
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._note)
        app = self._app
        try:
            self._names.check(scope["method"], Headers(scope=scope))
        except Refusal as refusal:
            app = refusal_response(refusal)
        try:
            await app(scope, exchange.receive, exchange.send)
        finally:
            exchange.end()

    def _note(self, scope: Scope, exchange: _Exchange, seconds: float) -> None:
        path = scope["path"] if scope["path"] in _PATHS else "other"
        if scope["path"].startswith("/page/"):
            path = "/page"
        self._counts.requests.labels(path, str(exchange.status)).inc()
        if path == "/score":
            self._counts.seconds.observe(seconds)
            method = "POST" if scope["method"] == "POST" else "other"
            facts = (method, path, exchange.status, exchange.received, seconds)
            LOG.info("%s %s %d, %d bytes, %.3f s", *facts)


def refusal_response(refusal: Refusal) -> JSONResponse:
    """Return the answer to a refused request."""
    headers = {}
    if refusal.retry_after_s is not None:
        headers["Retry-After"] = str(refusal.retry_after_s)
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": refusal.message}, refusal.status, headers)


_Note = Callable[[Scope, "_Exchange", float], None]


class _Exchange:
    """A request and its answer.

    Attributes:
        status: Status of the answer; 500 before there is one.
        received: Number of bytes of the request's body.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, note: _Note) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._note = note
        self._start_s = time.perf_counter()
        self._is_noted = False
        headers = Headers(scope=scope)
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        # A client that expects to be asked sends nothing before.
        self._is_unread = has_body and "expect" not in headers
        self.status = 500
        self.received = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self.received += len(message.get("body", b""))
        if not message.get("more_body", False):
            self._is_unread = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            await self._drop_rest()
            message = {**message, "headers": _complete(message.get("headers", []))}
        elif not message.get("more_body", False):
            # Before its last bytes leave: who has read an answer finds it counted.
            self.end()
        await self._send(message)

    def end(self) -> None:
        """Note the exchange, once; one that broke off ends without a last message."""
        if not self._is_noted:
            self._is_noted = True
            self._note(self._scope, self, time.perf_counter() - self._start_s)

    async def _drop_rest(self) -> None:
        until_s = time.monotonic() + _DRAIN_S
        while self._is_unread and (remaining_s := until_s - time.monotonic()) > 0:
            try:
                await asyncio.wait_for(self.receive(), min(_IDLE_S, remaining_s))
            except asyncio.TimeoutError:
                break


def _complete(headers: Any) -> list[tuple[bytes, bytes]]:
    stated = {name for name, _ in headers}
    return [*headers, *((name, value) for name, value in _HEADERS.items() if name not in stated)]

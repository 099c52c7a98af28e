"""Common handling of all answers: headers, a log line, a count, and the rest of a body.

Invariant: a client that is refused before it has sent its whole recording can read why. The rest of
its data is dropped, for at most half a minute; closing the connection earlier would cause a broken
pipe instead. Of what a client chooses, only the method and a path of the service are logged.

An overloaded service would spend its time on refusals, because clients retry while forward passes
wait. A recording without room is therefore refused here, before the application reads its options,
and its connection stays open, because a new one costs as much as the refusal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from asdf.runs.log import LOG
from asdf.service.host_names import Names
from asdf.service.limits import Refusal
from asdf.service.service import Service

# For a client that keeps sending, and for one that does not.
_DRAIN_S = 30.0
_IDLE_S = 3.0
# Reading a body of this size takes less time than a new connection of its client.
_SMALL = 1_000_000
# The service's own paths; all others are counted together.
_PATHS = (
    *("/", "/score", "/stream", "/health", "/ready", "/live", "/metrics", "/version"),
    *("/docs", "/openapi.json", "/v2"),
)
# Paths whose requests cause work, and have a line in the log.
_WORK = ("/score", "/stream")
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


class Front:
    """The application behind the common handling of answers."""

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        names: Names,
        admit: Callable[[HTTPConnection], str],
    ) -> None:
        """Wrap an application.

        Args:
            names: Host names of the service.
            admit: Function that counts a request, checks its token, and returns the client's
                address.
        """
        self._app = app
        self._counts = service.counts
        self._service = service
        self._names = names
        self._admit = admit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        is_call = scope["type"] == "websocket"
        exchange: _Exchange | _CallExchange
        if is_call:
            exchange = _CallExchange(receive, send)
        else:
            exchange = _Exchange(scope, receive, send, self._service)
        start_s = time.perf_counter()
        try:
            app = self._app
            try:
                # Browsers allow any page to open a websocket to any site, and to read from it.
                self._names.check("POST" if is_call else scope["method"], Headers(scope=scope))
                is_scored = scope["path"] == "/score" or scope["path"].endswith("/infer")
                # A websocket has no method.
                if is_scored and scope.get("method") == "POST" and self._service.is_full:
                    self._admit(HTTPConnection(scope))
                    raise self._service.no_room()
            except Refusal as refusal:
                app = refusal_response(refusal)
            await app(scope, exchange.receive, exchange.send)
        finally:
            self._note(scope, exchange, time.perf_counter() - start_s)

    def _note(self, scope: Scope, exchange: _Exchange | _CallExchange, seconds: float) -> None:
        path = scope["path"] if scope["path"] in _PATHS else "other"
        for start in ("/page", "/v2"):
            if scope["path"].startswith(f"{start}/"):
                path = start
        self._counts.requests.labels(path, str(exchange.status)).inc()
        if path not in _WORK:
            return
        method = "call"
        if scope["type"] == "http":
            method = "POST" if scope["method"] == "POST" else "other"
        if path == "/score":
            self._counts.seconds.observe(seconds)
        LOG.info(
            "%s %s %d, %d bytes, %.3f s",
            method,
            path,
            exchange.status,
            exchange.received,
            seconds,
        )


def refusal_response(refusal: Refusal) -> JSONResponse:
    """Return the answer to a refused request."""
    headers = {}
    if refusal.retry_after_s is not None:
        headers["Retry-After"] = str(refusal.retry_after_s)
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": refusal.message}, refusal.status, headers)


class _Exchange:
    """A request and its answer.

    Attributes:
        status: Status of the answer; 500 before there is one.
        received: Number of bytes of the request's body.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, service: Service) -> None:
        self._receive = receive
        self._send = send
        self._service = service
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        self._is_unread = length != b"0" or b"transfer-encoding" in headers
        # Such a client sends nothing until it is asked to.
        self._waits = b"expect" in headers
        # h11 has checked that the length is a number.
        is_small = b"transfer-encoding" not in headers and int(length) <= _SMALL
        self._stays_open = is_small and not self._waits
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
            message = {**message, "headers": self._complete(message.get("headers", []))}
        elif self._is_unread and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            # The rest of the data is dropped.
            until_s = time.monotonic() + _DRAIN_S
            while self._is_unread and not self._waits:
                remaining_s = until_s - time.monotonic()
                try:
                    await asyncio.wait_for(self.receive(), max(0.0, min(_IDLE_S, remaining_s)))
                except asyncio.TimeoutError:
                    break
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    def _complete(self, headers: Any) -> list[tuple[bytes, bytes]]:
        stated: MutableMapping[bytes, bytes] = dict(headers)
        added = dict(_HEADERS)
        # If the worker drains, the next request goes to another one.
        is_cut_off = self._is_unread and not self._stays_open
        if is_cut_off or self._service.draining:
            added[b"connection"] = b"close"
        missing = [(name, value) for name, value in added.items() if name not in stated]
        return [*headers, *missing]


class _CallExchange:
    """A websocket, starting with its request.

    Attributes:
        status: Status of the answer to the request, 101 if accepted; 500 before the answer.
        received: Number of bytes of its messages.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self.status = 500
        self.received = 0

    async def receive(self) -> Message:
        message = await self._receive()
        self.received += len(message.get("bytes") or b"")
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "websocket.accept":
            self.status = 101
        elif message["type"] == "websocket.http.response.start":
            self.status = message["status"]
        await self._send(message)

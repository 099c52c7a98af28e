"""The server: its socket, and its shutdown.

Invariant: SIGTERM and Ctrl-C end the service in bounded time: new recordings are refused at once,
current ones are finished, and then it closes. A second Ctrl-C does not wait for them.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from asdf.runs.log import LOG
from asdf.service.calls import MAX_MESSAGE, has_websockets
from asdf.service.connections import Connection, Doors
from asdf.service.listener import Listener, available_connections
from asdf.service.service import Service

# Time for answers that are being sent when the last recording is done.
_CLOSING_S = 5
# Time that a connection stays open between two requests.
_KEEP_ALIVE_S = 5
# The implementation that reads no more of a connection than requested.
_WEBSOCKETS = "websockets-sansio"


class Server(uvicorn.Server):
    """A server that finishes its work before it closes its socket.

    Attributes:
        doors: Open connections, and their limits.
        above: Parent process of the workers; this one stops without it. None: there is no parent.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        service: Service,
        doors: Doors,
        reload: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(config)
        self._service = service
        self.doors = doors
        self.above: int | None = None
        self._ends_at_s = float("inf")
        self._reload = reload
        self._reloading: asyncio.Future[None] | None = None
        self._is_reload_wanted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; uvicorn would close the socket at once, and raise the signal again."""
        if self._service.stopping and sig == signal.SIGINT:
            self.should_exit = True
            self.force_exit = True
            return
        # A repeated signal does not extend the time.
        self._ends_at_s = min(self._ends_at_s, time.monotonic() + self._service.limits.stop_s)
        self._service.stopping = True
        self._service.end_calls()

    def want_reload(self, *_: object) -> None:
        """Signal handler that reloads the network at the next tick."""
        self._is_reload_wanted = True

    def drain(self, *_: object) -> None:
        """Signal handler that accepts no more connections, and ends with the last open one."""
        self._service.draining = True

    async def on_tick(self, counter: int) -> bool:
        """Return whether to close, because nothing is left to do or the time is over.

        Ten times a second it also closes idle connections.
        """
        self.doors.close_overdue()
        self._service.note_load()
        if self._service.is_live:
            # A worker whose device hangs is replaced like one that hangs itself.
            self._service.seat.beat()
        if self.above not in (None, os.getppid()) and not self._service.stopping:
            LOG.error("the parent process is gone: this worker stops")
            self.handle_exit(signal.SIGTERM, None)
        is_over = time.monotonic() > self._ends_at_s
        is_busy = self._service.in_memory or self._service.calls
        if self._is_reload_wanted and self._reload is not None and self._reloading is None:
            self._is_reload_wanted = False
            self._reloading = asyncio.ensure_future(asyncio.to_thread(self._reload))
        if self._reloading is not None and self._reloading.done():
            self._reloading = None
        if self._service.draining:
            for listening in self.servers:
                listening.close()
        if self._service.draining and not is_busy and not len(self.doors):
            return True
        if self._service.stopping and (is_over or not is_busy):
            LOG.info("stopping: %d recordings remain", self._service.in_memory)
            return True
        return await super().on_tick(counter)


def make_server(
    app: ASGIApp,
    service: Service,
    proxies: Sequence[str] = (),
    reload: Callable[[], None] | None = None,
) -> Server:
    """Make the server.

    Args:
        proxies: Addresses of proxies whose X-Forwarded-For states the client.
        reload: Function that reloads the network, called in a thread; None: no reloading.
    """
    available = available_connections(service.limits)
    doors = Doors(service.limits, proxies, available, service.seat)
    service.watch_connections(doors)
    # A line for each malformed request would let clients fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.getLogger("uvicorn.error").addFilter(_is_no_refused_call)
    protocol: Any = functools.partial(Connection, doors)
    config = uvicorn.Config(
        app,
        http=protocol,
        # asyncio's number of accepts per turn: no more connections arrive at once than are counted;
        # the system's queue is set in `Listener.listen`.
        backlog=1,
        # Compression is off: it gains nothing, since each message is answered before more is read.
        ws_per_message_deflate=False,
        ws=_WEBSOCKETS if has_websockets() else "none",
        ws_max_size=MAX_MESSAGE,
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=_CLOSING_S,
    )
    return Server(config, service, doors, reload)


def _is_no_refused_call(record: logging.LogRecord) -> bool:
    """Suppress uvicorn's message on a call that was refused with a status."""
    return "without completing handshake" not in str(record.msg)


def run_server(server: Server, listener: Listener, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it.

    Args:
        listener: Listener opened by `listen`.
        announce: Function that is called with the service's address before the first request.
    """
    announce(describe_address(listener))
    server.run(sockets=[listener])


def describe_address(listener: Listener) -> str:
    """Return the address of a socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_local(host: str) -> bool:
    """Return whether only programs on this machine reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

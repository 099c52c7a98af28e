"""The server: its socket, and how it ends.

Invariant: SIGTERM and Ctrl-C end the service in bounded time: new recordings are refused at once,
those that it has are finished, and then it closes. A second Ctrl-C does not wait for them.
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

# For answers that are on their way when the last recording is done.
_CLOSING_S = 5
# Of a connection between two requests.
_KEEP_ALIVE_S = 5
# The one that reads no more of a connection than what was asked for.
_WEBSOCKETS = "websockets-sansio"


class Server(uvicorn.Server):
    """A server that finishes what it has before it closes its socket.

    Attributes:
        doors: Open connections, and how many there may be.
        above: Process that keeps the workers, without which this one stops; None: there is none.
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
        self._ends_at_s = min(self._ends_at_s, time.monotonic() + self._service.limits.stop_s)
        self._service.stopping = True
        self._service.end_calls()

    def want_reload(self, *_: object) -> None:
        """Read the network again at the next tick; a signal handler."""
        self._is_reload_wanted = True

    def drain(self, *_: object) -> None:
        """Take no connection any more, and end when those that are open have; a signal handler."""
        self._service.draining = True

    async def on_tick(self, counter: int) -> bool:
        """Return whether to close: nothing is left to do, or the time is over.

        Ten times a second it also closes the connections that say nothing.
        """
        self.doors.close_overdue()
        self._service.note_load()
        if self._service.is_live:
            # A worker whose device hangs is replaced as one that hangs itself.
            self._service.seat.beat()
        if self.above not in (None, os.getppid()) and not self._service.stopping:
            LOG.error("the process above the workers is gone: this worker stops")
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
            LOG.info("stopping: %d recordings are left", self._service.in_memory)
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
        proxies: addresses whose X-Forwarded-For says who the client is.
        reload: Function that reads the network again, called in a thread; None: it is not read.
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
        # Of asyncio's turns of accepting, so that no more connections come at once than are
        # counted; the system's queue is that of `Listener.listen`.
        backlog=1,
        # What came of a call is answered before more of it is read, so nothing is gained by it.
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
    """Leave out what uvicorn says of a call that was answered with a status."""
    return "without completing handshake" not in str(record.msg)


def run_server(server: Server, listener: Listener, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it.

    Args:
        listener: Listener as `listen` opens it.
        announce: Function called with the service's address before the first request.
    """
    announce(describe_address(listener))
    server.run(sockets=[listener])


def describe_address(listener: Listener) -> str:
    """Return the address that a socket is at."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_local(host: str) -> bool:
    """Return whether only programs on this machine reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""The server: its socket, and how it ends.

Invariant: SIGTERM and Ctrl-C end the service in bounded time: new recordings are refused at once,
those that it has are finished, and then it closes. A second Ctrl-C does not wait for them.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
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
    """

    def __init__(self, config: uvicorn.Config, service: Service, doors: Doors) -> None:
        super().__init__(config)
        self._service = service
        self.doors = doors
        self._ends_at_s = float("inf")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; uvicorn would close the socket at once, and raise the signal again."""
        if self._service.stopping and sig == signal.SIGINT:
            self.should_exit = True
            self.force_exit = True
            return
        self._ends_at_s = min(self._ends_at_s, time.monotonic() + self._service.limits.stop_s)
        self._service.stopping = True
        self._service.end_calls()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to close: nothing is left to do, or the time is over.

        Ten times a second it also closes the connections that say nothing.
        """
        self.doors.close_overdue()
        self._service.note_load()
        is_over = time.monotonic() > self._ends_at_s
        is_busy = self._service.in_memory or self._service.calls
        if self._service.stopping and (is_over or not is_busy):
            LOG.info("stopping: %d recordings are left", self._service.in_memory)
            return True
        return await super().on_tick(counter)


def make_server(app: ASGIApp, service: Service, proxies: Sequence[str] = ()) -> Server:
    """Make the server.

    Args:
        proxies: addresses whose X-Forwarded-For says who the client is.
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
    return Server(config, service, doors)


def _is_no_refused_call(record: logging.LogRecord) -> bool:
    """Leave out what uvicorn says of a call that was answered with a status."""
    return "without completing handshake" not in str(record.msg)


def run_server(server: Server, listener: Listener, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it.

    Args:
        listener: Listener as `listen` opens it.
        announce: Function called with the service's address before the first request.
    """
    host, port = listener.getsockname()[:2]
    announce(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    server.run(sockets=[listener])


def is_local(host: str) -> bool:
    """Return whether only programs on this machine reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

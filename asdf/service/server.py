"""The server: its socket, and how it ends.

Invariant: SIGTERM and Ctrl-C end the service in bounded time: new recordings are refused at once,
those that it has are finished, and then it closes. A second Ctrl-C does not wait for them.
"""

from __future__ import annotations

import errno
import ipaddress
import signal
import socket
import time
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from asdf.errors import UsageError
from asdf.runs.log import LOG
from asdf.service.service import Service

# For answers that are on their way when the last recording is done.
_CLOSING_S = 5
_BACKLOG = 1024


class Server(uvicorn.Server):
    """A server that finishes what it has before it closes its socket."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._ends_at_s = float("inf")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; uvicorn would close the socket at once, and raise the signal again."""
        if self._service.stopping and sig == signal.SIGINT:
            self.should_exit = True
            self.force_exit = True
            return
        self._ends_at_s = min(self._ends_at_s, time.monotonic() + self._service.limits.stop_s)
        self._service.stopping = True

    async def on_tick(self, counter: int) -> bool:
        """Return whether to close: nothing is left to do, or the time is over."""
        is_over = time.monotonic() > self._ends_at_s
        if self._service.stopping and (is_over or not self._service.in_memory):
            LOG.info("stopping: %d recordings are left", self._service.in_memory)
            return True
        return await super().on_tick(counter)


def make_server(app: ASGIApp, service: Service, proxies: Sequence[str] = ()) -> Server:
    """Make the server.

    Args:
        proxies: addresses whose X-Forwarded-For says who the client is.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_graceful_shutdown=_CLOSING_S,
    )
    return Server(config, service)


def run_server(server: Server, listener: socket.socket, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it.

    Args:
        listener: as `listen` opens it.
        announce: called with the service's address before the first request.
    """
    host, port = listener.getsockname()[:2]
    announce(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """Open the service's socket; port 0 is any that is free.

    Raises:
        UsageError: the address is not this machine's, or the port is taken or not allowed.
    """
    if not 0 <= port < 2**16:
        raise UsageError(f"there is no port {port}: take one from 1024 to 65535.")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        advice = "Is the address one of this machine's?"
        if error.errno == errno.EADDRINUSE:
            advice = "Another program has it; is the service running already? Take another --port."
        elif error.errno == errno.EACCES:
            advice = "Ports below 1024 are for root: take another --port."
        raise UsageError(
            f"cannot serve at {host}, port {port}: {error.strerror or error}. {advice}"
        ) from None


def is_local(host: str) -> bool:
    """Return whether only programs on this machine reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

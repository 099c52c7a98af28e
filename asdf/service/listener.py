"""The service's socket, and the number of connections that this process can open.

Invariant: connections that cannot be accepted fill neither the log nor a core.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from pathlib import Path
from typing import Any

from asdf.errors import UsageError
from asdf.runs.log import LOG
from asdf.runs.systems import open_files_limit
from asdf.service.limits import ServiceLimits

_BACKLOG = 1024
# File descriptors for other uses than connections: late imports, a terminal.
_RESERVED = 24
_UNAVAILABLE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_LOG_EVERY_S = 60.0


class Listener(socket.socket):
    """A listening socket that accepts one connection at a time, even without free descriptors.

    asyncio would log each connection that it cannot accept, thousands per second, and leave it
    open.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over the descriptor of a listening socket."""
        super().__init__(fileno=descriptor)
        # Connections inherit it. Without it, the second part of each answer waits 40 ms for the
        # client's acknowledgement of the first.
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._spare: int | None = _open_spare()
        self._logged_s = -_LOG_EVERY_S

    def listen(self, backlog: int = _BACKLOG, /) -> None:
        """Listen with the existing length of the system's queue; `backlog` is asyncio's count."""
        super().listen(max(backlog, _BACKLOG))

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection, or close it if no descriptor is free.

        Raises:
            BlockingIOError: there is no connection, or none can be accepted now.
        """
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _UNAVAILABLE:
                raise
            self._log(error)
        self._close_next()
        raise BlockingIOError

    def close(self) -> None:
        """Close it, and release its reserved descriptor."""
        self._drop_spare()
        super().close()

    def _close_next(self) -> None:
        """Close the waiting connection, which would otherwise keep a core busy."""
        self._drop_spare()
        try:
            connection, _ = super().accept()
            connection.close()
        except OSError:
            # Not even one descriptor is free: the system needs time.
            time.sleep(0.01)
        self._spare = _open_spare()

    def _drop_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def _log(self, error: OSError) -> None:
        now = time.monotonic()
        if now - self._logged_s >= _LOG_EVERY_S:
            self._logged_s = now
            LOG.error(
                "a connection could not be accepted (%s) and was closed; further ones are not "
                "logged for %g s",
                error.strerror,
                _LOG_EVERY_S,
            )


def _open_spare() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return None


def listen(host: str, port: int) -> Listener:
    """Open the service's socket; port 0 is any free port.

    Raises:
        UsageError: the address is not this machine's, or the port is taken or not allowed.
    """
    if not 0 <= port < 2**16:
        raise UsageError(f"port {port} does not exist: use one from 1024 to 65535.")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        opened = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        advice = "Is it an address of this machine?"
        if error.errno == errno.EADDRINUSE:
            advice = "Another program uses it; is the service already running? Use another --port."
        elif error.errno == errno.EACCES:
            advice = "Ports below 1024 need root: use another --port."
        raise UsageError(
            f"cannot serve at {host}, port {port}: {error.strerror or error}. {advice}"
        ) from None
    return Listener(opened.detach())  # detached, since the first object would close it


def available_connections(limits: ServiceLimits) -> int | None:
    """Return how many connections this process can open; None: more than the limit."""
    try:
        opened = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return None
    allowed = open_files_limit().soft
    if allowed is None or allowed - opened - _RESERVED >= limits.connections:
        return None
    available = allowed - opened - _RESERVED
    LOG.warning(
        "%d connections at once instead of %d: this process may open %d files. Raise the limit "
        "(ulimit -n) for more.",
        max(1, available),
        limits.connections,
        allowed,
    )
    return max(1, available)

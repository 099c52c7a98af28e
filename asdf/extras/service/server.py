"""The processes of a service, which granian starts, supervises and ends.

Invariant: before any token, a client can hold a connection for a bounded time and number only:
granian closes what sends no header in time, and accepts no more than the limit; more connections
wait in the system's queue. SIGTERM and Ctrl-C end the service in bounded time: it accepts no
connection any more, finishes the current requests, and ends.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.util import find_spec
from multiprocessing.synchronize import Lock
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.errors import AsdfError, UsageError
from asdf.extras.service.access import VARIABLE, Names, is_local, read_token
from asdf.extras.service.limits import ServiceLimits
from asdf.runs.log import log_to_screen
from asdf.runs.streams import show_error

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector

_MODULES = ("fastapi", "granian", "prometheus_client", "python_multipart")
_MAX_HEADER_BYTES = 65_536
# Time for answers that are being sent when the last recording is done, in seconds.
_CLOSING_S = 5


@dataclass(frozen=True)
class Address:
    """Address and access rules of a service.

    Attributes:
        token_file: File with the token; None: the variable ASDF_SERVICE_TOKEN, or no token.
        without_token: Whether anyone who reaches the port may use it, also from other machines.
        names: Host names of the service, besides its address and those of this machine.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    without_token: bool = False
    names: Sequence[str] = ()


def check_installed() -> None:
    """Raise a UsageError unless the requirements of the service are installed."""
    for module in _MODULES:
        if find_spec(module) is None:
            raise UsageError(
                f"the service needs the package {module}: pip install 'asdf-antispoofing[serve]'"
            )


@dataclass(frozen=True)
class _Work:
    """What a process serves; it can be pickled.

    Attributes:
        first: Lock that the first process takes for good once it has opened the network.
    """

    network: str
    open_detector: Callable[[], Detector]
    address: Address
    limits: ServiceLimits
    first: Lock

    def load(self) -> Any:
        """Return the application, in its process; end the service if it cannot be started."""
        # Until the server has its own handlers, the end comes from the parent process.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        log_to_screen()
        try:
            detector = self.open_detector()
        except AsdfError as error:
            show_error(f"error: {error}")
            if self.first.acquire(block=False):
                self.first.release()
                os.kill(os.getppid(), signal.SIGTERM)
                time.sleep(_CLOSING_S)
            sys.exit(error.exit_status)
        from asdf.extras.service.app import make_app
        from asdf.extras.service.service import Service

        host = self.address.host
        app = make_app(
            Service(detector, self.network, self.limits),
            read_token(self.address.token_file),
            Names(host, self.address.names),
        )
        if self.first.acquire(block=False):
            shown = f"[{host}]" if ":" in host else host
            print(
                f"serving {self.network} at http://{shown}:{self.address.port} (Ctrl-C ends it)\n"
                f"recordings take up to {self.limits.memory_mb:,.0f} MB of memory together",
                file=sys.stderr,
                flush=True,
            )
        return app


def serve(
    network: str,
    open_detector: Callable[[], Detector],
    address: Address,
    limits: ServiceLimits,
    workers: int = 1,
) -> int:
    """Serve until SIGTERM or Ctrl-C; return the exit status.

    Args:
        network: Path or name of the network.
        open_detector: Function that opens it, in each of the processes; it can be pickled.
        workers: Number of processes; each has the limits.

    Raises:
        UsageError: a package, the token or the port is missing, or a limit leaves nothing to serve.
    """
    check_installed()
    is_open = read_token(address.token_file) is None and not is_local(address.host)
    if is_open and not address.without_token:
        raise UsageError(
            f"at {address.host} other machines can use the service. Set a token (--token-file or "
            f"the variable {VARIABLE}), or allow everyone: --without-token."
        )
    limits.check()
    if workers < 1:
        raise UsageError(f"workers = {workers}: give 1 or more.")
    from granian import Granian
    from granian.log import LogLevels

    host, port = _find_port(address)
    first = multiprocessing.Lock()
    work = _Work(network, open_detector, replace(address, port=port), limits, first)
    server = Granian(
        "asdf",
        host,
        port,
        workers=workers,
        respawn_failed_workers=True,
        workers_kill_timeout=limits.stop_s + _CLOSING_S,
        log_level=LogLevels.warning,
        **connection_options(limits),
    )
    with ExitStack() as stack:
        if workers > 1:
            # They count in its files: `asdf.extras.service.counts`.
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="asdf-service-"))
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        server.serve(target_loader=work.load, wrap_loader=False)
    return 1 if first.acquire(block=False) else 0


def connection_options(limits: ServiceLimits) -> dict[str, Any]:
    """Return the options of granian that bound connections."""
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings

    return {
        "interface": Interfaces.ASGI,
        # To tell HTTP 2 from 1, granian would wait for a first byte without a time limit.
        "http": HTTPModes.http1,
        "http1_settings": HTTP1Settings(
            header_read_timeout=round(1000 * limits.head_s), max_buffer_size=_MAX_HEADER_BYTES
        ),
        "backpressure": limits.connections,
        "websockets": False,
    }


def _find_port(address: Address) -> tuple[str, int]:
    """Return the numeric address and the port to listen at; a free one for port 0.

    Raises:
        UsageError: the address is not this machine's, or the port is taken or not allowed.
    """
    host, port = address.host, address.port
    if not 0 <= port < 2**16:
        raise UsageError(f"port {port} does not exist: use one from 1024 to 65535.")
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # granian would share a port with another service.
        with socket.create_server((host, port), family=family) as listener:
            return str(place[0]), listener.getsockname()[1]
    except OSError as error:
        advice = "Is it an address of this machine?"
        if error.errno == errno.EADDRINUSE:
            advice = "Another program uses it; is the service already running? Use another --port."
        elif error.errno == errno.EACCES:
            advice = "Ports below 1024 need root: use another --port."
        raise UsageError(
            f"cannot serve at {host}, port {port}: {error.strerror or error}. {advice}"
        ) from None

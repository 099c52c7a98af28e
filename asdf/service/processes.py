"""The processes of a service: a single one, or workers that share an address and the limits.

Invariant: resources that workers share are created before the fork, those with threads after it.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from asdf.errors import UsageError
from asdf.scoring.detector import Detector
from asdf.service.addresses import Address, Network
from asdf.service.app import make_app
from asdf.service.audit_file import AuditFile
from asdf.service.bearer_token import Token
from asdf.service.board import Board, Seat
from asdf.service.counts import sum_over_workers
from asdf.service.host_names import Names
from asdf.service.limits import ServiceLimits
from asdf.service.listener import listen
from asdf.service.reloading import on_reload_signal, reload_network
from asdf.service.server import Server, describe_address, is_local, make_server
from asdf.service.service import Service
from asdf.service.workers import Work, Workers

Announce = Callable[[str], None]


@dataclass(frozen=True)
class Serving:
    """The arguments of `serve`."""

    network: Network
    address: Address
    token: Token | None
    limits: ServiceLimits
    audit: Path | None

    def make_server(
        self,
        detector: Detector,
        seat: Seat | None = None,
        metrics: Path | None = None,
        reload: bool = False,
    ) -> Server:
        """Make the server of one process, which starts to warm up."""
        record = None if self.audit is None else AuditFile(self.audit)
        name = self.network.name
        service = Service(detector, name, self.limits, record, seat=seat, metrics=metrics)
        host = self.address.host
        app = make_app(service, self.token, Names(host, is_local(host), self.address.names))
        again = partial(reload_network, service, partial(self.network.open, None), name)
        return make_server(app, service, self.address.proxies, again if reload else None)


def serve_alone(serving: Serving, announce: Announce) -> None:
    """Serve in this process. Raises as `serve`."""
    detector = serving.network.open(None)
    listener = listen(serving.address.host, serving.address.port)
    server = serving.make_server(detector, reload=True)
    on_reload_signal(server.want_reload)
    announce(describe_address(listener))
    server.run(sockets=[listener])


def serve_by_workers(serving: Serving, announce: Announce, count: int) -> None:
    """Serve in several processes.

    Raises:
        UsageError: the system cannot fork.
        AsdfError: no worker becomes ready.
    """
    if not hasattr(os, "fork"):
        raise UsageError(
            "several workers need an operating system that forks processes: Linux or macOS."
        )
    above = os.getpid()
    is_shared = serving.network.is_shared
    with tempfile.TemporaryDirectory(prefix="asdf-service-") as name:
        folder = Path(name)
        board = Board(count, serving.limits.connections, folder / "lock")

        def open_work() -> Work:
            """Open the network for workers, which are forked with it."""
            opened = serving.network.open(None) if is_shared else None

            def work(row: int) -> int:
                sum_over_workers(folder)
                # Rows from `count` on are of workers of a reload.
                own = serving.network.open(row % count) if opened is None else opened.for_fork()
                server = serving.make_server(own, Seat(board, row), folder)
                signal.signal(signal.SIGUSR1, server.drain)
                server.above = above
                server.run(sockets=[listener])
                return 0

            return work

        workers = Workers(count, board, open_work, serving.limits.stop_s)
        listener = listen(serving.address.host, serving.address.port)
        announce(describe_address(listener))
        workers.run()

"""Serve a network over HTTP: POST a recording, get its score. Includes a web page.

    python -m asdf serve network.pt                                      # http://127.0.0.1:8000
    python -m asdf serve                                                 # the shipped detector
    curl -F file=@call.mp3 http://127.0.0.1:8000/score                   # same as `score --json`
    curl -F file=@call.mp3 'http://127.0.0.1:8000/score?window=4&hop=2'  # also over time
    python -m asdf serve network.pt --host 0.0.0.0 --token-file token    # for other machines
    python -m asdf serve network.pt --workers 4                          # on several cores

Concurrent requests share forward passes of the network. Recordings are in memory only while they
are scored, and are never written to a disk or a log.

The web page is at /, the API description at /docs, readiness at /ready, and metrics for Prometheus
at /metrics. SIGTERM or Ctrl-C finishes the current requests and then stops the service.

Requires `pip install 'asdf-antispoofing[serve]'`. See docs/service.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.commands.options import Command, argument, flag, option
from asdf.commands.score import SMALL_HELP, DetectorOptions
from asdf.extras.service import Address, ServiceLimits, serve
from asdf.shipped import SMALL

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector


@dataclass(frozen=True, kw_only=True)
class ServeOptions(DetectorOptions):
    """Options of the command."""

    network: str = argument(SMALL_HELP, "NETWORK", default=SMALL)
    host: str = option("address to listen on", default="127.0.0.1")
    port: int = option("port (%(default)s); 0: any free port", default=8000)
    token_file: Path | None = option(
        "file with the token that clients must send (default: the environment variable "
        "ASDF_SERVICE_TOKEN)",
        "FILE",
    )
    without_token: bool = flag("allow other machines to use the service without a token")
    host_name: tuple[str, ...] = option(
        "host name under which the service is reached, e.g. that of a proxy; may be repeated",
        "NAME",
        default=(),
        repeated=True,
    )
    workers: int = option(
        "number of processes; each has the network, the limits and, on a CPU, one thread",
        "N",
        default=1,
    )
    max_mb: float = option(
        "maximum size of an uploaded recording in megabytes", "N", ServiceLimits.max_mb
    )
    max_seconds: float = option(
        "maximum length of a recording in seconds", "N", ServiceLimits.max_seconds
    )
    queue: int = option(
        "maximum number of recordings in memory, large ones counted as several; others get a 503",
        "N",
        ServiceLimits.queue,
    )
    threads: int | None = option(
        "number of CPU threads (1 for networks below 10 million parameters or several workers, "
        "else the number of usable cores)",
        "N",
    )


FIRST = ("host", "port", "token_file", "workers", "threshold", "device")
COMMAND = Command("serve", __doc__, ServeOptions, first=FIRST)


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        UsageError: a mistake in the options, or the extra `serve` is missing.
    """
    args = COMMAND.read(arguments)
    limits = ServiceLimits(args.max_mb, args.max_seconds, args.queue)
    address = Address(args.host, args.port, args.token_file, args.without_token, args.host_name)
    return serve(args.network, partial(open_network, args), address, limits, args.workers)


def open_network(args: ServeOptions) -> Detector:
    """Open the network in a process of the service.

    Raises:
        UsageError: the network does not go with the options.
        AsdfError: the network cannot be read.
    """
    from asdf.commands.score import open_detector

    return open_detector(replace(args, threads=args.threads or (1 if args.workers > 1 else None)))

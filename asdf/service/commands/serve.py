"""Serve a network over HTTP: POST a recording, get its score. Includes a web page.

    python -m asdf serve network.pt                                      # http://127.0.0.1:8000
    python -m asdf serve                                                 # the shipped detector
    curl -F file=@call.mp3 http://127.0.0.1:8000/score                   # same as `score --json`
    curl -F file=@call.mp3 'http://127.0.0.1:8000/score?window=4&hop=2'  # also over time
    python -m asdf serve network.pt --host 0.0.0.0 --token-file token    # for other machines
    python -m asdf serve network.pt --audit verdicts.jsonl               # record each verdict
    python -m asdf serve network.pt --workers 4                          # on several cores

The websocket ws://127.0.0.1:8000/stream?rate=8000 scores a call: it takes samples, and returns a
verdict per window.

Concurrent requests share forward passes of the network. Recordings are in memory only while they
are scored, and are never written to a disk or a log. With --audit, their digests and verdicts are
recorded.

The web page is at /, the API description at /docs, readiness at /ready, and metrics for Prometheus
at /metrics. SIGTERM or Ctrl-C finishes the current requests and then stops the service. SIGHUP
reloads the network without losing a request.

Requires `pip install 'asdf-antispoofing[serve]'`. See docs/service.md.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.commands.options import Command, argument, flag, option
from asdf.commands.outputs import check_file, show
from asdf.commands.score_options import SMALL_HELP, DetectorOptions
from asdf.runs.log import log_to_screen
from asdf.service import Address, Network, ServiceLimits, check_installed, serve
from asdf.shipped import SMALL

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector


def _limit(name: str, meaning: str) -> Any:
    """Return the field of one of the limits, whose default is that of `ServiceLimits`."""
    return option(meaning, "N", getattr(ServiceLimits, name))


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
    proxy: tuple[str, ...] = option(
        "proxy whose X-Forwarded-For header identifies the client; may be repeated",
        "ADDRESS",
        default=(),
        repeated=True,
    )
    host_name: tuple[str, ...] = option(
        "host name under which the service is reached, e.g. that of a proxy; may be repeated",
        "NAME",
        default=(),
        repeated=True,
    )
    audit: Path | None = option(
        "record each verdict with digests in this file of JSON lines, each with a hash of the "
        "previous one; `audit-file` checks the file",
        "FILE",
        check=check_file,
    )
    workers: int = option(
        "number of processes; they share the limits and, on a CPU, the memory of the network; each "
        "uses one thread, or a GPU of its own",
        "N",
        default=1,
    )
    max_mb: float = _limit("max_mb", "maximum size of an uploaded recording in megabytes")
    max_seconds: float = _limit("max_seconds", "maximum length of a recording in seconds")
    queue: int = _limit("queue", "maximum number of recordings in memory; more are refused (503)")
    calls: int = _limit(
        "calls", "maximum number of concurrent calls by websocket; more are refused (503)"
    )
    call_s: float = _limit("call_s", "maximum length of a call in seconds")
    rate: int = _limit(
        "rate",
        "maximum number of requests per client and minute; more are refused (429); 0: no limit on "
        "their number or length",
    )
    audio_rate: float = _limit(
        "audio_rate", "maximum seconds of audio per client and minute; 0: no limit"
    )
    connections: int = _limit("connections", "maximum number of open connections")
    client_connections: int = _limit(
        "client_connections", "maximum number of open connections per client"
    )
    readers: int = _limit("readers", "number of threads that decode recordings")
    head_s: float = _limit("head_s", "timeout for the headers of a request, in seconds")
    upload_s: float = _limit("upload_s", "timeout for the upload of a recording, in seconds")
    request_s: float = _limit("request_s", "timeout for scoring an uploaded recording, in seconds")
    stop_s: float = _limit("stop_s", "timeout for current requests after SIGTERM, in seconds")

    @property
    def limits(self) -> ServiceLimits:
        """The limits of the service."""
        return ServiceLimits(
            max_mb=self.max_mb,
            max_seconds=self.max_seconds,
            queue=self.queue,
            calls=self.calls,
            call_s=self.call_s,
            rate=self.rate,
            audio_rate=self.audio_rate,
            connections=self.connections,
            client_connections=self.client_connections,
            readers=self.readers,
            head_s=self.head_s,
            upload_s=self.upload_s,
            request_s=self.request_s,
            stop_s=self.stop_s,
        )


COMMAND = Command("serve", __doc__, ServeOptions)


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        UsageError: a mistake in the options, or the extra `serve` is missing.
        AsdfError: the network cannot be read.
    """
    args = COMMAND.read(arguments)
    # Checked before the seconds for importing torch and reading a network.
    check_installed()
    args.limits.check()
    network = _plan_network(args)
    address = Address(
        args.host,
        args.port,
        args.token_file,
        args.without_token,
        args.proxy,
        args.host_name,
    )
    log_to_screen()

    def announce(url: str) -> None:
        show(f"serving {args.network} at {url} (Ctrl-C ends it)", sys.stderr)
        show(
            f"recordings take up to {args.limits.memory_mb:,.0f} MB of memory together", sys.stderr
        )

    serve(network, address, args.limits, announce, args.audit, args.workers)
    return 0


def _plan_network(args: ServeOptions) -> Network:
    """Return how the processes of the service open the network.

    Workers share a network on the CPU with one thread; otherwise each opens its own, on separate
    GPUs if there are several.
    """
    from asdf.commands.score import open_detector

    threads = args.threads
    gpus = 0
    if args.workers > 1:
        # This avoids initialising CUDA, after which forks could not use a GPU.
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        gpus = count_gpus(args.device)
        if not gpus:
            threads = threads or 1

    def open_network(worker: int | None) -> Detector:
        device = args.device
        if worker is not None and gpus:
            device = f"cuda:{worker % gpus}"
        # A reference comes with each recording.
        opening = replace(args, device=device, threads=threads)
        return open_detector(opening, are_compared=True)

    return Network(args.network, open_network, is_shared=not gpus and threads == 1)


def count_gpus(device: str) -> int:
    """Return the number of GPUs for workers; 0 on a CPU, 1 if a GPU is given."""
    if device not in ("auto", "cuda"):
        return int(device.startswith("cuda"))
    import torch

    if torch.cuda.is_available():
        return torch.cuda.device_count()
    return 0

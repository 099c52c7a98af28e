"""Serve a network over HTTP: POST a recording, get its score; with a page for people.

    python -m asdf serve network.pt                                      # http://127.0.0.1:8000
    python -m asdf serve                                                 # the shipped detector
    curl -F file=@call.mp3 http://127.0.0.1:8000/score                   # as `score --json` writes
    curl -F file=@call.mp3 'http://127.0.0.1:8000/score?window=4&hop=2'  # over time, too
    python -m asdf serve network.pt --host 0.0.0.0 --token-file token    # for other machines
    python -m asdf serve network.pt --audit verdicts.jsonl               # a record of each verdict
    python -m asdf serve network.pt --watermarks                         # searches for them, too
    python -m asdf serve network.pt --workers 4                          # on several cores

ws://127.0.0.1:8000/stream?rate=8000 hears a call: samples in, a verdict per window out.

Requests that come together share forward passes of the network. Recordings are in memory only as
long as they are scored: nothing of them is written to a disk or a log. With --audit, their digests
and verdicts are.

/ is the page, /docs describes the paths, /ready says whether recordings are taken, /metrics has
numbers for Prometheus. SIGTERM or Ctrl-C finishes what there is, then ends the service. SIGHUP
reads the network again, without losing a request.

It needs `pip install 'asdf-antispoofing[serve]'`. docs/service.md says more.
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
    host: str = option("address to serve at", default="127.0.0.1")
    port: int = option("port (%(default)s); 0: any free one", default=8000)
    token_file: Path | None = option(
        "holds the token that clients have to state; else the variable ASDF_SERVICE_TOKEN", "FILE"
    )
    without_token: bool = flag("let other machines use it without a token")
    proxy: tuple[str, ...] = option(
        "a proxy whose X-Forwarded-For says who the client is; may be repeated",
        "ADDRESS",
        default=(),
        repeated=True,
    )
    host_name: tuple[str, ...] = option(
        "a name that leads to the service, as of a proxy; may be repeated",
        "NAME",
        default=(),
        repeated=True,
    )
    audit: Path | None = option(
        "record each verdict, with digests, in this file of JSON lines, each chained to the one "
        "before; `audit-file` checks it",
        "FILE",
        check=check_file,
    )
    watermarks: bool = flag(
        "offer to search for watermarks too, by those of audioseal, perth and silentcipher that "
        "are installed; they are reported apart from the score, to who asks (?watermarks=true)"
    )
    workers: int = option(
        "processes that answer at the address, which share the limits and, on a CPU, the memory of "
        "the network; each computes with one thread, or on a GPU of its own",
        "N",
        default=1,
    )
    max_mb: float = _limit("max_mb", "megabytes of a recording as it is sent")
    max_seconds: float = _limit("max_seconds", "seconds of a recording")
    queue: int = _limit("queue", "recordings in memory together; more are refused with 503")
    calls: int = _limit("calls", "calls that are heard together, by websockets; more get 503")
    call_s: float = _limit("call_s", "seconds of a call")
    rate: int = _limit(
        "rate",
        "requests per minute of a client, more are refused with 429; 0: any number, of any length",
    )
    audio_rate: float = _limit(
        "audio_rate", "seconds of audio per minute of a client that the network may hear; 0: any"
    )
    connections: int = _limit("connections", "open connections")
    client_connections: int = _limit("client_connections", "open connections of a client")
    readers: int = _limit("readers", "threads that decode")
    head_s: float = _limit(
        "head_s", "seconds that a client may take to send the headers of a request"
    )
    upload_s: float = _limit("upload_s", "seconds that a client may take to send a recording")
    request_s: float = _limit("request_s", "seconds that a recording may then take")
    stop_s: float = _limit("stop_s", "seconds for what there is, after SIGTERM")

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
    from asdf.watermarks import open_search

    network = _plan_network(args)
    watermarks = None
    if args.watermarks:
        watermarks = open_search(args.device)
        show(watermarks.describe(), sys.stderr)
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

    serve(network, address, args.limits, announce, args.audit, watermarks, args.workers)
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

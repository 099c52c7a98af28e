"""Serve a network over HTTP: POST a recording, get its score; with a page for people.

    python -m asdf serve network.pt                                      # http://127.0.0.1:8000
    curl -F file=@call.mp3 http://127.0.0.1:8000/score                   # as `score --json` writes
    curl -F file=@call.mp3 'http://127.0.0.1:8000/score?window=4&hop=2'  # over time, too
    python -m asdf serve network.pt --host 0.0.0.0 --token-file token    # for other machines

Requests that come together share forward passes of the network. Recordings are in memory only as
long as they are scored: nothing of them is written to a disk or a log.

/ is the page, /docs describes the paths, /health says whether recordings are taken, /metrics has
numbers for Prometheus. SIGTERM or Ctrl-C finishes what there is, then ends the service.

It needs `pip install 'asdf-antispoofing[serve]'`. docs/service.md says more.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.commands.made_by import made_by, provenance_of
from asdf.commands.options import Command, flag, option
from asdf.commands.outputs import show
from asdf.commands.score_options import DetectorOptions
from asdf.facts import SAMPLE_RATE
from asdf.hub import parse_name
from asdf.runs.log import log_to_screen
from asdf.service import Address, Question, ServiceLimits, check_installed, serve

if TYPE_CHECKING:
    from asdf.commands.score_result_files import Heading
    from asdf.scoring.detector import Detector
    from asdf.scoring.provenance import Provenance
    from asdf.scoring.scored import Scored, WindowScore

# Of scores over time on the page.
_WINDOW_S = 4


def _limit(name: str, meaning: str) -> Any:
    """Return the field of one of the limits, whose default is that of `ServiceLimits`."""
    return option(meaning, "N", getattr(ServiceLimits, name))


@dataclass(frozen=True, kw_only=True)
class ServeOptions(DetectorOptions):
    """Options of the command."""

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
    max_mb: float = _limit("max_mb", "megabytes of a recording as it is sent")
    max_seconds: float = _limit("max_seconds", "seconds of a recording")
    queue: int = _limit("queue", "recordings in memory together; more are refused with 503")
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
    # Before the seconds that importing torch and reading a network take.
    check_installed()
    args.limits.check()
    from asdf.commands.score import open_detector

    detector = open_detector(args)
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

    provenance = provenance_of(detector)
    make_document = document_maker(detector, args.network, provenance)
    about = describe_detector(detector, args.network, args.limits, provenance)
    serve(detector, make_document, about, address, args.limits, announce)
    return 0


def document_maker(
    detector: Detector, network: str, provenance: Provenance
) -> Callable[[Scored, list[WindowScore], Question], dict[str, Any]]:
    """Return a function that makes what `score --json` writes of one recording.

    Its arguments are a result, its windows, and what was asked.

    Args:
        provenance: Provenance of the detector, as of `provenance_of`.
    """
    from asdf.commands.score_result_files import JsonTable, Line

    headings = {}
    for is_trial in (False, True):
        headings[is_trial] = _make_heading(detector, network, is_trial)

    def make(result: Scored, windows: list[WindowScore], question: Question) -> dict[str, Any]:
        text = io.StringIO()
        table = JsonTable(text, headings[question.trial])
        table.add(Line(None, result, windows))
        table.end(complete=True)
        document: dict[str, Any] = json.loads(text.getvalue())
        document["made_by"] = made_by(provenance, question.trial, question.window)
        return document

    return make


def describe_detector(
    detector: Detector, network: str, limits: ServiceLimits, provenance: Provenance
) -> dict[str, Any]:
    """Return what the page shows of a detector and the limits."""
    heading = _make_heading(detector, network, False)
    return {
        "asdf": provenance.asdf,
        "torch": provenance.torch,
        "network_sha256": provenance.network_sha256,
        "network": heading.network,
        "kind": heading.kind,
        "threshold": heading.threshold,
        "decision": heading.decision,
        "scores": heading.scores,
        "max_mb": limits.max_mb,
        "max_seconds": limits.max_seconds,
        "limits": f"{limits.max_mb:g} MB and {_describe_seconds(limits.max_seconds)}",
        "window_s": _choose_window(detector),
    }


def _describe_seconds(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 120 else f"{seconds:g} seconds"


def _choose_window(detector: Detector) -> float:
    """Return the seconds of a window on the page: short, but all that the network hears at once."""
    length = detector.length
    wanted = max(_WINDOW_S * SAMPLE_RATE, length.min_samples)
    return min(wanted, detector.window_samples) / SAMPLE_RATE


def _make_heading(detector: Detector, network: str, is_trial: bool) -> Heading:
    from asdf.commands.score import make_heading

    # Where it lies on the server is nobody's business; a name of the hub is, with its commit.
    name = detector.source if parse_name(detector.source) else Path(network).name
    return make_heading(detector, name, is_trial)

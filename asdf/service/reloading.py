"""Replacement of the network of a running service when its file was replaced.

Invariant: requests never wait for it, and if the file is not a network, or gives no score, the
previous network stays.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.runs.systems import existing_signals
from asdf.scoring.detector import Detector
from asdf.service.service import Service


def describe_digest(digest: str | None) -> str:
    """Return a description of a network's SHA-256 for the log."""
    return "of no one file" if digest is None else f"with SHA-256 {digest[:12]}"


def reload_network(service: Service, open_detector: Callable[[], Detector], network: str) -> None:
    """Open the network again, and use it for new requests. The outcome is logged.

    Args:
        network: Path or name that it is opened by.
    """
    before = service.current.digest
    try:
        detector = open_detector()
        service.replace(detector, network)
    except AsdfError as error:
        LOG.error(
            "%s was not reloaded; the network %s stays in use: %s",
            network,
            describe_digest(before),
            error,
        )
    except Exception:
        # Whatever a new file causes, the service continues.
        LOG.exception("%s was not reloaded; the previous network stays in use", network)
    else:
        after = service.current.digest
        change = "which is the same" if after == before else f"after that {describe_digest(before)}"
        LOG.info("new requests go to the network %s, %s", describe_digest(after), change)


def on_reload_signal(action: Callable[..., None]) -> None:
    """Call `action` at SIGHUP, if signals belong to this thread and the system has it."""
    if threading.current_thread() is threading.main_thread():
        for number in existing_signals("SIGHUP"):
            signal.signal(number, action)

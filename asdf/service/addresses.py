"""Address of a service, and what it serves there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector


@dataclass(frozen=True)
class Address:
    """Address and access rules of a service.

    Attributes:
        token_file: File with the token; None: the variable ASDF_SERVICE_TOKEN, or no token.
        without_token: Whether anyone who reaches the port may use it, also from other machines.
        proxies: Addresses of proxies whose X-Forwarded-For states the client.
        names: Host names of the service, besides its address and those of this machine.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    without_token: bool = False
    proxies: Sequence[str] = field(default=())
    names: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Network:
    """The network that a service serves.

    Attributes:
        name: Path or name that the detector is opened by.
        open: Function that opens it, at the start and on reload; its argument is the number of the
            worker, or None in the parent process that opens it for all.
        is_shared: Whether workers share the parent's detector: on a CPU, with one thread.
    """

    name: str
    open: Callable[[int | None], Detector]
    is_shared: bool = True

"""Where a service is, and what it serves there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asdf.scoring.detector import Detector


@dataclass(frozen=True)
class Address:
    """Where a service is, and who may use it.

    Attributes:
        token_file: holds the token; None: the variable ASDF_SERVICE_TOKEN has it, or nothing.
        without_token: whoever reaches the port may use it, also from other machines.
        proxies: addresses whose X-Forwarded-For says who the client is.
        names: Names under which it is asked, besides its address and those of this machine.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token_file: Path | None = None
    without_token: bool = False
    proxies: Sequence[str] = field(default=())
    names: Sequence[str] = field(default=())


@dataclass(frozen=True)
class Network:
    """What a service serves.

    Attributes:
        name: Path or name that the detector is opened by.
        open: Function that opens it, at the start and whenever it is read again; its argument is
            the number of the worker, None in the process above that opens it for all.
        is_shared: Whether workers share what the process above has opened: on a CPU, with one
            thread.
    """

    name: str
    open: Callable[[int | None], Detector]
    is_shared: bool = True

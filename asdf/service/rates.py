"""How many requests each client may make.

Invariant: no more clients are remembered than `_MAX_CLIENTS`, whatever addresses requests come
from.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from asdf.service.limits import Refusal

_MAX_CLIENTS = 10_000
# Who has one address of IPv6 has all of its network.
_BITS_OF_NETWORK = 64


@dataclass
class _Allowance:
    """Requests that a client may still make, at a time in seconds."""

    requests: float
    time_s: float


class Rates:
    """A token bucket per client: `per_minute` requests at once, and as many per minute."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Allow each client `per_minute` requests; 0: any number.

        Args:
            clock: seconds that only grow.
        """
        self._per_minute = per_minute
        self._clock = clock
        self._allowances: OrderedDict[str, _Allowance] = OrderedDict()

    def count(self, address: str) -> None:
        """Count a request of the client at `address`.

        Raises:
            Refusal: 429, it has made too many.
        """
        if not self._per_minute:
            return
        client = _network_of(address)
        now = self._clock()
        allowance = self._allowances.pop(client, None) or _Allowance(self._per_minute, now)
        gained = (now - allowance.time_s) * self._per_minute / 60
        allowance.requests = min(self._per_minute, allowance.requests + gained)
        allowance.time_s = now
        # The client that was seen last is the last to be forgotten.
        self._allowances[client] = allowance
        if len(self._allowances) > _MAX_CLIENTS:
            self._allowances.popitem(last=False)
        if allowance.requests < 1:
            wait_s = math.ceil((1 - allowance.requests) * 60 / self._per_minute)
            raise Refusal(
                429,
                f"more than {self._per_minute} requests per minute from this address: try again in "
                f"{wait_s} s.",
                wait_s,
            )
        allowance.requests -= 1


def _network_of(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((parsed, _BITS_OF_NETWORK), strict=False))

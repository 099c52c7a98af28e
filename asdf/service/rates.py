"""How many requests each client may make, and how much audio they may be about.

Invariant: no more clients are remembered than `_MAX_CLIENTS`, whatever addresses requests come
from.
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from asdf.service.limits import Refusal

_MAX_CLIENTS = 10_000
# Who has one address of IPv6 has all of its network.
_BITS_OF_NETWORK = 64


@dataclass
class _Allowance:
    """Requests and seconds of audio that a client still has, at a time in seconds.

    Seconds of audio are below 0 after a long recording, until time has made up for it.
    """

    requests: float
    audio_s: float
    time_s: float


@dataclass(frozen=True)
class Rates:
    """A token bucket per client: so many requests and seconds of audio at once and per minute.

    Attributes:
        per_minute: Requests of a client; 0: any number, of any length.
        audio_per_minute: Seconds of audio that the network may hear of them; 0: any.
        clock: Seconds that only grow.
    """

    per_minute: int
    audio_per_minute: float = 0.0
    clock: Callable[[], float] = time.monotonic
    _allowances: OrderedDict[str, _Allowance] = field(init=False, default_factory=OrderedDict)

    def count(self, address: str) -> None:
        """Count a request of the client at `address`.

        Raises:
            Refusal: 429, it has made too many, or has not made up for its recordings yet.
        """
        if not self.per_minute:
            return
        allowance = self._renew(address)
        if allowance.requests < 1:
            wait_s = math.ceil((1 - allowance.requests) * 60 / self.per_minute)
            raise Refusal(
                429,
                f"more than {self.per_minute} requests per minute from this address: try again in "
                f"{wait_s} s.",
                wait_s,
            )
        self._check_audio(allowance)
        allowance.requests -= 1

    def charge(self, address: str, audio_s: float) -> None:
        """Count the seconds of audio that the network is to hear for the client at `address`.

        A recording of any length is heard where the allowance is not used up; the client then has
        to wait longer for the next.

        Raises:
            Refusal: 429, other recordings of the client have used it up meanwhile.
        """
        if not self.per_minute or not self.audio_per_minute:
            return
        allowance = self._renew(address)
        self._check_audio(allowance)
        allowance.audio_s -= audio_s

    def _renew(self, address: str) -> _Allowance:
        """Return what a client has now."""
        client = network_of(address)
        now = self.clock()
        allowance = self._allowances.pop(client, None)
        if allowance is None:
            allowance = _Allowance(self.per_minute, self.audio_per_minute, now)
        passed_s = now - allowance.time_s
        requests = allowance.requests + passed_s * self.per_minute / 60
        audio_s = allowance.audio_s + passed_s * self.audio_per_minute / 60
        allowance.requests = min(self.per_minute, requests)
        allowance.audio_s = min(self.audio_per_minute, audio_s)
        allowance.time_s = now
        # The client that was seen last is the last to be forgotten.
        self._allowances[client] = allowance
        if len(self._allowances) > _MAX_CLIENTS:
            self._allowances.popitem(last=False)
        return allowance

    def _check_audio(self, allowance: _Allowance) -> None:
        if not self.audio_per_minute or allowance.audio_s > 0:
            return
        wait_s = 1 + math.floor(-allowance.audio_s * 60 / self.audio_per_minute)
        raise Refusal(
            429,
            f"more than {self.audio_per_minute:g} seconds of audio per minute from this address, "
            f"windows included: try again in {wait_s} s.",
            wait_s,
        )


def network_of(address: str) -> str:
    """Return the address of a client; of IPv6 its network, all of which one client has."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((parsed, _BITS_OF_NETWORK), strict=False))

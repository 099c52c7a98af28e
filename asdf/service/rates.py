"""How many requests each client may make, and how much audio they may be about.

Invariant: memory for clients has one size, whatever addresses requests come from, and what a client
has left is the same for all workers of a service (`asdf.service.board`).
"""

from __future__ import annotations

import ipaddress
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from asdf.service.board import Board
from asdf.service.limits import Refusal

# Who has one address of IPv6 has all of its network.
_BITS_OF_NETWORK = 64


@dataclass(frozen=True)
class Rates:
    """A token bucket per client: so many requests and seconds of audio at once and per minute.

    Attributes:
        per_minute: Requests of a client; 0: any number, of any length.
        audio_per_minute: Seconds of audio that the network may hear of them; 0: any.
        clock: Seconds that only grow, the same in all processes.
        board: Memory that holds what clients have left, shared by the workers of a service.
    """

    per_minute: int
    audio_per_minute: float = 0.0
    clock: Callable[[], float] = time.monotonic
    board: Board = field(default_factory=Board)

    def count(self, address: str) -> None:
        """Count a request of the client at `address`.

        Raises:
            Refusal: 429, it has made too many, or has not made up for its recordings yet.
        """
        if not self.per_minute:
            return
        with self.board.lock():
            allowance = self._renew(address)
            if allowance["requests"] < 1:
                wait_s = math.ceil((1 - float(allowance["requests"])) * 60 / self.per_minute)
                raise Refusal(
                    429,
                    f"more than {self.per_minute} requests per minute from this address: try again "
                    f"in {wait_s} s.",
                    wait_s,
                )
            self._check_audio(allowance)
            allowance["requests"] -= 1

    def charge(self, address: str, audio_s: float) -> None:
        """Count the seconds of audio that the network is to hear for the client at `address`.

        A recording of any length is heard where the allowance is not used up; the client then has
        to wait longer for the next.

        Raises:
            Refusal: 429, other recordings of the client have used it up meanwhile.
        """
        if not self.per_minute or not self.audio_per_minute:
            return
        with self.board.lock():
            allowance = self._renew(address)
            self._check_audio(allowance)
            allowance["audio_s"] -= audio_s

    def _renew(self, address: str) -> np.void:
        """Return what a client has now: requests, and seconds of audio.

        The seconds are below 0 after a long recording, until time has made up for it.
        """
        now = self.clock()
        allowance, is_known = self.board.find_client(network_of(address))
        if not is_known:
            allowance["requests"] = self.per_minute
            allowance["audio_s"] = self.audio_per_minute
            allowance["time_s"] = now
        passed_s = now - allowance["time_s"]
        requests = allowance["requests"] + passed_s * self.per_minute / 60
        audio_s = allowance["audio_s"] + passed_s * self.audio_per_minute / 60
        allowance["requests"] = min(self.per_minute, requests)
        allowance["audio_s"] = min(self.audio_per_minute, audio_s)
        allowance["time_s"] = now
        return allowance

    def _check_audio(self, allowance: np.void) -> None:
        if not self.audio_per_minute or allowance["audio_s"] > 0:
            return
        wait_s = 1 + math.floor(-float(allowance["audio_s"]) * 60 / self.audio_per_minute)
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

"""Rate limits of each client: number of requests, and length of audio.

Invariant: the memory for clients has a fixed size, whatever addresses requests come from, and a
client's allowance is shared by all workers of a service (`asdf.service.board`).
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

# The owner of one IPv6 address has its whole network.
_BITS_OF_NETWORK = 64


@dataclass(frozen=True)
class Rates:
    """A token bucket per client: requests and seconds of audio, at once and per minute.

    Attributes:
        per_minute: Number of requests of a client per minute; 0: any number, of any length.
        audio_per_minute: Length of audio that the network hears for a client per minute, in
            seconds; 0: any.
        clock: Function that returns monotonic seconds, the same in all processes.
        board: Memory with the clients' allowances, shared by the workers of a service.
    """

    per_minute: int
    audio_per_minute: float = 0.0
    clock: Callable[[], float] = time.monotonic
    board: Board = field(default_factory=Board)

    def count(self, address: str) -> None:
        """Count a request of the client at `address`.

        Raises:
            Refusal: 429, there were too many requests, or recent recordings have used up the
                allowance.
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
        """Charge seconds of audio that the network is to hear to the client at `address`.

        A recording of any length is accepted while there is any allowance left; the client then has
        to wait longer for the next one.

        Raises:
            Refusal: 429, other recordings of the client have used up the allowance meanwhile.
        """
        if not self.per_minute or not self.audio_per_minute:
            return
        with self.board.lock():
            allowance = self._renew(address)
            self._check_audio(allowance)
            allowance["audio_s"] -= audio_s

    def _renew(self, address: str) -> np.void:
        """Return the current allowance of a client: requests, and seconds of audio.

        The seconds are negative after a long recording, until enough time has passed.
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
    """Return the address of a client; for IPv6 its network, which belongs to one client."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((parsed, _BITS_OF_NETWORK), strict=False))

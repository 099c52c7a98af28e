"""Limits on connections before any request: their number, and how long they may be idle.

Invariant: a client that holds connections without finishing a request cannot exclude others. If a
client, or all clients together, reach the limit, the connection that has been idle for the longest
is closed for the next one; and every connection is closed in bounded time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from asdf.service.board import Board, Seat
from asdf.service.limits import ServiceLimits
from asdf.service.rates import network_of

_REFUSAL = b'{"error":"too many connections are open: close some, or try again later."}'
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 10\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_REFUSAL), _REFUSAL)
)


class Connection(H11Protocol):
    """A connection that records since when it has been waiting for its client.

    Attributes:
        client_network: Address of the client; for IPv6 its /64 network.
    """

    def __init__(self, doors: Doors, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._doors = doors
        self._waits_since_s: float | None = None
        self._is_full = False
        self.client_network = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the connection, and make room for it or refuse it."""
        super().connection_made(transport)
        self._waits_since_s = time.monotonic()
        self.client_network = network_of(self.client[0] if self.client else "")
        self._doors.admit(self)

    def data_received(self, data: bytes) -> None:
        """Read data, unless the connection was refused."""
        if not self.transport.is_closing():
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Wait for the next request from now on."""
        self._waits_since_s = time.monotonic()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Record that the client does not read its answer."""
        self._is_full = True
        self._waits_since_s = time.monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Record that the client reads again."""
        self._is_full = False
        super().resume_writing()

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for its client to send a request header or to read an answer."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        return self._is_full or not is_answering

    @property
    def waited_s(self) -> float:
        """Seconds that it has waited for its client; 0 while its request is processed."""
        if not self.is_waiting or self._waits_since_s is None:
            return 0.0
        return time.monotonic() - self._waits_since_s

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Hand the connection over to the websocket protocol, as an active one."""
        super().handle_websocket_upgrade(event)
        self._doors.go_on_as(self, self.transport.get_protocol())

    def refuse(self) -> None:
        """Answer that there are too many connections, and close."""
        self.transport.write(_FULL)
        self.transport.close()

    def drop(self) -> None:
        """Close it at once, losing data on the way to a client that does not read."""
        self.transport.abort()


class Doors:
    """All connections of a service.

    Attributes:
        dropped: Number of connections closed without an answer so far.
        max_connections: Maximum number of connections at a time.
        head_s: Maximum time that a connection may wait for its client, in seconds.
    """

    def __init__(
        self,
        limits: ServiceLimits,
        proxies: Sequence[str] = (),
        max_connections: int | None = None,
        seat: Seat | None = None,
    ) -> None:
        """Apply the limits to connections.

        Args:
            proxies: Addresses or networks whose connections carry many clients.
            max_connections: Maximum number that this process can open; None: any number.
            seat: Seat of this worker among those of the service, which share the limits.
        """
        self.max_connections = limits.connections
        if max_connections is not None:
            self.max_connections = min(limits.connections, max_connections)
        # A single client never gets all connections.
        self._max_of_client = min(limits.client_connections, max(1, self.max_connections // 2))
        self.head_s = limits.head_s
        # Keep the proxies that are addresses or networks; names cannot be the address of a client.
        networks = []
        for proxy in proxies:
            with suppress(ValueError):
                networks.append(ipaddress.ip_network(proxy, strict=False))
        self._proxies = networks
        self._trusts_all = "*" in proxies
        self._open: set[Connection] = set()
        self._calls: dict[Any, str] = {}
        self._seat = seat or Seat(Board(max_connections=limits.connections))
        self.dropped = 0

    def admit(self, connection: Connection) -> None:
        """Admit a connection; if there are too many, close the one that has waited longest."""
        self._forget_closed()
        self._open.add(connection)
        name = connection.client_network
        client = [each for each in self._open if each.client_network == name]
        # Including those of other workers, and calls.
        of_client = len(client) + self._seat.count_connections(self._seat.board.key_of(name))
        of_client += list(self._calls.values()).count(name)
        if of_client > self._max_of_client and not self._is_proxy(connection):
            self._make_room(client, connection)
        elif len(self) + self._seat.count_connections() > self.max_connections:
            self._make_room(self._open, connection)
        self._note()

    def go_on_as(self, connection: Connection, call: Any) -> None:
        """Count a connection as a call from now on, which does not wait for its client."""
        self._calls[call] = connection.client_network
        self._forget_closed()

    def close_overdue(self) -> None:
        """Close connections that have waited for their clients for too long."""
        self._forget_closed()
        for connection in list(self._open):
            if connection.waited_s > self.head_s:
                self._drop(connection)
        self._note()

    def __len__(self) -> int:
        self._forget_closed()
        return len(self._open) + len(self._calls)

    def _note(self) -> None:
        """Publish the clients of the open connections to the other workers."""
        names = [each.client_network for each in self._open]
        names += self._calls.values()
        key_of = {name: self._seat.board.key_of(name) for name in set(names)}
        self._seat.note_connections([key_of[name] for name in names])

    def _make_room(self, connections: Iterable[Connection], new: Connection) -> None:
        others = [each for each in connections if each is not new and each.is_waiting]
        if others:
            self._drop(max(others, key=lambda each: each.waited_s))
        else:
            self.dropped += 1
            self._open.discard(new)
            new.refuse()

    def _drop(self, connection: Connection) -> None:
        self.dropped += 1
        self._open.discard(connection)
        connection.drop()

    def _forget_closed(self) -> None:
        """Forget closed connections; a closing one stays until its client has read everything."""
        # uvicorn removes closed connections from its sets.
        self._open = {each for each in self._open if each in each.connections}
        calls = self._calls.items()
        self._calls = {call: name for call, name in calls if call in call.connections}

    def _is_proxy(self, connection: Connection) -> bool:
        if self._trusts_all:
            return True
        try:
            address = ipaddress.ip_address(connection.client[0] if connection.client else "")
        except ValueError:
            return False
        return any(address in network for network in self._proxies)

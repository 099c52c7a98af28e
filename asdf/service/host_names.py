"""Under which names the service is asked, and by the pages of which sites.

Invariant: a web page of another site can neither use a service on this machine nor read from it. A
site that lets its own name lead here (DNS rebinding) is refused by the Host that browsers then
send; a page that posts across sites by its Origin. Programs send neither.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from starlette.datastructures import Headers

from asdf.service.limits import Refusal

_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[\w.-]+))(?::\d*)?")
_READING = ("GET", "HEAD", "OPTIONS")
# What a browser itself says of who asks: the service's own page, or the user.
_OWN_SITE = ("same-origin", "none")


class Names:
    """The names of a service."""

    def __init__(self, host: str, is_local: bool, names: Sequence[str] = ()) -> None:
        """Take the address that the service is at, and the names that lead to it.

        Args:
            host: Address that it serves at.
            is_local: Whether only this machine reaches it.
            names: Other names, as of a proxy in front of it.
        """
        self._other = {_hostname(name) for name in names}
        self._names = {*self._other, *_LOCAL, _hostname(host)}
        # Elsewhere the token is what protects it, and it may have any name.
        self._checks_host = is_local or bool(names)

    def check(self, method: str, headers: Headers) -> None:
        """Check who asks, and under which name.

        Raises:
            Refusal: 421, it is asked under a name that is not its own; 403, by another site.
        """
        host = headers.get("host", "")
        # A program that speaks HTTP 1.0 sends none; browsers always do.
        if self._checks_host and host and _hostname(host) not in self._names:
            raise Refusal(
                421,
                "this service does not go by the name that it was asked under. If the name leads "
                "to it, start it with --host-name NAME.",
            )
        if method not in _READING and not self._is_own_site(host, headers):
            raise Refusal(
                403,
                "a page of another site may not use this service. If it is this service's page, "
                "behind a proxy, start the service with --host-name NAME.",
            )

    def _is_own_site(self, host: str, headers: Headers) -> bool:
        stated = headers.get("sec-fetch-site")
        if stated is not None and stated not in _OWN_SITE:
            return False
        origin = headers.get("origin")
        if origin is None or stated == "same-origin":
            return True
        # Programs on this machine have origins too, at other ports: the port is part of it.
        site = origin.partition("://")[2]
        return site.lower() == host.lower() or _hostname(site) in self._other


def _hostname(stated: str) -> str:
    """Return the name or address in 'name', 'name:port', '::1' or '[::1]:port'; '' of neither."""
    matched = _HOST.fullmatch(stated.lower())
    name = (matched["address"] or matched["name"]) if matched else stated
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.rstrip(".") if matched else ""

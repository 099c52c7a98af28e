"""Host names of the service, and the sites whose pages may use it.

Invariant: a web page of another site can neither use a service on this machine nor read from it. A
site that points its own name here (DNS rebinding) is refused by the Host header of browsers, and a
page that posts across sites by its Origin. Programs send neither.
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
# The origin of a request according to the browser: the service's own page, or the user.
_OWN_SITE = ("same-origin", "none")


class Names:
    """The host names of a service."""

    def __init__(self, host: str, is_local: bool, names: Sequence[str] = ()) -> None:
        """Set the address of the service, and its host names.

        Args:
            host: Address that it listens on.
            is_local: Whether only this machine reaches it.
            names: Other names, for example of a proxy in front of it.
        """
        self._other = {_hostname(name) for name in names}
        self._names = {*self._other, *_LOCAL, _hostname(host)}
        # Otherwise the token protects it, and it may have any name.
        self._checks_host = is_local or bool(names)

    def check(self, method: str, headers: Headers) -> None:
        """Check the origin and the host name of a request.

        Raises:
            Refusal: 421, the host name is not the service's own; 403, the request is from another
                site.
        """
        host = headers.get("host", "")
        # A program that uses HTTP 1.0 sends none; browsers always do.
        if self._checks_host and host and _hostname(host) not in self._names:
            raise Refusal(
                421,
                "this service is not known by the host name of the request. If the name is its "
                "own, start it with --host-name NAME.",
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
        # Programs on this machine have origins too, at other ports, so the port is compared.
        site = origin.partition("://")[2]
        return site.lower() == host.lower() or _hostname(site) in self._other


def _hostname(stated: str) -> str:
    """Return the name or address in 'name', 'name:port', '::1' or '[::1]:port'; else ''."""
    matched = _HOST.fullmatch(stated.lower())
    name = (matched["address"] or matched["name"]) if matched else stated
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.rstrip(".") if matched else ""

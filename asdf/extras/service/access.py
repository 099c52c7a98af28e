"""Who may use a service: the bearer token, and the sites whose pages may ask.

Invariant: a web page of another site can neither use a service on this machine nor read from it. A
site that points its own name here (DNS rebinding) is refused by the Host header of browsers, and a
page that posts across sites by its Origin. Programs send neither.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from asdf.errors import UsageError
from asdf.extras.service.limits import Refusal

VARIABLE = "ASDF_SERVICE_TOKEN"
_MIN_LENGTH = 16
_LOCAL = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[\w.-]+))(?::\d*)?")
_READING = ("GET", "HEAD", "OPTIONS")
# The origin of a request according to the browser: the service's own page, or the user.
_OWN_SITE = ("same-origin", "none")


class Token:
    """A secret, of which only a digest is in memory."""

    def __init__(self, text: str) -> None:
        self._digest = _digest(text)

    def check(self, authorization: str) -> None:
        """Check the header of a request.

        Raises:
            Refusal: 401, the header does not contain this token.
        """
        scheme, _, stated = authorization.partition(" ")
        # Digests have equal lengths, so that the duration reveals nothing about the token.
        is_same = hmac.compare_digest(_digest(stated.strip()), self._digest)
        if scheme.lower() != "bearer" or not is_same:
            raise Refusal(
                401,
                "this service requires its token: send the header 'Authorization: Bearer TOKEN'.",
            )


def read_token(path: Path | None) -> Token | None:
    """Read the token from a file, or else from the variable ASDF_SERVICE_TOKEN.

    The result is None without either.

    Raises:
        UsageError: the token is empty or short, or the file cannot be read.
    """
    if path is not None:
        try:
            # Editors end a file with a line break.
            text = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the token's file {path} cannot be read: {error}.") from None
        origin = str(path)
    else:
        value = os.environ.get(VARIABLE)
        if value is None:
            return None
        text = value.strip()
        origin = f"the variable {VARIABLE}"
    if len(text) < _MIN_LENGTH:
        raise UsageError(
            f"the token in {origin} has {len(text)} characters: use {_MIN_LENGTH} or more, as "
            '`python -c "import secrets; print(secrets.token_urlsafe(32))"` makes them.'
        )
    return Token(text)


class Names:
    """The host names of a service."""

    def __init__(self, host: str, names: Sequence[str] = ()) -> None:
        """Set the address that the service listens on, and its other names, as of a proxy."""
        self._other = {_hostname(name) for name in names}
        self._names = {*self._other, *_LOCAL, _hostname(host)}
        # Otherwise the token protects it, and it may have any name.
        self._checks_host = is_local(host) or bool(names)

    def check(self, method: str, headers: Mapping[str, str]) -> None:
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

    def _is_own_site(self, host: str, headers: Mapping[str, str]) -> bool:
        stated = headers.get("sec-fetch-site")
        if stated is not None and stated not in _OWN_SITE:
            return False
        origin = headers.get("origin")
        if origin is None or stated == "same-origin":
            return True
        # Programs on this machine have origins too, at other ports, so the port is compared.
        site = origin.partition("://")[2]
        return site.lower() == host.lower() or _hostname(site) in self._other


def is_local(host: str) -> bool:
    """Return whether only programs on this machine reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _digest(text: str) -> bytes:
    # A variable of bytes that are not UTF-8 has surrogates in Python.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _hostname(stated: str) -> str:
    """Return the name or address in 'name', 'name:port', '::1' or '[::1]:port'; else ''."""
    matched = _HOST.fullmatch(stated.lower())
    name = (matched["address"] or matched["name"]) if matched else stated
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.rstrip(".") if matched else ""

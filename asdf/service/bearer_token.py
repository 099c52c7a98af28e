"""The bearer token of a service."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from asdf.errors import UsageError
from asdf.service.limits import Refusal

VARIABLE = "ASDF_SERVICE_TOKEN"
_MIN_LENGTH = 16


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


def _digest(text: str) -> bytes:
    # A variable of bytes that are not UTF-8 has surrogates in Python.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

"""Schemes of addresses: what reaches each, and what it can do.

Invariant: an address is known by its scheme alone, without a look at any disk or network.
"""

from __future__ import annotations

import os

from asdf.errors import UsageError
from asdf.text import AnyPath

PACKAGES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "hf": "huggingface_hub",
    "https": "aiohttp",
    "http": "aiohttp",
    "memory": "fsspec",
}
"""The package that reaches the addresses of a scheme. `memory` is fsspec's store for tests."""

EXTRAS = {"s3fs": "s3", "gcsfs": "gs", "adlfs": "az", "huggingface_hub": "hub", "aiohttp": "remote"}
"""The extra of ASDF that installs a package."""

SHOWN_SCHEMES = ("s3", "gs", "az", "hf", "https")
"""Schemes that messages name."""

# What answers single addresses, and knows no folders.
_SERVERS = ("http", "https")


def scheme_of(address: str) -> str:
    """Return 's3' of an address; '' of a path of a disk."""
    scheme, slash, _ = address.partition(":/")
    return scheme if slash else ""


def can_be_listed(path: AnyPath) -> bool:
    """Whether the names in a folder can be found out: a web server has no list of its files."""
    return scheme_of(os.fspath(path)) not in _SERVERS


def refuse_unwritable(path: AnyPath) -> None:
    """Refuse an output that no store will take, before any work is done for it.

    Raises:
        UsageError: it is an address of a web server.
    """
    if scheme_of(os.fspath(path)) in _SERVERS:
        raise UsageError(
            f"{path} cannot be written: a web server takes no files. Write to a disk, or to an "
            "object store (s3://, gs://, az://, hf://)."
        )

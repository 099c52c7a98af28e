"""Schemes of addresses: the package for each, and the operations that it supports.

Invariant: an address is recognised by its scheme alone, without any disk or network access.
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

# Servers of single files, without folders.
_SERVERS = ("http", "https")


def scheme_of(address: str) -> str:
    """Return the scheme of an address, such as 's3'; '' for a local path."""
    scheme, slash, _ = address.partition(":/")
    return scheme if slash else ""


def can_be_listed(path: AnyPath) -> bool:
    """Whether the names in a folder can be listed; a web server does not list its files."""
    return scheme_of(os.fspath(path)) not in _SERVERS


def refuse_unwritable(path: AnyPath) -> None:
    """Refuse an output path that no store can write, before any work is done for it.

    Raises:
        UsageError: the path is an address of a web server.
    """
    if scheme_of(os.fspath(path)) in _SERVERS:
        raise UsageError(
            f"{path} cannot be written: a web server does not accept files. Write to a disk, or to "
            "an object store (s3://, gs://, az://, hf://)."
        )

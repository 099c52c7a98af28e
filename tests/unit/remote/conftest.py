"""A store in memory, and a web server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from asdf.remote import stores
from tests.stores import RangeServer, memory_store, range_server


@pytest.fixture
def store() -> Iterator[str]:
    pytest.importorskip("fsspec")
    with memory_store() as address:
        yield address


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RangeServer]:
    pytest.importorskip("aiohttp")
    monkeypatch.setattr(stores, "_FIRST_PAUSE_S", 0.001)
    with range_server() as running:
        yield running

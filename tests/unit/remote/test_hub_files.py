"""Files of the hub by their addresses: what was replaced there is seen, and read to its new end."""

from __future__ import annotations

import pytest

from asdf.errors import AsdfError
from asdf.remote import (
    Range,
    object_state,
    read_object,
    read_objects,
    read_start,
    read_whole,
    stores,
)
from tests.hub_server import HubServer

SHORT = bytes(range(200)) * 10
LONG = bytes(range(200, 0, -1)) * 12
ADDRESS = "hf://datasets/org/set/a/x.tar"


@pytest.fixture
def server(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    pytest.importorskip("fsspec")
    monkeypatch.setattr(stores, "_FIRST_PAUSE_S", 0.001)
    publish(hub, SHORT)
    return hub


def publish(server: HubServer, content: bytes) -> None:
    server.repository("org/set").commit({"a/x.tar": content, "a/y.txt": b"y", "z": b"z"})


def test_the_bytes_of_a_file_of_the_hub(server: HubServer) -> None:
    assert read_whole(ADDRESS, len(SHORT)) == SHORT
    assert read_object(ADDRESS, 1990, 10) == SHORT[-10:]
    assert read_start(ADDRESS, 3000) == SHORT
    ranges = [Range(ADDRESS, 5, 3), Range(ADDRESS, 100, 20), Range(ADDRESS, 1999, 1)]
    assert read_objects(ranges) == [SHORT[5:8], SHORT[100:120], SHORT[-1:]]
    with pytest.raises(AsdfError, match="ends before byte 2,010"):
        read_object(ADDRESS, 2005, 5)
    with pytest.raises(AsdfError, match="more than 100 bytes"):
        read_whole(ADDRESS, 100)


def test_a_file_that_was_replaced_is_seen_at_once(server: HubServer) -> None:
    before = object_state(ADDRESS)
    assert before is not None and before.size == len(SHORT) and before.version > 0
    assert object_state(ADDRESS, refresh=True) == before
    publish(server, SHORT[::-1])
    # Of the same length: its version alone says so.
    after = object_state(ADDRESS, refresh=True)
    assert after is not None and after.size == before.size
    assert after.version not in (0, before.version)
    publish(server, LONG)
    after = object_state(ADDRESS, refresh=True)
    assert after is not None and after.size == len(LONG)
    assert object_state(ADDRESS) == after
    assert read_object(ADDRESS, 2300, 100) == LONG[2300:]
    assert object_state(ADDRESS, refresh=True) == after


def test_a_longer_file_is_read_to_its_end_whatever_a_listing_says(server: HubServer) -> None:
    assert object_state(ADDRESS) is not None
    publish(server, LONG)
    assert read_object(ADDRESS, 2300, 100) == LONG[2300:]


def test_a_file_that_went_and_came_again(server: HubServer) -> None:
    assert object_state(ADDRESS) is not None
    server.repository("org/set").commit({"a/y.txt": b"y"})
    assert object_state(ADDRESS, refresh=True) is None
    publish(server, LONG)
    after = object_state(ADDRESS, refresh=True)
    assert after is not None and after.size == len(LONG)


def test_a_file_that_came_after_its_folder_was_listed(server: HubServer) -> None:
    server.repository("org/set").commit({"a/y.txt": b"y"})
    assert object_state(ADDRESS) is None
    publish(server, LONG)
    after = object_state(ADDRESS, refresh=True)
    assert after is not None and after.size == len(LONG)


def test_a_folder_is_listed_once_and_a_look_again_is_one_request(server: HubServer) -> None:
    for name in ("a/x.tar", "a/y.txt", "a/no"):
        object_state(f"hf://datasets/org/set/{name}")
    trees = [path for _, path, _ in server.requests if "/tree/" in path]
    assert len(trees) == 1
    server.requests.clear()
    object_state(ADDRESS, refresh=True)
    assert [path.split("/")[5] for _, path, _ in server.requests] == ["paths-info"]


def test_a_hub_that_is_down_is_one_message(server: HubServer) -> None:
    object_state(ADDRESS)
    server.status = 403
    with pytest.raises(AsdfError, match="Credentials are those that huggingface_hub finds"):
        read_object(ADDRESS, 0, 10)

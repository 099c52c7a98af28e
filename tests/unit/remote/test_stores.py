"""Bytes out of stores: all that were requested, or one message that names the object."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from asdf.errors import AsdfError, UsageError
from asdf.remote import (
    Range,
    as_path,
    list_objects,
    object_state,
    paths,
    read_object,
    read_objects,
    read_start,
    read_whole,
    upload_object,
)
from asdf.remote.stores import download_object
from tests.stores import RangeServer

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def address(server: RangeServer) -> str:
    server.objects["/a.bin"] = CONTENT
    return server.address("/a.bin")


def test_ranges_are_the_bytes_of_the_object(server: RangeServer, address: str) -> None:
    assert read_object(address, 300, 77) == CONTENT[300:377]
    wanted = [(5, 10), (0, 1), (9000, 1240), (5, 10)]
    parts = read_objects([Range(address, *each) for each in wanted])
    assert parts == [CONTENT[start : start + size] for start, size in wanted]
    assert server.requests[-1][2].startswith("bytes=")


@pytest.mark.parametrize("failure", [503, 500, 429, "short"])
def test_passing_troubles_are_tried_again(
    server: RangeServer, address: str, failure: int | str
) -> None:
    server.failures.extend([failure] * 3)
    assert read_object(address, 100, 1000) == CONTENT[100:1100]
    assert len(server.requests) == 4
    server.failures.extend([failure])
    assert read_objects([Range(address, 0, 9), Range(address, 10, 9)]) == [
        CONTENT[:9],
        CONTENT[10:19],
    ]


def test_a_store_that_stays_down_is_one_message(server: RangeServer, address: str) -> None:
    server.failures.extend([503] * 50)
    with pytest.raises(AsdfError, match=r"a\.bin could not be read, even at the 5th.*503") as error:
        read_object(address, 0, 10)
    assert "continues from what is saved" in str(error.value)
    assert len(server.requests) == 5


@pytest.mark.parametrize(("status", "words"), [(403, "Credentials"), (400, "Check the address")])
def test_a_refusal_is_not_tried_again(
    server: RangeServer, address: str, status: int, words: str
) -> None:
    server.failures.append(status)
    with pytest.raises(AsdfError, match=words):
        read_object(address, 0, 10)
    assert len(server.requests) == 1


def test_what_is_missing_is_missing_and_a_server_that_is_down_is_not(server: RangeServer) -> None:
    assert object_state(server.address("/no")) is None
    with pytest.raises(FileNotFoundError):
        read_object(server.address("/no"), 0, 5)
    server.failures.extend([503] * 50)
    with pytest.raises(AsdfError, match="could not be read"):
        object_state(server.address("/no"))


def test_the_state_changes_with_the_object(server: RangeServer, address: str) -> None:
    before = object_state(address)
    assert before is not None and before.size == len(CONTENT)
    assert object_state(address) == before
    server.objects["/a.bin"] = CONTENT[::-1]
    after = object_state(address)
    assert after is not None and after.size == before.size and after.version != before.version
    assert 0 <= after.version < 2**63


def test_an_object_that_ends_early_is_named(server: RangeServer, address: str) -> None:
    with pytest.raises(AsdfError, match=r"a\.bin ends before byte 20,010: it was likely replaced"):
        read_object(address, 20_000, 10)


def test_the_first_bytes_of_short_and_empty_objects(server: RangeServer, address: str) -> None:
    server.objects["/empty"] = b""
    assert read_start(address, 100) == CONTENT[:100]
    assert read_start(address, 10**6) == CONTENT
    assert read_start(server.address("/empty"), 10) == b""


def test_a_whole_object_is_one_request_and_no_more_than_its_kind_may_have(
    server: RangeServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_whole(address, len(CONTENT)) == CONTENT
    assert [each[0] for each in server.requests] == ["GET"]
    server.failures.extend(["short", 503])
    assert read_whole(address, len(CONTENT)) == CONTENT
    with pytest.raises(
        AsdfError, match=r"a\.bin has more than 10,239 bytes, too many for a file of its"
    ):
        read_whole(address, len(CONTENT) - 1)
    with pytest.raises(FileNotFoundError):
        read_whole(server.address("/no"), 10)
    monkeypatch.setattr(paths, "_MOST_BYTES", 100)
    with pytest.raises(AsdfError, match="more than 100 bytes"):
        as_path(address).read_text()
    # A server without lengths, as of pages that are made when they are requested.
    server.states_sizes = False
    with pytest.raises(AsdfError, match="more than 100 bytes"):
        as_path(address).open("rb")


def test_a_server_that_knows_no_ranges_is_refused(server: RangeServer, address: str) -> None:
    server.heeds_ranges = False
    with pytest.raises(AsdfError, match="sends the whole file when a part"):
        read_object(address, 0, 10)


def test_a_download_goes_on_where_it_ended(
    server: RangeServer, address: str, tmp_path: Path
) -> None:
    part = tmp_path / "part"
    part.write_bytes(CONTENT[:4000])
    download_object(address, part, len(CONTENT), 4000)
    assert part.read_bytes() == CONTENT
    assert [each[2] for each in server.requests] == ["bytes=4000-10239"]


def test_objects_are_listed_and_written_whole(store: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"xyz")
    for name in ("d/a", "d/b", "d/e/c"):
        upload_object(tmp_path / "x", f"{store}/{name}")
    assert sorted(list_objects(f"{store}/d")) == ["a", "b", "e"]
    assert list_objects(f"{store}/no") == []
    assert as_path(f"{store}/d/a").read_bytes() == b"xyz"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(UsageError, match=r"need the package gcsfs .*asdf-antispoofing\[gs\]"):
        object_state("gs://bucket/a.tar")

"""Connections before any token: how long they are held, how many, and what they cost others."""

import socket
import time
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from tests.conftest import PATIENCE_S
from tests.extras.service.conftest import LIMITS, as_file, begin_upload, running, wait_for
from tests.unit.conftest import sound

GOOD = as_file(sound(20000))
HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
# A client that the system stalls for less than this sends its request in time.
HEAD_S = 2.0


def connect(served) -> socket.socket:
    port = int(served.url.rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def read_to_end(client: socket.socket) -> bytes:
    """Read until the other side has closed."""
    received = b""
    try:
        while part := client.recv(4096):
            received += part
    except ConnectionError:
        pass
    return received


@pytest.fixture(scope="module")
def hurried(detector):
    """A service that waits for headers for two seconds."""
    with running(detector, replace(LIMITS, head_s=HEAD_S)) as service:
        yield service


def test_a_request_that_never_comes_is_closed_be_it_the_first_or_the_second(hurried):
    with ExitStack() as stack:
        clients = {}
        for before in (b"", HALF + b"\r\n"):
            for sent in (b"", b"\r\n", b"G", HALF, HALF + b"X-Header: " + b"x" * 500):
                client = stack.enter_context(closing(connect(hurried)))
                client.sendall(before)
                assert not before or client.recv(4096).startswith(b"HTTP/1.1 200 ")
                client.sendall(sent)
                clients[before, sent] = client
        received = {sent: read_to_end(client) for sent, client in clients.items()}
    assert received == dict.fromkeys(clients, b"")


def test_headers_that_trickle_in_are_no_request(hurried):
    with closing(connect(hurried)) as client:
        client.sendall(HALF)
        client.settimeout(0.02)
        until = time.monotonic() + PATIENCE_S
        received = None
        while received is None:
            assert time.monotonic() < until
            try:
                client.sendall(b"x-a: b\r\n")
                received = client.recv(100)
            except TimeoutError:
                continue
            except ConnectionError:
                received = b""
    # Closed, and not for a mistake in them.
    assert received == b""


def test_headers_have_a_size(hurried):
    with closing(connect(hurried)) as client:
        try:
            client.sendall(HALF + b"X-Header: " + b"x" * 200_000)
        except ConnectionError:
            return
        assert b" 200 " not in read_to_end(client)[:20]


def test_a_recording_may_take_longer_than_the_headers(hurried):
    with closing(begin_upload(hurried.url, GOOD)) as client:
        wait_for(lambda: hurried.service.in_memory == 1)
        time.sleep(1.5 * HEAD_S)
        client.sendall(GOOD[1000:])
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")


def test_what_is_no_request_is_no_line_of_the_log(hurried, caplog):
    with closing(connect(hurried)) as client:
        client.sendall(b"\x16\x03\x01 no HTTP\r\n\r\n")
        assert b" 200 " not in read_to_end(client)
    assert caplog.text == ""


def test_who_holds_connections_shuts_nobody_out_for_long(detector):
    limits = replace(LIMITS, connections=4, head_s=HEAD_S)
    with running(detector, limits) as served:
        held = [connect(served) for _ in range(8)]
        for client in held:
            client.sendall(HALF)
        # No more than four are accepted at a time; the others wait for theirs.
        assert served.ask("/health").status == 200
        assert served.score(GOOD).status == 200
        for client in held:
            assert read_to_end(client) == b""
            client.close()


def test_connections_at_work_are_not_closed_for_others(detector):
    limits = replace(LIMITS, connections=3, head_s=HEAD_S)
    with running(detector, limits) as served:
        with closing(begin_upload(served.url, GOOD)) as working:
            wait_for(lambda: served.service.in_memory == 1)
            held = [connect(served) for _ in range(4)]
            assert served.ask("/health").status == 200
            working.sendall(GOOD[1000:])
            assert working.recv(100).startswith(b"HTTP/1.1 200 ")
        for client in held:
            client.close()

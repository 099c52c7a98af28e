"""Connections before any token: how many, how long, and what they cost others."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest

from asdf.service.listener import listen
from tests.conftest import PATIENCE_S, ROOT
from tests.unit.conftest import sound
from tests.unit.service.conftest import LIMITS, TESTS, as_file, running, wait_for

GOOD = as_file(sound(20000))
HALF = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def connect(port: int | str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(port)), timeout=PATIENCE_S)


def port_of(served) -> int:
    return int(served.url.rpartition(":")[2])


def is_closed(client: socket.socket) -> bool:
    """Read until the other side has closed; whatever it sent before is dropped."""
    try:
        while client.recv(4096):
            pass
    except ConnectionError:
        pass
    return True


def hurry(served) -> None:
    """Let connections wait no longer; from here on, so that a busy machine loses no request."""
    served.server.doors.head_s = 0.2


def connections(served) -> list:
    return list(served.server.server_state.connections)


def test_answers_do_not_wait_for_acknowledgements(served):
    with closing(connect(port_of(served))) as client:
        client.sendall(HALF + b"\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        accepted = [each.transport.get_extra_info("socket") for each in connections(served)]
        assert accepted
        for connection in accepted:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_what_is_accepted_has_no_delay_by_itself():
    """Also where asyncio does not set it."""
    with closing(listen("127.0.0.1", 0)) as listener:
        client = connect(listener.getsockname()[1])
        accepted, _ = listener.accept()
        with closing(client), closing(accepted):
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


@pytest.mark.parametrize("sent", [b"", b"G", HALF, HALF + b"X-Header: " + b"x" * 500])
def test_a_request_that_never_comes_is_closed(detector, sent):
    with running(detector) as served:
        with closing(connect(port_of(served))) as client:
            client.sendall(sent)
            hurry(served)
            assert is_closed(client)
        wait_for(lambda: not connections(served))


@pytest.mark.parametrize("sent", [b"", b"\r\n", HALF])
def test_a_second_request_that_never_comes_is_closed_too(detector, sent):
    with (
        running(detector) as served,
        closing(connect(port_of(served))) as client,
    ):
        client.sendall(HALF + b"\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        client.sendall(sent)
        hurry(served)
        assert is_closed(client)


def test_what_is_no_request_is_no_line_of_the_log(served, caplog):
    for sent in (b"\x16\x03\x01 no HTTP\r\n\r\n", b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"):
        with closing(connect(port_of(served))) as client:
            client.sendall(sent)
            assert client.recv(100).startswith(b"HTTP/1.1 400 ")
    assert caplog.text == ""


def test_headers_that_trickle_in_are_no_request(detector):
    with (
        running(detector) as served,
        closing(connect(port_of(served))) as client,
    ):
        client.sendall(HALF)
        client.settimeout(0.02)
        hurry(served)
        received = None
        while received is None:
            try:
                client.sendall(b"x-a: b\r\n")
                received = client.recv(100)
            except TimeoutError:
                continue
            except ConnectionError:
                received = b""
    # Closed, and not for a mistake in them.
    assert received == b""


def test_a_recording_may_take_longer_than_the_headers(detector):
    with (
        running(detector) as served,
        closing(connect(port_of(served))) as client,
    ):
        client.sendall(
            b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: audio/wav\r\n"
            b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD[:1000]
        )
        wait_for(lambda: served.service.in_memory == 1)
        hurry(served)
        # Another, which came later, has been closed meanwhile.
        with closing(connect(port_of(served))) as other:
            assert is_closed(other)
        client.sendall(GOOD[1000:])
        assert client.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_does_not_read_its_answers_is_closed(detector):
    with (
        running(detector) as served,
        closing(connect(port_of(served))) as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(0.2)
        request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
        # Until neither side takes anything any more.
        with pytest.raises(OSError):
            while True:
                client.sendall(request)
        hurry(served)
        wait_for(lambda: not connections(served))


def test_who_holds_connections_shuts_nobody_out(detector):
    limits = replace(LIMITS, connections=12, client_connections=6, head_s=PATIENCE_S)
    with running(detector, limits) as served:
        held = [connect(port_of(served)) for _ in range(40)]
        for client in held:
            # The other side may have closed it already.
            try:
                client.sendall(HALF)
            except ConnectionError:
                continue
        wait_for(lambda: len(connections(served)) <= 7)
        assert served.ask("/health").status == 200
        assert served.score(GOOD).status == 200
        for client in held[:30]:
            assert is_closed(client)
        numbers = served.ask("/metrics").content.decode()
        assert 1 <= float(re.search(r"^asdf_connections (\S+)$", numbers, re.M)[1]) <= 7
        for client in held:
            client.close()


def test_connections_at_work_are_not_closed_for_others(detector):
    limits = replace(LIMITS, connections=4, client_connections=2)
    with running(detector, limits) as served:
        head = (
            b"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: audio/wav\r\n"
            b"Content-Length: %d\r\n\r\n" % len(GOOD)
        )
        working = [connect(port_of(served)) for _ in range(2)]
        for client in working:
            client.sendall(head + GOOD[:1000])
        wait_for(lambda: served.service.in_memory == 2)
        with closing(connect(port_of(served))) as third:
            answer = third.recv(4096)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"too many connections are open" in answer
        for client in working:
            client.sendall(GOOD[1000:])
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
            client.close()


def test_a_trusted_proxy_has_the_connections_of_many_clients(detector):
    limits = replace(LIMITS, connections=40, client_connections=2, head_s=PATIENCE_S)
    with running(detector, limits, proxies=["127.0.0.0/8"]) as served:
        held = [connect(port_of(served)) for _ in range(20)]
        wait_for(lambda: len(connections(served)) >= 20)
        for client in held:
            client.close()


def test_where_no_descriptor_is_left_it_is_closed_and_logged_once(monkeypatch, caplog):
    with closing(listen("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        listener.setblocking(False)
        real = socket.socket._accept

        def accept(self):
            # As in a process that has all the files that it may have, but one.
            if listener._spare is not None:
                raise OSError(errno.EMFILE, "Too many open files")
            return real(self)

        monkeypatch.setattr(socket.socket, "_accept", accept)
        for _ in range(5):
            with closing(connect(port)) as client:
                with pytest.raises(BlockingIOError):
                    listener.accept()
                assert is_closed(client)
        assert caplog.text.count("a connection could not be accepted") == 1
        monkeypatch.undo()
        with closing(connect(port)):
            accepted, _ = listener.accept()
            accepted.close()


@pytest.mark.slow
def test_idle_connections_stop_no_service_that_may_open_few_files(network):
    """A process with 128 descriptors, and 200 connections that send half a request."""
    command = [sys.executable, "-m", "asdf", "serve", str(network), "--port", "0", "--threads", "1"]
    command += ["--network-folder", str(TESTS), "--device", "cpu", "--host-name", "a.example"]
    process = subprocess.Popen(
        ["bash", "-c", 'ulimit -n 128; exec "$@"', "bash", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    held = []
    try:
        lines = [process.stdout.readline()]
        while "Ctrl-C ends it" not in lines[-1]:
            assert lines[-1], lines
            lines.append(process.stdout.readline())
        port = re.search(r"http://127\.0\.0\.1:(\d+)", lines[-1])[1]
        assert any("this process may open 128 files" in line for line in lines)
        for _ in range(200):
            client = connect(port)
            held.append(client)
            try:
                client.sendall(HALF)
            except ConnectionError:
                continue
        # The option for other names leads to where they are checked.
        for name, allowed in ((b"localhost", True), (b"a.example", True), (b"b.example", False)):
            with closing(connect(port)) as client:
                client.sendall(b"GET /version HTTP/1.1\r\nHost: " + name + b"\r\n\r\n")
                assert client.recv(12) == (b"HTTP/1.1 200" if allowed else b"HTTP/1.1 421")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        for client in held:
            client.close()
        process.kill()
        process.communicate()
    assert len(output) < 2000
    assert "Traceback" not in output

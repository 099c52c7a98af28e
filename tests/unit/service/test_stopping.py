"""The command as a process: SIGTERM finishes what there is, refuses the rest, and ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from tests.conftest import PATIENCE_S, ROOT
from tests.unit.conftest import sound
from tests.unit.service.conftest import TESTS, as_file, wait_for

GOOD = as_file(sound(20000))


@pytest.fixture
def process(network, request):
    """The command, serving at any free port: the process and the port."""
    stop_s = getattr(request, "param", PATIENCE_S)
    command = [sys.executable, "-m", "asdf", "serve", str(network), "--port", "0", "--threads", "1"]
    command += ["--network-folder", str(TESTS), "--stop-s", str(stop_s), "--device", "cpu"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    line = process.stdout.readline()
    port = re.search(r"at http://127\.0\.0\.1:(\d+) \(Ctrl-C ends it\)", line)
    assert port, line
    yield process, int(port[1])
    process.kill()
    process.communicate()


def connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)


def health(port: int) -> int:
    with closing(connect(port)) as connection:
        connection.request("GET", "/health")
        return connection.getresponse().status


@pytest.mark.slow
def test_sigterm_finishes_what_there_is_and_refuses_the_rest(process):
    service, port = process
    wait_for(lambda: health(port) == 200)
    with closing(begin_upload(port)) as slow, closing(connect(port)) as late:
        service.send_signal(signal.SIGTERM)
        wait_for(lambda: health(port) == 503)
        late.request("POST", "/score", GOOD, {"Content-Type": "audio/wav"})
        refused = late.getresponse()
        assert refused.status == 503
        assert "stopping" in json.loads(refused.read())["error"]
        slow.send(GOOD[1000:])
        answer = slow.getresponse()
        assert answer.status == 200
        assert json.loads(answer.read())["recordings"][0]["seconds"] == 1.25
    output, _ = service.communicate(timeout=PATIENCE_S)
    assert service.returncode == 0
    assert "stopping: 0 recordings remain" in output
    assert "Traceback" not in output


@pytest.mark.slow
@pytest.mark.parametrize("process", [0.5], indirect=True)
def test_a_recording_that_never_comes_does_not_keep_it(process):
    service, port = process
    wait_for(lambda: health(port) == 200)
    with closing(begin_upload(port)):
        service.send_signal(signal.SIGTERM)
        output, _ = service.communicate(timeout=PATIENCE_S)
    assert service.returncode == 0
    assert "stopping: 1 recordings remain" in output


@pytest.mark.slow
def test_a_second_interrupt_does_not_wait(process):
    service, port = process
    wait_for(lambda: health(port) == 200)
    with closing(begin_upload(port)):
        service.send_signal(signal.SIGINT)
        wait_for(lambda: health(port) == 503)
        service.send_signal(signal.SIGINT)
        service.communicate(timeout=PATIENCE_S)
    assert service.returncode == 0


def begin_upload(port: int) -> http.client.HTTPConnection:
    """Send the beginning of a recording, and wait until it has arrived."""
    client = connect(port)
    client.putrequest("POST", "/score")
    client.putheader("Content-Type", "audio/wav")
    client.putheader("Content-Length", str(len(GOOD)))
    client.endheaders(GOOD[:1000])
    wait_for(lambda: b"asdf_recordings_in_memory 1.0" in metrics(port))
    return client


def metrics(port: int) -> bytes:
    with closing(connect(port)) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read()

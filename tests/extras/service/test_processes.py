"""The command as processes: what they share, and how they end."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S, ROOT
from tests.extras.service.conftest import TESTS, as_file, wait_for
from tests.unit.conftest import sound

pytestmark = pytest.mark.slow
GOOD = as_file(sound(20000))


@pytest.fixture
def process(network, request):
    """The command, serving at any free port: the process and the port."""
    command = [sys.executable, "-m", "asdf", "serve", str(network), "--port", "0", "--threads", "1"]
    command += ["--network-folder", str(TESTS), "--device", "cpu"]
    outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command += getattr(request, "param", ())
    process = subprocess.Popen(command, cwd=ROOT, env=environment, **outputs)
    line = process.stdout.readline()
    matched = re.search(r"at http://127\.0\.0\.1:(\d+) \(Ctrl-C ends it\)", line)
    assert matched, line
    port = int(matched[1])
    wait_for(lambda: status_of(port) == 200)
    yield process, port
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


def connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)


def status_of(port: int, path: str = "/ready") -> int:
    """The status of a path; 0 where nobody answers."""
    with closing(connect(port)) as connection:
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return 0


def score(port: int) -> dict:
    address = f"http://127.0.0.1:{port}/score"
    request = urllib.request.Request(address, GOOD, {"Content-Type": "audio/wav"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)


def metrics(port: int) -> dict[str, float]:
    text = ""

    def are_whole() -> bool:
        nonlocal text
        with closing(connect(port)) as connection:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read().decode()
        return answer.status == 200

    # A process that just begins has files which are not whole yet.
    wait_for(are_whole)
    pairs = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}


def begin_upload(port: int) -> http.client.HTTPConnection:
    """Send the beginning of a recording, and wait until it has arrived."""
    client = connect(port)
    client.putrequest("POST", "/score")
    client.putheader("Content-Type", "audio/wav")
    client.putheader("Content-Length", str(len(GOOD)))
    client.endheaders(GOOD[:1000])
    wait_for(lambda: metrics(port)["asdf_recordings_in_memory"] == 1)
    return client


def test_sigterm_finishes_what_there_is_and_takes_nothing_more(process):
    service, port = process
    with closing(begin_upload(port)) as slow:
        service.send_signal(signal.SIGTERM)
        wait_for(lambda: status_of(port) == 0)
        slow.send(GOOD[1000:])
        answer = slow.getresponse()
        assert answer.status == 200
        assert json.loads(answer.read())["recordings"][0]["seconds"] == 1.25
    output, _ = service.communicate(timeout=PATIENCE_S)
    assert service.returncode == 0
    assert "Traceback" not in output


def test_a_port_is_not_shared_with_another_service(process, network):
    _, port = process
    words = [sys.executable, "-m", "asdf", "serve", str(network), "--port", str(port)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 2
    assert "Another program uses it" in done.stderr


def children(pid: int) -> list[int]:
    """The processes that one started, but for those of multiprocessing itself."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


@pytest.mark.parametrize("process", [["--workers", "2"]], indirect=True)
def test_processes_count_together_and_are_replaced(process):
    service, port = process
    wait_for(lambda: metrics(port)["asdf_ready"] == 2)
    for _ in range(6):
        assert score(port)["recordings"][0]["seconds"] == 1.25
    numbers = metrics(port)
    assert numbers["asdf_recordings_total"] == 6
    assert numbers['asdf_requests_total{path="/score",status="200"}'] == 6
    assert numbers["asdf_recordings_in_memory"] == 0
    workers = children(service.pid)
    os.kill(workers[0], signal.SIGKILL)
    wait_for(lambda: len(set(children(service.pid)) - set(workers)) == 1)
    # What the dead one counted stays; it is not ready any more.
    wait_for(lambda: metrics(port)["asdf_ready"] == 2)
    assert metrics(port)["asdf_recordings_total"] == 6
    assert score(port)


def test_the_port_is_free_after_the_end(process):
    service, port = process
    service.terminate()
    service.communicate(timeout=PATIENCE_S)
    assert service.returncode == 0
    with socket.create_server(("127.0.0.1", port)):
        pass

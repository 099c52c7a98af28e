"""A service with a tiny network, on a real socket, and clients for it."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import soundfile

import asdf
from asdf.extras.service import ServiceLimits
from asdf.extras.service.access import Names, Token
from asdf.extras.service.server import connection_options
from tests.conftest import PATIENCE_S
from tests.unit.conftest import small_settings, write_small_network

if TYPE_CHECKING:
    from asdf.extras.service.service import Service

TESTS = Path(__file__).resolve().parents[2]
LIMITS = ServiceLimits(queue=64, max_mb=2, max_seconds=60, connections=1000)


@dataclass
class Answer:
    """What a service answered."""

    status: int
    content: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Running:
    """A service that runs."""

    url: str
    service: Service
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, path: str, body: Any = None, **headers: str) -> Answer:
        """GET a path, or POST a body to it."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            named.setdefault("Content-Type", "application/octet-stream")
        request = urllib.request.Request(self.url + path, body, {**self.headers, **named})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return Answer(answer.status, answer.read(), dict(answer.headers))
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read(), dict(error.headers))

    def score(self, content: bytes, query: str = "", **headers: str) -> Answer:
        return self.ask(f"/score{query}", content, **headers)

    def wait_until_ready(self) -> None:
        wait_for(self._is_ready)

    def _is_ready(self) -> bool:
        try:
            return self.ask("/health").status == 200
        except OSError:
            return False


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, "it does not come"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def network(tmp_path_factory) -> Path:
    """A network file of `Plain` that scores from a quarter of a second to a second."""
    settings = small_settings(
        network_class="small_networks.Plain", max_evaluation_utterance_length_in_samples=16000
    )
    folder = tmp_path_factory.mktemp("service")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TESTS))
        return write_small_network(folder / "plain.pt", settings)


@pytest.fixture(scope="session")
def detector(network) -> asdf.Detector:
    return asdf.Detector(network, "cpu", network_folder=TESTS, threads=1)


@contextmanager
def running(
    detector: asdf.Detector,
    limits: ServiceLimits = LIMITS,
    token: str = "",
    names: Sequence[str] = (),
) -> Iterator[Running]:
    """Run a service in a thread of this process, on any free port of this machine."""
    # What describes its answers takes a second to import, and not every process of tests serves.
    from granian.server.embed import Server

    from asdf.extras.service.app import make_app
    from asdf.extras.service.service import Service

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    service = Service(detector, "plain.pt", limits)
    app = make_app(service, Token(token) if token else None, Names("127.0.0.1", names))
    loop = asyncio.new_event_loop()
    servers: list[Server] = []

    async def run() -> None:
        options = connection_options(limits)
        servers.append(Server(app, "127.0.0.1", port, log_enabled=False, **options))
        await servers[0].serve()

    def run_loop() -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(run())

    thread = threading.Thread(target=run_loop, daemon=True)
    thread.start()
    served = Running(f"http://127.0.0.1:{port}", service)
    try:
        served.wait_until_ready()
        yield served
    finally:
        loop.call_soon_threadsafe(servers[0].stop)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def served(detector) -> Iterator[Running]:
    with running(detector) as service:
        yield service


def as_file(
    waveform: np.ndarray, rate: int = 16000, kind: str = "wav", subtype: str | None = None
) -> bytes:
    """The content of a sound file."""
    content = io.BytesIO()
    soundfile.write(content, waveform, rate, format=kind, subtype=subtype)
    return content.getvalue()


def as_form(content: bytes, name: str, **others: bytes) -> tuple[bytes, str]:
    """A form with a file, and with others in the fields of their names; and its type."""
    names = {"file": name, **{other: f"{other}.bin" for other in others}}
    body = b""
    for key, part in {"file": content, **others}.items():
        described = f'form-data; name="{key}"; filename="{names[key]}"'
        body += f"--x\r\nContent-Disposition: {described}\r\n\r\n".encode() + part + b"\r\n"
    return body + b"--x--\r\n", "multipart/form-data; boundary=x"


def begin_upload(url: str, content: bytes, sent: int = 1000) -> socket.socket:
    """Begin to send a recording, and do not go on."""
    host, port = url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
    lines = ["POST /score HTTP/1.1", "Host: localhost", "Content-Type: audio/wav"]
    head = "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""])
    client.sendall(head.encode() + content[:sent])
    return client

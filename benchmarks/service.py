"""A service: requests per second of clients that come together, against one request at a time.

Both ask the same process, in turns, over real connections to this machine: 16 clients, each of
which sends its next recording when it has its answer, share forward passes; and one client alone.
The recordings are FLACs of 3 s, so that pieces have one length; the network is small, with layer
norms as XLS-R's, and computes with one thread on a CPU. No answer waits for the network protocol:
the sockets send at once (TCP_NODELAY). Requests per second gain by sharing passes, and by decoding
while the network computes, on another core; CPU time per recording gains by sharing alone, and does
not depend on what else the machine does.
"""

from __future__ import annotations

import http.client
import io
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from benchmarks.corpus import RATE, speechlike
from benchmarks.harness import ROOT
from benchmarks.nets import SMALL_XLSR, make_network, make_settings
from benchmarks.rows import Row, compared

CLIENTS = 16
SECONDS = 3
ALONE = "one request at a time"
_START_S = 120


def rows(quick: bool) -> Iterator[Row]:
    """Yield requests per second."""
    rounds, requests = (1, 16) if quick else (5, 96)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rng = np.random.default_rng(0)
    recordings = [as_flac(speechlike(SECONDS * RATE, rng)) for _ in range(8)]
    together: list[Speed] = []
    alone: list[Speed] = []
    with tempfile.TemporaryDirectory(prefix="asdf-bench-") as folder:
        network = Path(folder) / "network.pt"
        write_network(network)
        with serving(network, device) as port:
            for clients in (CLIENTS, 1):
                speed_of(port, recordings, clients, CLIENTS)
            for _ in range(rounds):
                together.append(speed_of(port, recordings, CLIENTS, requests))
                alone.append(speed_of(port, recordings, 1, max(8, requests // 4)))
            pieces = pieces_per_pass(port)
    alone_ms = 1000 / statistics.median(speed.rate for speed in alone)
    note = (
        f"{CLIENTS} clients together; a forward pass holds {pieces:.1f} recordings on average, "
        f"those alone included; median {alone_ms:.0f} ms for one alone"
    )
    what = f"small XLS-R-like + AASIST, {SECONDS} s each, {device}"
    rates = [[speed.rate for speed in side] for side in (together, alone)]
    yield compared(what, "req/s", rates[0], ALONE, rates[1], more=True, note=note)
    costs = [[speed.cpu_ms for speed in side] for side in (together, alone)]
    yield compared(f"{what}: CPU time of the service", "ms", costs[0], ALONE, costs[1])


def write_network(path: Path) -> None:
    """Write a network file with random weights."""
    settings = make_settings(SMALL_XLSR.to_text(), minibatch=14)
    settings.network.min_evaluation_utterance_length_in_samples = 400
    network = make_network(settings).eval()
    write_network_file(path, NetworkFile.from_network(network, settings))


@contextmanager
def serving(network: Path, device: str) -> Iterator[int]:
    """Run the service as a process; yield its port."""
    command = [sys.executable, "-m", "asdf", "serve", str(network), "--port", "0"]
    command += ["--threads", "1", "--device", device]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.search(r":(\d+) \(Ctrl-C", line)
        if match is None:
            raise RuntimeError(f"the service did not start: {line}{process.stderr.read()}")
        port = int(match[1])
        wait_until_ready(port)
        yield port
    finally:
        process.terminate()
        process.wait()


@dataclass(frozen=True)
class Speed:
    """Requests per second, and the service's CPU time per request."""

    rate: float
    cpu_ms: float


def speed_of(port: int, recordings: list[bytes], clients: int, requests: int) -> Speed:
    """Send the given number of requests from concurrent clients."""

    def ask(first: int) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=600)) as connection:
            for number in range(first, requests, clients):
                connection.request(
                    "POST",
                    "/score",
                    recordings[number % len(recordings)],
                    {"Content-Type": "audio/flac"},
                )
                answer = connection.getresponse()
                content = answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"{answer.status}: {json.loads(content)}")

    cpu_s = _cpu_seconds(port)
    start = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(ask, range(clients)))
    rate = requests / (time.perf_counter() - start)
    return Speed(rate, 1000 * (_cpu_seconds(port) - cpu_s) / requests)


def pieces_per_pass(port: int) -> float:
    """Return the mean number of pieces in a forward pass so far."""
    numbers = dict(re.findall(r"^(asdf_pass_pieces_\w+) (\S+)$", _get(port, "/metrics"), re.M))
    return float(numbers["asdf_pass_pieces_sum"]) / float(numbers["asdf_pass_pieces_count"])


def _cpu_seconds(port: int) -> float:
    found = re.search(r"^process_cpu_seconds_total (\S+)$", _get(port, "/metrics"), re.M)
    assert found is not None
    return float(found[1])


def wait_until_ready(port: int) -> None:
    until = time.monotonic() + _START_S
    while '"ready":true' not in _get(port, "/health"):
        if time.monotonic() > until:
            raise RuntimeError("the service does not get ready")
        time.sleep(0.05)


def _get(port: int, path: str) -> str:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def as_flac(waveform: np.ndarray) -> bytes:
    content = io.BytesIO()
    soundfile.write(content, waveform, RATE, format="FLAC", subtype="PCM_16")
    return content.getvalue()

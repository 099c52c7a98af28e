"""A service under load: clients that come together, beside FastAPI with ONNX Runtime.

Both are processes on this machine that score the same FLACs of 3 s by the same network, with one
thread; the peer is what one would write in an afternoon: FastAPI, soundfile, and the exported
graph, without limits, checks, windows or a page. 1, 4, 16, 64 and 256 clients keep their
connections, and send the next recording when they have an answer; a client that is refused comes
again when the answer says so. Cells are measured in turns. Throughput is that of answered
recordings; its tail is the 99th percentile of their times.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.corpus import RATE, speechlike
from benchmarks.harness import ROOT
from benchmarks.rows import Row, compared, unmeasured
from benchmarks.service import SECONDS, as_flac, wait_until_ready, write_network

CLIENTS = (1, 4, 16, 64, 256)
PEER = "FastAPI with ONNX Runtime"
_START_S = 120
_PEER = """
import io, sys, threading
import numpy as np, onnxruntime, soundfile, uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession(sys.argv[1], options)
lock = threading.Lock()
app = FastAPI()

def compute(content):
    samples, _ = soundfile.read(io.BytesIO(content), dtype="float32")
    with lock:
        _, logits = session.run(None, {"waveforms": samples[None]})
    return float(logits[0, 1])

@app.post("/score")
async def score(request: Request):
    return {"score": await run_in_threadpool(compute, await request.body())}

@app.get("/health")
async def health():
    return {"ready": True}

uvicorn.run(app, port=int(sys.argv[2]), log_level="error", http="h11")
"""


@dataclass
class Load:
    """The results of the clients.

    Attributes:
        seconds: Duration, in seconds.
        times_ms: Times of the answers with a score, in milliseconds.
        refused_ms: Times of the refusals, in milliseconds.
    """

    seconds: float = 0.0
    times_ms: list[float] = field(default_factory=list)
    refused_ms: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Scores per second."""
        return len(self.times_ms) / self.seconds

    def describe(self) -> str:
        """Return the median and the tail in words."""
        words = "none answered"
        if self.times_ms:
            middle, tail = np.percentile(self.times_ms, [50, 99])
            words = f"p50 {middle:.0f}, p99 {tail:.0f} ms"
        if self.refused_ms:
            middle, tail = np.percentile(self.refused_ms, [50, 99])
            rate = len(self.refused_ms) / self.seconds
            words += f", {rate:.0f}/s refused in {middle:.0f} (p99 {tail:.0f}) ms"
        return words


def rows(quick: bool) -> Iterator[Row]:
    """Yield recordings per second for each number of clients."""
    rounds, seconds = (1, 1.0) if quick else (2, 3.0)
    rng = np.random.default_rng(0)
    recordings = [as_flac(speechlike(SECONDS * RATE, rng)) for _ in range(8)]
    with tempfile.TemporaryDirectory(prefix="asdf-bench-") as folder, ExitStack() as stack:
        network = Path(folder) / "network.pt"
        graph = Path(folder) / "network.onnx"
        write_network(network)
        exported = _run("asdf", "export", str(network), "--format", "onnx", str(graph))
        if exported.returncode:
            why = exported.stderr.strip().splitlines()[-1]
            yield unmeasured("recordings/s", "1/s", PEER, why)
            return
        ports = {
            "one process": stack.enter_context(serving(network)),
            "two workers": stack.enter_context(serving(network, "--workers", "2")),
            PEER: stack.enter_context(peer(graph)),
        }
        loads: dict[tuple[str, int], list[Load]] = {}
        for clients in CLIENTS:
            for _ in range(rounds):
                for name, port in ports.items():
                    load = asyncio.run(put_load(port, recordings, clients, seconds))
                    loads.setdefault((name, clients), []).append(load)
    for clients in CLIENTS:
        theirs = loads[PEER, clients]
        for name in ("one process", "two workers"):
            ours = loads[name, clients]
            note = f"{joined(ours).describe()}; {PEER}: {joined(theirs).describe()}"
            rates = [[load.rate for load in side] for side in (ours, theirs)]
            what = f"{name}, {clients} clients"
            yield compared(what, "req/s", rates[0], PEER, rates[1], more=True, note=note)


def joined(loads: list[Load]) -> Load:
    """Join rounds."""
    whole = Load()
    for load in loads:
        whole.seconds += load.seconds
        whole.times_ms += load.times_ms
        whole.refused_ms += load.refused_ms
    return whole


async def put_load(port: int, recordings: list[bytes], clients: int, seconds: float) -> Load:
    """Send requests from concurrent clients for the given time."""
    load = Load()
    start = time.perf_counter()
    until = start + seconds
    asking = [_ask(port, recordings, number, until, load) for number in range(clients)]
    await asyncio.gather(*asking)
    load.seconds = time.perf_counter() - start
    return load


async def _ask(port: int, recordings: list[bytes], number: int, until: float, load: Load) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until:
        content = recordings[number % len(recordings)]
        number += 1
        start = time.perf_counter()
        head = (
            f"POST /score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: audio/flac\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        writer.write(head.encode() + content)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", answer)
        await reader.readexactly(int(length[1]) if length else 0)
        passed_ms = 1000 * (time.perf_counter() - start)
        if answer.split(b" ", 2)[1] == b"200":
            load.times_ms.append(passed_ms)
        else:
            load.refused_ms.append(passed_ms)
            again_s = re.search(rb"(?i)retry-after: (\d+)", answer)
            await asyncio.sleep(int(again_s[1]) if again_s else 0)
        if b"connection: close" in answer.lower():
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


@contextmanager
def serving(network: Path, *options: str) -> Iterator[int]:
    """Run the service with room for all clients; yield its port."""
    command = [sys.executable, "-m", "asdf", "serve", str(network), "--port", "0", "--rate", "0"]
    command += ["--threads", "1", "--device", "cpu", "--connections", "1024"]
    command += ["--client-connections", "512", *options]
    with _running(command) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        match = re.search(r":(\d+) \(Ctrl-C", line)
        if match is None:
            raise RuntimeError(f"the service did not start: {line}")
        wait_until_ready(int(match[1]))
        # Lines of its log would fill the pipe, and block it.
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=subprocess.DEVNULL)
        try:
            yield int(match[1])
        finally:
            drain.kill()
            drain.wait()


@contextmanager
def peer(graph: Path) -> Iterator[int]:
    """Run the peer; yield its port."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with _running([sys.executable, "-c", _PEER, str(graph), str(port)]):
        until = time.monotonic() + _START_S
        while True:
            try:
                wait_until_ready(port)
                break
            except ConnectionError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)
        yield port


@contextmanager
def _running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True)

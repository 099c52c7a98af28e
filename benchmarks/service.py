"""The service of the shipped detector under load, beside FastAPI with ONNX Runtime.

Both compute the same graph with one thread per process, behind the same server (granian), in one
and two workers. The peer (`benchmarks.service_peer`) is what one would write in an afternoon:
soundfile decodes, scipy resamples where needed, ONNX Runtime scores a recording at a time. ASDF
does besides: limits and refusals, a search for sound that a header hides, a check for speech, level
and offset, a likelihood ratio with its support and its likeness to the calibration set, the digest
of the file, the document of `score --json`, headers for browsers, a line of the log, and counts for
Prometheus.

1 to 64 clients keep their connections, and send the next FLAC of 3 s when they have an answer; one
in four is at 44.1 kHz. A client that is refused (503) comes again when the answer says so, and only
scores count as answers. CPU time is that of all processes of a side over its answers: unlike
answers per second, it depends little on what else the machine does. Memory is what the largest
process of a side shares with no other (USS), after all of its answers.
"""

from __future__ import annotations

import asyncio
import io
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np
import soundfile

from benchmarks.corpus import RATE, speechlike
from benchmarks.harness import ROOT, has
from benchmarks.resident import cpu_seconds, processes_of, unshared
from benchmarks.rows import Row, compared, limited, unmeasured

PEER = "FastAPI with ONNX Runtime"
SECONDS = 3
MAX_MB = 250
_START_S = 120
_OURS = ["asdf", "serve", "--threads", "1", "--device", "cpu"]
_PEERS = ["granian", "benchmarks.service_peer:app", "--interface", "asgi", "--no-log"]


def rows(quick: bool) -> Iterator[Row]:
    """Yield answers per second, CPU time of an answer, and memory of a process."""
    if not has("granian", "onnxruntime", "scipy") or not sys.platform.startswith("linux"):
        why = "it takes Linux, and the packages granian, onnxruntime and scipy"
        yield unmeasured("service", "1/s", PEER, why)
        return
    rounds, seconds = (1, 0.5) if quick else (5, 3.0)
    numbers = (1, 16) if quick else (1, 4, 16, 64)
    rng = np.random.default_rng(0)
    recordings = [as_flac(rng, RATE if index % 4 else 44100) for index in range(8)]
    for workers in (1, 2):
        with ExitStack() as stack:
            sides = [stack.enter_context(serving(module, workers)) for module in (_OURS, _PEERS)]
            loads: dict[tuple[int, int], list[Load]] = {}
            # The first is to warm up.
            for turn in range(1 + rounds):
                for number in numbers:
                    for index, side in enumerate(sides):
                        load = asyncio.run(side.put_load(recordings, number, seconds))
                        if turn:
                            loads.setdefault((number, index), []).append(load)
            memory = [[side.megabytes()] for side in sides]
        for number in numbers:
            what = f"{workers} worker{'s' * (workers > 1)}, {number} client{'s' * (number > 1)}"
            ours, theirs = loads[number, 0], loads[number, 1]
            refused = sum(load.refused for load in ours)
            note = f"{refused} requests were refused" if refused else ""
            rates = [[load.answers / load.seconds for load in each] for each in (ours, theirs)]
            yield compared(what, "1/s", rates[0], PEER, rates[1], more=True, target=1, note=note)
            costs = [[1e3 * load.cpu_s / load.answers for load in each] for each in (ours, theirs)]
            yield compared(f"{what}, CPU", "ms", costs[0], PEER, costs[1], target=1)
        what = f"{workers} worker{'s' * (workers > 1)}, memory of one"
        yield limited(what, "MB", memory[0], MAX_MB)
        yield compared(what, "MB", memory[0], PEER, memory[1])


def as_flac(rng: np.random.Generator, rate: int) -> bytes:
    """Return the content of a recording."""
    content = io.BytesIO()
    samples = speechlike(SECONDS * rate, rng)
    soundfile.write(content, samples, rate, format="FLAC", subtype="PCM_16")
    return content.getvalue()


@dataclass
class Load:
    """What clients got in some seconds, and the CPU seconds that it took."""

    answers: int = 0
    refused: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Side:
    """A running service: its first process, and its port."""

    process: int
    port: int

    def cpu_s(self) -> float:
        return sum(map(cpu_seconds, processes_of(self.process)))

    def megabytes(self) -> float:
        """Return the unshared memory of the largest process."""
        return max(map(unshared, processes_of(self.process))) / 1e6

    async def put_load(self, recordings: list[bytes], clients: int, seconds: float) -> Load:
        """Ask by so many clients for so long."""
        load = Load()
        start, cpu_s = time.perf_counter(), self.cpu_s()
        asking = [self._ask(recordings, each, start + seconds, load) for each in range(clients)]
        await asyncio.gather(*asking)
        load.seconds, load.cpu_s = time.perf_counter() - start, self.cpu_s() - cpu_s
        return load

    async def _ask(self, recordings: list[bytes], number: int, until: float, load: Load) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while time.perf_counter() < until:
            content = recordings[number % len(recordings)]
            number += 1
            head = "POST /score HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: audio/flac\r\n"
            writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", answer)
            assert length is not None
            body = await reader.readexactly(int(length[1]))
            if answer.split(b" ", 2)[1] == b"200":
                load.answers += 1
                continue
            load.refused += 1
            again_s = re.search(rb"(?i)retry-after: (\d+)", answer)
            if again_s is None:
                raise RuntimeError(f"the service answers {body.decode()}")
            await asyncio.sleep(int(again_s[1]))
        writer.close()


@contextmanager
def serving(module: list[str], workers: int) -> Iterator[Side]:
    """Run a service of so many workers, until its first answer and in the block."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", *module, "--port", str(port), "--workers", str(workers)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet)
    until = time.monotonic() + _START_S
    try:
        # A process that listens has its network.
        while len(processes_of(process.pid)) <= workers or not _listens(port):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{' '.join(command)} does not start")
            time.sleep(0.1)
        yield Side(process.pid, port)
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0

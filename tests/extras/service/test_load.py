"""200 uploads at once, broken, empty, huge and abandoned ones among them: each gets its answer."""

import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import PATIENCE_S
from tests.extras.service.conftest import LIMITS, as_file, begin_upload, running, wait_for
from tests.unit.conftest import sound

CLIENTS = 200
MB = 2**20


def forget_peak() -> None:
    """Let the peak of this process's memory begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Return the most memory that this process had since the last `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])


def make_uploads() -> list[tuple[bytes, int]]:
    """Return what clients send, in an order of all kinds, with the status that is due."""
    # Read whole, or decoded, these would take 400 MB and 1.5 GB.
    huge = bytes(20 * int(LIMITS.max_mb * 1e6))
    long = as_file(np.zeros(20 * 60 * 16000), kind="flac")
    uploads = []
    for number in range(CLIENTS):
        kind = number % 10
        if kind == 0:
            uploads.append((b"", 422))
        elif kind == 1:
            uploads.append((os.urandom(3000), 422))
        elif kind == 2:
            uploads.append((as_file(sound(8000, number))[:9000], 422))
        elif kind == 3 and number % 20 == 3:
            uploads.append((huge, 413))
        elif kind == 4:
            uploads.append((long, 422))
        else:
            uploads.append((as_file(sound(4000 + 1000 * (number % 30), number)), 200))
    return uploads


def abandon(url: str) -> None:
    """Send a part of a recording, and go."""
    begin_upload(url, bytes(40_000)).close()


@pytest.mark.slow
def test_200_uploads_at_once(detector):
    limits = replace(LIMITS, queue=CLIENTS + 20)
    uploads = make_uploads()
    with running(detector, limits) as served:
        expected = {}
        for index, (content, status) in enumerate(uploads):
            if status == 200:
                expected[index] = detector.score_whole(content).score
        served.score(uploads[5][0])
        forget_peak()
        before = peak_bytes()
        together = threading.Barrier(CLIENTS + 10)

        def upload(index: int) -> tuple[int, float | None]:
            together.wait(PATIENCE_S)
            if index >= CLIENTS:
                abandon(served.url)
                return 0, None
            answer = served.score(uploads[index][0])
            score = answer.json["recordings"][0]["score"] if answer.status == 200 else None
            return answer.status, score

        with ThreadPoolExecutor(CLIENTS + 10) as clients:
            answers = list(clients.map(upload, range(CLIENTS + 10)))[:CLIENTS]
        grown = peak_bytes() - before
        wait_for(lambda: served.service.in_memory == 0)
        assert served.ask("/health").status == 200
        numbers = served.ask("/metrics").content.decode()
    assert [status for status, _ in answers] == [status for _, status in uploads]
    for index, score in expected.items():
        assert answers[index][1] == pytest.approx(score, abs=1e-6)
    # Both sides of all connections are in this process, with the huge files that clients hold.
    assert grown < 300 * MB
    assert f"asdf_recordings_total {len(expected) + 1}.0" in numbers


def test_a_queue_that_is_full_refuses_and_loses_nothing(detector):
    content = as_file(sound(30000))
    expected = detector.score_whole(sound(30000).astype(np.float32), 16000)
    with running(detector, replace(LIMITS, queue=4)) as served:
        together = threading.Barrier(60)

        def upload(_: int) -> tuple[int, bytes]:
            together.wait(PATIENCE_S)
            answer = served.score(content)
            if answer.status == 503:
                assert answer.headers["retry-after"] == "1"
            return answer.status, answer.content

        with ThreadPoolExecutor(60) as clients:
            statuses = [status for status, _ in clients.map(upload, range(60))]
        assert set(statuses) <= {200, 503}
        assert statuses.count(200) >= 4
        wait_for(lambda: served.service.in_memory == 0)
        score = served.score(content).json["recordings"][0]["score"]
    assert score == pytest.approx(expected.score, abs=1e-4)

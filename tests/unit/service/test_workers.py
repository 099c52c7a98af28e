"""Several processes at one address: limits, numbers, deaths and new networks are those of one."""

from __future__ import annotations

import asyncio
import hashlib
import http.client
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import asdf
from asdf.checkpoint.network_file import write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.errors import AsdfError, UsageError
from asdf.runs.log import LOG
from asdf.service import workers
from asdf.service.board import Board, Seat
from asdf.service.counts import Counts, sum_over_workers
from asdf.service.reloading import reload_network
from asdf.service.shared_passes import SharedPasses
from asdf.service.workers import Work, Workers
from tests.conftest import PATIENCE_S, ROOT
from tests.unit.conftest import sound
from tests.unit.service.conftest import LIMITS, TESTS, as_file, running, wait_for

GOOD = as_file(sound(20000))

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forks")


@pytest.fixture(scope="module")
def other_network(network, tmp_path_factory):
    """A network file as `network`, with other weights."""
    file = read_network_file(network)
    for values in file.state.values():
        if values.is_floating_point():
            values.mul_(1.1)
    path = tmp_path_factory.mktemp("other") / "plain.pt"
    write_network_file(path, file)
    return path


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    monkeypatch.setattr(workers, "_TICK_S", 0.02)


def waiting(board: Board, *, gets_ready: bool = True) -> Work:
    """Work of a worker that states its number on the board, beats, and does nothing."""

    def work(row: int) -> int:
        over = threading.Event()
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, lambda *_: over.set())
        seat = Seat(board, row)
        seat.note("pieces", os.getpid())
        seat.note("ready", gets_ready)
        while not over.wait(0.02):
            seat.beat()
        return 0

    return work


@contextmanager
def keeping(board: Board, open_work: Callable[[], Work], log: Path | None = None) -> Iterator[int]:
    """Run two workers; the process above them, and what it logs."""
    above = os.fork()
    if not above:
        status = 1
        try:
            if log is not None:
                LOG.addHandler(logging.FileHandler(log))
            Workers(2, board, open_work, stop_s=1).run()
            status = 0
        except AsdfError:
            status = 3
        finally:
            os._exit(status)
    try:
        yield above
    finally:
        os.kill(above, signal.SIGTERM)
        _, status = os.waitpid(above, 0)
        assert os.waitstatus_to_exitcode(status) in (0, 3)
        assert not board.held["ready"].any()


def pids(board: Board) -> set[int]:
    """Numbers of the workers that are ready."""
    return {int(row["pieces"]) for row in board.held if row["ready"]}


def test_a_worker_that_dies_is_replaced_and_holds_nothing_any_more(tmp_path):
    board = Board(2, lock_file=tmp_path / "lock")
    with keeping(board, lambda: waiting(board)):
        wait_for(lambda: len(pids(board)) == 2)
        before = pids(board)
        board.held["recordings"] = board.held["ready"]
        os.kill(min(before), signal.SIGKILL)
        wait_for(lambda: len(pids(board)) == 2 and pids(board) != before)
        assert max(before) in pids(board)
        assert board.held["recordings"].sum() == 1


def test_a_network_that_is_read_again_has_new_workers_before_the_others_go(tmp_path):
    board = Board(2, lock_file=tmp_path / "lock")
    most = []
    with keeping(board, lambda: waiting(board)) as above:
        wait_for(lambda: len(pids(board)) == 2)
        before = pids(board)
        os.kill(above, signal.SIGHUP)

        def are_others() -> bool:
            most.append(len(pids(board)))
            return len(pids(board)) == 2 and not pids(board) & before

        wait_for(are_others)
    # At no time were fewer than two ready.
    assert min(most) == 2 and max(most) == 4


def test_a_worker_that_lives_and_says_nothing_is_replaced(tmp_path, monkeypatch):
    # A hundred looks, however long each takes.
    monkeypatch.setattr(workers, "_SILENT_S", 1.0)
    monkeypatch.setattr(workers, "_MAX_STEP_S", 0.01)
    board = Board(2, lock_file=tmp_path / "lock")
    log = tmp_path / "log"
    with keeping(board, lambda: waiting(board), log):
        wait_for(lambda: len(pids(board)) == 2 and board.held["beats"].astype(bool).sum() == 2)
        hanging, other = sorted(pids(board))
        os.kill(hanging, signal.SIGSTOP)
        wait_for(lambda: len(pids(board)) == 2 and hanging not in pids(board))
        assert other in pids(board)
        assert f"worker {hanging} has not responded for 1 s and is killed" in log.read_text()
        with pytest.raises(ProcessLookupError):
            os.kill(hanging, 0)


def test_a_server_beats_while_its_forward_passes_come_back(detector, monkeypatch):
    board = Board(2)
    with running(detector, seat=Seat(board, 1)) as served:
        wait_for(lambda: board.held["beats"][1] > 3)
    beats = board.held["beats"][1]
    asyncio.run(served.server.on_tick(1))
    assert board.held["beats"].tolist() == [0, beats + 1, 0, 0, 0, 0]
    monkeypatch.setattr(SharedPasses, "pass_s", 1000.0)
    asyncio.run(served.server.on_tick(1))
    assert board.held["beats"][1] == beats + 1


def test_workers_that_die_while_others_start_are_replaced_by_their_like(tmp_path):
    board = Board(2, lock_file=tmp_path / "lock")
    opened = []

    def open_work() -> Work:
        # The second network keeps its workers busy for ever.
        opened.append(waiting(board, gets_ready=not opened))
        return opened[-1]

    with keeping(board, open_work) as above:
        wait_for(lambda: len(pids(board)) == 2)
        before = pids(board)
        os.kill(above, signal.SIGHUP)
        wait_for(lambda: board.held["beats"].astype(bool).sum() == 4)
        for victim in before:
            os.kill(victim, signal.SIGKILL)
        wait_for(lambda: len(pids(board)) == 2 and not pids(board) & before)
        # Beside the two of the second network.
        wait_for(lambda: board.held["beats"].astype(bool).sum() == 4)


@pytest.mark.slow
def test_a_network_that_cannot_be_read_changes_nothing(tmp_path):
    board = Board(2, lock_file=tmp_path / "lock")
    tried = tmp_path / "tried"
    opened = []

    def open_work() -> Work:
        if opened:
            tried.touch()
            raise AsdfError("this is no network")
        opened.append(waiting(board))
        return opened[0]

    with keeping(board, open_work) as above:
        wait_for(lambda: len(pids(board)) == 2)
        before = pids(board)
        os.kill(above, signal.SIGHUP)
        wait_for(tried.exists)
        time.sleep(0.2)
        assert pids(board) == before


@pytest.mark.slow
def test_workers_that_never_get_ready_end_the_service(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(workers, "_MAX_DELAY_S", 0.01)
    board = Board(2, lock_file=tmp_path / "lock")
    pid = os.fork()
    if not pid:
        status = 1
        try:
            Workers(2, board, lambda: lambda _: 7, stop_s=1).run()
        except AsdfError as error:
            status = 3 if "exit before they are ready" in str(error) else 4
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3


def test_counts_of_workers_are_summed(tmp_path):
    for number in (1, 2):
        pid = os.fork()
        if not pid:
            sum_over_workers(tmp_path)
            counts = Counts(tmp_path)
            counts.requests.labels("/score", "200").inc(number)
            counts.pass_pieces.observe(number)
            os._exit(0)
        os.waitpid(pid, 0)
    pid = os.fork()
    if not pid:
        sum_over_workers(tmp_path)
        counts = Counts(tmp_path)
        counts.watch("asdf_calls", "Calls.", lambda: 5)
        text = counts.as_text().decode()
        wanted = (
            'asdf_requests_total{path="/score",status="200"} 3.0',
            "asdf_pass_pieces_sum 3.0",
            'asdf_pass_pieces_bucket{le="1.0"} 1.0',
            "asdf_calls 5.0",
        )
        os._exit(0 if all(line in text for line in wanted) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_connections_of_other_workers_count(detector):
    board = Board(2, LIMITS.connections)
    with running(detector, seat=Seat(board, 0)) as served:
        key = board.key_of("127.0.0.1")
        most = served.server.doors._max_of_client
        Seat(board, 1).note_connections([key] * (most - 1))
        assert served.ask("/health").status == 200
        Seat(board, 1).note_connections([key] * most)
        assert served.ask("/health").status == 503
        # And recordings in their memory.
        Seat(board, 1).note_connections([])
        Seat(board, 1).note("recordings", LIMITS.queue)
        assert served.score(GOOD).status == 503
        numbers = served.ask("/metrics").content.decode()
        assert f"asdf_recordings_in_memory {LIMITS.queue}.0" in numbers


def test_a_fork_shares_a_detector_of_one_thread(detector, network):
    expected = detector.score(sound(9000), 16000)
    pid = os.fork()
    if not pid:
        same = False
        try:
            with pytest.raises(UsageError, match="is a fork"):
                _ = detector.hearing
            same = detector.for_fork().score(sound(9000), 16000) == expected
        finally:
            os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    two = asdf.Detector(network, "cpu", network_folder=TESTS, threads=2)
    with pytest.raises(UsageError, match="with 2 threads cannot be used in a fork"):
        two.for_fork()


def test_what_has_begun_is_answered_by_the_network_that_it_began_with(
    detector, network, other_network, tmp_path, caplog
):
    path = tmp_path / "net.pt"
    shutil.copy(other_network, path)

    def reopen() -> asdf.Detector:
        return asdf.Detector(path, "cpu", network_folder=TESTS, threads=1)

    caplog.set_level("INFO")
    other = reopen().score_whole(sound(20000), 16000).score
    with running(detector) as served:
        before = served.ask("/ready").json["network_sha256"]
        with closing(connect(int(served.url.rpartition(":")[2]))) as slow:
            begin_upload(slow)
            wait_for(lambda: served.service.in_memory == 1)
            reload_network(served.service, reopen, "net.pt")
            after = served.ask("/ready").json["network_sha256"]
            assert after != before
            assert served.ask("/version").json["network_sha256"] == after
            document = served.score(GOOD).json
            assert document["made_by"]["network_sha256"] == after
            assert document["recordings"][0]["score"] == pytest.approx(other, abs=1e-4)
            slow.send(GOOD[1000:])
            document = json.loads(slow.getresponse().read())
        assert document["made_by"]["network_sha256"] == before
        assert after[:12] in caplog.text and before[:12] in caplog.text
        # What is no network changes nothing.
        path.write_text("junk")
        reload_network(served.service, reopen, "net.pt")
        assert "net.pt was not reloaded" in caplog.text
        assert served.ask("/ready").json["network_sha256"] == after
        assert served.score(GOOD).status == 200


def test_a_network_without_a_score_is_refused_and_the_service_stays_ready(detector):
    with running(detector) as served:
        broken = asdf.Detector(
            detector.source, "cpu", network_folder=TESTS, threads=1, speech_check="off"
        )
        before = served.service.current

        def fail(*_: object) -> None:
            raise AsdfError("the weights are not finite")

        object.__setattr__(broken._hearing, "score", fail)
        with pytest.raises(AsdfError, match="the network failed: the weights are not finite"):
            served.service.replace(broken, "net.pt")
        assert served.service.current is before
        wait_for(lambda: served.ask("/ready").status == 200)


def test_a_worker_that_drains_ends_when_its_connections_have(detector):
    with running(detector) as served:
        with closing(connect(int(served.url.rpartition(":")[2]))) as client:
            begin_upload(client)
            wait_for(lambda: served.service.in_memory == 1)
            served.server.drain()
            time.sleep(0.3)
            # No other connection is taken, and what there is gets its answer.
            with pytest.raises(OSError), closing(connect(int(served.url[-5:]))) as late:
                late.request("GET", "/health")
                late.getresponse()
            client.send(GOOD[1000:])
            answer = client.getresponse()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            answer.read()
        wait_for(lambda: not served.server.server_state.connections)
        served.ended.wait(PATIENCE_S)


def test_more_workers_than_none(capsys, network):
    from asdf.__main__ import main

    assert main(["serve", str(network), "--network-folder", str(TESTS), "--workers", "0"]) == 2
    assert "workers = 0: give 1 or more" in capsys.readouterr().err


def connect(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)


def begin_upload(client: http.client.HTTPConnection) -> None:
    client.putrequest("POST", "/score")
    client.putheader("Content-Type", "audio/wav")
    client.putheader("Content-Length", str(len(GOOD)))
    client.endheaders(GOOD[:1000])


def ask(port: int, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Ask by a connection of its own, which any worker may take."""
    with closing(connect(port)) as client:
        client.request("POST" if body else "GET", path, body, {"Content-Type": "audio/wav"})
        answer = client.getresponse()
        return answer.status, answer.read()


@contextmanager
def serving(network, *options: str) -> Iterator[tuple[subprocess.Popen, int, list[str]]]:
    """The command with two workers: the process above, the port, and its lines."""
    command = [sys.executable, "-m", "asdf", "serve", str(network), "--port", "0", "--workers", "2"]
    command += ["--network-folder", str(TESTS), "--device", "cpu", *options]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines: list[str] = []
    try:
        lines.append(process.stdout.readline())
        port = re.search(r"at http://127\.0\.0\.1:(\d+)", lines[0])
        assert port, lines + process.stdout.readlines()
        threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True).start()
        wait_for(lambda: number(int(port[1]), "asdf_workers_ready") == 2)
        yield process, int(port[1]), lines
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def number(port: int, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", ask(port, "/metrics")[1].decode(), re.M)
    return float(found[1]) if found else 0.0


@pytest.mark.slow
def test_limits_and_numbers_are_those_of_all_workers(network):
    with serving(network, "--rate", "20") as (_, port, _):
        statuses = [ask(port, "/score", GOOD)[0] for _ in range(40)]
        # A minute has passed for a part of a request at most.
        assert 20 <= statuses.count(200) <= 24
        assert statuses.count(429) == 40 - statuses.count(200)
        for status in (200, 429):
            name = f'asdf_requests_total{{path="/score",status="{status}"}}'
            assert number(port, name) == statuses.count(status)
        assert number(port, "asdf_recordings_in_memory") == 0


@pytest.mark.slow
def test_workers_die_and_networks_change_without_a_lost_request(network, other_network, tmp_path):
    path = tmp_path / "net.pt"
    shutil.copy(network, path)
    with serving(path, "--rate", "0") as (process, port, lines):
        before = json.loads(ask(port, "/ready")[1])["network_sha256"]
        over = threading.Event()
        digests: list[str] = []
        problems: list[str] = []

        def keep_asking() -> None:
            while not over.is_set():
                try:
                    status, content = ask(port, "/score", GOOD)
                    assert status == 200, content
                    digests.append(json.loads(content)["made_by"]["network_sha256"])
                except Exception as error:
                    problems.append(repr(error))

        clients = [threading.Thread(target=keep_asking) for _ in range(4)]
        for client in clients:
            client.start()
        shutil.copy(other_network, tmp_path / "new.pt")
        (tmp_path / "new.pt").replace(path)
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: any("with the current network" in line for line in lines))
        wait_for(lambda: digests[-1] != before)
        # A file that is no network.
        (tmp_path / "bad.pt").write_text("junk")
        (tmp_path / "bad.pt").replace(path)
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: any("not reloaded" in line for line in lines))
        after = hashlib.sha256(other_network.read_bytes()).hexdigest()
        wait_for(lambda: number(port, "asdf_workers_ready") == 2)
        over.set()
        for client in clients:
            client.join()
        assert (problems, set(digests)) == ([], {before, after})
        # Its clients lose what it had; the next ones do not notice.
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        victim = int(children.split()[0])
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: any(f"worker {victim} ended by signal 9" in line for line in lines))
        wait_for(lambda: number(port, "asdf_workers_ready") == 2)
    assert process.returncode == 0
    assert not any("Traceback" in line for line in lines)

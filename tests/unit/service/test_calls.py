"""Calls over websockets: the scores of windows, to the bit, and the limits of uploads."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import asdf
from asdf.runs.log import LOG
from asdf.service.audit_file import AuditFile
from tests.conftest import PATIENCE_S
from tests.unit.conftest import sound
from tests.unit.service.conftest import LIMITS, TESTS, Running, running, wait_for

pytest.importorskip("websockets", reason="calls need the package websockets")
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
PCM = (sound(3 * 8000 + 1234) * 20000).astype("<i2")


@contextmanager
def calling(served: Running, query: str = "rate=8000&window=1&hop=0.5", **headers: str):
    url = served.url.replace("http://", "ws://") + f"/stream?{query}"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with connect(
        url, additional_headers=named, compression=None, open_timeout=PATIENCE_S, proxy=None
    ) as call:
        yield call


def answers(call) -> list[dict]:
    """All that is still answered, until the service closes."""
    messages = []
    while True:
        try:
            messages.append(json.loads(call.recv(PATIENCE_S)))
        except ConnectionClosed:
            return messages


def speak(call, content: bytes, size: int) -> list[dict]:
    """Send all in messages of that size, and end the call; what was answered."""
    for start in range(0, len(content), size):
        call.send(content[start : start + size])
    call.send("end")
    return answers(call)


def refused(served: Running, query: str, **headers: str) -> tuple[int, str, dict]:
    with pytest.raises(InvalidStatus) as error, calling(served, query, **headers):
        pass
    response = error.value.response
    return response.status_code, json.loads(response.body)["error"], response.headers


def test_windows_have_the_scores_of_the_stream_and_of_themselves_to_the_bit(served, detector):
    stream = detector.stream(8000, window_s=1, hop_s=0.5)
    windows = stream.add(PCM) + stream.finish()
    assert len(windows) == 6
    received = []
    for size in (640, 50_000):
        with calling(served) as call:
            messages = speak(call, PCM.tobytes(), size)
            assert call.protocol.close_code == 1000
        received.append(messages)
    for messages in received:
        assert [m["window"]["score"] for m in messages[:-1]] == [w.score for w in windows]
        assert [m["window"]["start_s"] for m in messages[:-1]] == [w.start_s for w in windows]
        result = messages[-1]["result"]["recordings"][0]
        assert result["score"] == float(stream.score) == messages[-2]["so_far"]["score"]
        assert result["seconds"] == pytest.approx(len(PCM) / 8000)
        assert result["sha256"] == hashlib.sha256(PCM.tobytes()).hexdigest()
        assert messages[-1]["result"]["made_by"]["options"]["hop"] == 0.5
    # At the network's rate a window is a recording by itself.
    samples = sound(2 * 16000).astype(np.float32)
    with calling(served, "rate=16000&window=1&hop=0.5&format=float32") as call:
        messages = speak(call, samples.astype("<f4").tobytes(), 4096)
    for message, start in zip(messages[:-1], (0, 8000, 16000), strict=True):
        alone = detector.score(samples[start : start + 16000], 16000)
        assert message["window"]["score"] == float(alone)


def test_channels_follow_each_other(served, detector):
    both = np.stack([PCM[:9000], PCM[9000:18000]], axis=1)
    stream = detector.stream(8000, window_s=1, hop_s=0.5)
    windows = stream.add(both.astype(np.int16)) + stream.finish()
    with calling(served, "rate=8000&window=1&hop=0.5&channels=2") as call:
        messages = speak(call, both.tobytes(), 400)
    assert [m["window"]["score"] for m in messages[:-1]] == [w.score for w in windows]


def test_a_window_is_answered_while_the_call_goes_on(served):
    with calling(served) as call:
        # A window, and what the resampling filter reaches.
        call.send(PCM[:8100].tobytes())
        first = json.loads(call.recv(PATIENCE_S))
        assert (first["window"]["start_s"], first["window"]["end_s"]) == (0.0, 1.0)
        assert first["window"]["verdict"] is None
        assert first["so_far"]["score"] == first["window"]["score"]
        numbers = served.ask("/metrics").content.decode()
        assert "asdf_calls 1.0" in numbers
        call.send("end")
        assert "result" in answers(call)[-1]
    wait_for(lambda: "asdf_calls 0.0" in served.ask("/metrics").content.decode())


def test_verdicts_of_a_detector_with_a_threshold(network):
    detector = asdf.Detector(
        network, "cpu", network_folder=TESTS, threads=1, threshold=0.0, speech_check="off"
    )
    with running(detector) as served, calling(served) as call:
        *windows, last = speak(call, PCM.tobytes(), 3000)
    for message in windows:
        expected = "bona fide" if message["window"]["score"] >= 0 else "spoof"
        assert message["window"]["verdict"] == expected
    assert last["result"]["recordings"][0]["verdict"] in ("bona fide", "mixed", "spoof")
    # Silence is scored and not judged.
    with running(detector) as served, calling(served) as call:
        messages = speak(call, bytes(20_000), 3000)
    assert messages[0]["window"]["verdict"] is None
    assert not messages[0]["window"]["judged"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("rate=eight", "rate = 'eight' is not a number"),
        ("rate=10", "outside the range of speech"),
        ("window=9", "this network hears the first"),
        ("hop=0", "windows of 1 s every 0 s"),
        ("window=1&hop=0.0001", "more than 5 times. Set 0.2 s or more"),
        ("format=mp3", "int16 or float32"),
        ("channels=0", "channels = 0"),
        ("speed=2", "no parameter 'speed'"),
    ],
)
def test_questions_without_an_answer_are_refused_before_the_call(served, query, message):
    status, error, _ = refused(served, query)
    assert status == 422
    assert message in error


def test_a_call_needs_the_token_and_its_own_site(detector):
    with running(detector, token="secret of sixteen") as served:
        status, error, headers = refused(served, "rate=8000&window=1")
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert "requires its token" in error
        token = {"Authorization": "Bearer secret of sixteen"}
        with calling(served, **token) as call:
            assert "result" in speak(call, PCM[:9000].tobytes(), 9000)[-1]
        status, error, _ = refused(served, "window=1", Origin="http://evil.example", **token)
        assert status == 403
    # A page at this address that is led here by a foreign name.
    with running(detector) as served:
        status, _, _ = refused(served, "window=1", Sec_Fetch_Site="cross-site")
        assert status == 403


def test_calls_are_counted_as_requests_and_their_windows_as_audio(detector):
    with running(detector, replace(LIMITS, rate=2, audio_rate=2.5)) as served:
        with calling(served) as call:
            messages = speak(call, PCM.tobytes(), 2000)
            assert call.protocol.close_code == 1013
        # Each window is a second of audio, and one is heard where anything is left.
        assert sum("window" in message for message in messages) == 3
        assert "result" in messages[-2]
        assert "seconds of audio per minute" in messages[-1]["error"]
        assert 0 < messages[-1]["retry_after_s"] < 60
        status, _, headers = refused(served, "window=1")
        assert (status, int(headers["retry-after"]) > 0) == (429, True)


def test_no_more_calls_than_there_may_be(detector):
    with running(detector, replace(LIMITS, calls=1)) as served:
        with calling(served):
            status, error, headers = refused(served, "window=1")
            assert (status, headers["retry-after"]) == (503, "10")
            assert "1 calls are already in progress" in error
            # Recordings are taken none the less.
            assert served.ask("/ready").status == 200
        wait_for(lambda: not served.service.calls)
        with calling(served) as call:
            assert "error" in speak(call, b"", 1)[-1]


@pytest.mark.parametrize(
    ("message", "code", "words"),
    [
        (b"odd", 1007, "ends within a sample"),
        ("stop", 1007, "a text message must be 'end'"),
        (bytes(2**18 + 2), 1009, ""),
    ],
)
def test_messages_that_are_no_audio_end_a_call(served, message, code, words):
    with calling(served) as call:
        call.send(PCM[:8100].tobytes())
        json.loads(call.recv(PATIENCE_S))
        call.send(message)
        messages = answers(call)
        assert call.protocol.close_code == code
    if words:
        # What was heard before counts.
        assert [set(each) for each in messages[-2:]] == [{"result"}, {"error"}]
        assert words in messages[-1]["error"]
    wait_for(lambda: not served.service.calls)


def test_samples_that_are_not_finite_end_a_call(served):
    with calling(served, "rate=16000&window=1&format=float32") as call:
        messages = speak(call, np.full(100, np.nan, "<f4").tobytes(), 400)
        assert call.protocol.close_code == 1007
    assert "not finite" in messages[-1]["error"]


def test_calls_that_are_long_or_say_nothing_are_ended(detector):
    with running(detector, replace(LIMITS, call_s=2, upload_s=0.5)) as served:
        with calling(served) as call:
            messages = speak(call, PCM.tobytes(), 4000)
            assert call.protocol.close_code == 1008
        assert "lasts 2 s at most" in messages[-1]["error"]
        with calling(served) as call:
            messages = answers(call)
            assert call.protocol.close_code == 1008
        assert "nothing was received for 0.5 s" in messages[-1]["error"]


def test_a_service_that_stops_says_what_it_heard(detector):
    with running(detector) as served, calling(served) as call:
        call.send(PCM[:8100].tobytes())
        json.loads(call.recv(PATIENCE_S))
        served.server.handle_exit(15, None)
        messages = answers(call)
        assert call.protocol.close_code == 1012
        # Its rest, which is in no window yet, is heard too.
        assert "result" in messages[-1]
        assert messages[-1]["result"]["recordings"][0]["seconds"] == pytest.approx(8100 / 8000)


def test_each_call_has_a_line_in_the_audit_file_also_one_that_broke_off(detector, tmp_path):
    audit = AuditFile(tmp_path / "audit.jsonl")
    with running(detector, audit=audit) as served:
        with calling(served) as call:
            speak(call, PCM.tobytes(), 4000)
        with calling(served) as call:
            call.send(PCM[:8100].tobytes())
            json.loads(call.recv(PATIENCE_S))
            call.socket.close()
        wait_for(lambda: not served.service.calls)
    lines = [json.loads(line) for line in audit.path.read_text().splitlines()]
    digests = [hashlib.sha256(part.tobytes()).hexdigest() for part in (PCM, PCM[:8100])]
    assert [line["recording_sha256"] for line in lines] == digests
    assert all(line["options"]["window"] == 1.0 for line in lines)


def test_who_sends_faster_than_the_network_hears_is_slowed_down(detector, monkeypatch):
    with running(detector) as served:
        passes = served.service.passes
        held = threading.Event()
        real = detector.hearing.score

        class Slow:
            def __getattr__(self, name):
                return getattr(detector.hearing, name)

            def score(self, pieces):
                held.wait(PATIENCE_S)
                return real(pieces)

        object.__setattr__(served.service.current, "hearing", Slow())
        sent = 0
        with calling(served, "rate=16000&window=1") as call:
            call.socket.settimeout(0.3)
            try:
                for _ in range(400):
                    call.send(bytes(2**17))
                    sent += 1
            except (TimeoutError, OSError, ConnectionClosed):
                pass
            # 50 MB would be in the memory of a service that reads on.
            assert sent < 200
            assert passes.pieces_waiting <= 1
            held.set()


def test_a_refused_call_leaves_one_line_in_the_log(served, caplog):
    caplog.set_level("INFO", logger=LOG.name)
    refused(served, "hop=0")
    wait_for(lambda: "call /stream 422, 0 bytes" in caplog.text)
    assert "handshake" not in caplog.text


def test_a_plain_request_is_no_call(served):
    answer = served.ask("/stream")
    assert answer.status == 426
    assert "websocket" in answer.json["error"]


def test_calls_come_before_recordings_which_have_every_other_pass(detector):
    from asdf.service.shared_passes import SharedPasses

    order = []
    gate = threading.Event()

    class Noting:
        def __getattr__(self, name):
            return getattr(detector.hearing, name)

        def score(self, pieces):
            gate.wait(PATIENCE_S)
            order.append(len(pieces[0].waveform))
            return detector.hearing.score(pieces)

    hearing = Noting()
    passes = SharedPasses(hearing, lambda _: None)
    first = passes.submit(hearing.cut(sound(5000).astype(np.float32)))
    time.sleep(0.05)
    lengths = [9000, 7000, 6000]
    futures = [passes.submit(hearing.cut(sound(n).astype(np.float32))) for n in lengths]
    for _ in range(2):
        (piece,) = hearing.cut(sound(16000).astype(np.float32)).scored
        futures.append(passes.submit_window(piece, hearing))
        (piece,) = hearing.cut(sound(15000).astype(np.float32)).scored
        futures.append(passes.submit_window(piece, hearing))
    gate.set()
    for future in [first, *futures]:
        future.result(PATIENCE_S)
    passes.close()
    assert order == [5000, 16000, 9000, 15000, 7000, 6000]

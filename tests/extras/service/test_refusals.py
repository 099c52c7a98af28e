"""What is refused, with which status and words; and that it leaves nothing behind."""

import http.client
import json
import re
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

import asdf
from asdf.errors import UsageError
from asdf.extras.service import exchange
from asdf.extras.service.limits import ServiceLimits, for_clients
from asdf.extras.service.service import Asked
from asdf.removed import option_has_left
from tests.conftest import PATIENCE_S, ROOT
from tests.extras.service.conftest import (
    LIMITS,
    TESTS,
    as_file,
    as_form,
    begin_upload,
    running,
    wait_for,
)
from tests.unit.conftest import small_settings, sound, write_small_network

GOOD = as_file(sound(20000))
TOO_LARGE = int(LIMITS.max_mb * 1e6) + 1
TOKEN = "a token of sufficient length"


def connect(served) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(served.url.removeprefix("http://"), timeout=PATIENCE_S)


def error_of(answer) -> str:
    assert set(answer.json) == {"error"}
    return answer.json["error"]


@pytest.fixture
def impatient(monkeypatch) -> None:
    """A service that waits for half a second for what a refused client may still send."""
    monkeypatch.setattr(exchange, "_IDLE_S", 0.5)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "letter.wav is empty (0 bytes)"),
        (b"Dear Sir or Madam" * 50, "letter.wav is not audio that libsndfile can read"),
        (GOOD[:20000], "letter.wav cannot be decoded to its end"),
        (as_file(np.zeros(0)), "letter.wav holds no samples"),
        (as_file(np.full(1000, np.nan), subtype="FLOAT"), "letter.wav holds samples that are not"),
    ],
)
def test_what_does_not_decode_gets_the_words_of_the_command(served, content, words):
    form, kind = as_form(content, "letter.wav")
    answer = served.score(form, Content_Type=kind)
    assert answer.status == 422
    assert error_of(answer).startswith(words)


def test_without_a_name_it_is_the_recording(served):
    assert error_of(served.score(b"no sound")).startswith("the recording is not audio")


def test_a_name_is_a_name_alone(served):
    form, kind = as_form(b"no sound", "../../etc/\x1b[2Jpasswd.wav")
    assert error_of(served.score(form, Content_Type=kind)).startswith("\\x1b[2Jpasswd.wav is not")


def test_a_longer_recording_than_allowed_is_not_decoded(served):
    # A minute and more, of silence: 30 kB.
    content = as_file(np.zeros(61 * 16000), kind="flac")
    assert len(content) < 100_000
    answer = served.score(content)
    assert answer.status == 422
    assert "is longer than 60 s. Ask who runs this service" in error_of(answer)
    # Evidence is not cut for a program.
    assert "Cut" not in error_of(answer) and "--max-seconds" in error_of(answer)


def test_a_long_recording_takes_several_places(detector):
    long = as_file(np.zeros(700 * 16000, np.float32), kind="flac")
    limits = replace(LIMITS, queue=3, max_seconds=1000)
    with running(detector, limits) as served:
        with served.service.slot():
            assert served.score(GOOD).status == 200
            refused = served.score(long)
            assert refused.status == 503 and "already waiting" in error_of(refused)
            assert int(refused.headers["retry-after"]) > 0
            assert served.service.in_memory == 1
        answer = served.score(long)
        assert answer.status == 200
        assert answer.json["recordings"][0]["seconds"] == 700
        wait_for(lambda: served.service.in_memory == 0)
    # One that is alone is taken, whatever its size within the limits.
    with running(detector, replace(limits, queue=1)) as served:
        assert served.score(long).status == 200


@pytest.mark.slow
def test_two_hours_are_taken_by_default(detector):
    with running(detector, ServiceLimits()) as served:
        answer = served.score(as_file(np.zeros(7200 * 16000, np.float32), kind="flac"))
    assert answer.status == 200, error_of(answer)
    assert answer.json["recordings"][0]["seconds"] == 7200


def test_a_stated_length_is_refused_before_anything_is_sent(served, impatient):
    with closing(connect(served)) as connection:
        connection.putrequest("POST", "/score")
        connection.putheader("Content-Type", "audio/wav")
        connection.putheader("Content-Length", str(10**12))
        connection.endheaders()
        answer = connection.getresponse()
        assert answer.status == 413
        assert json.loads(answer.read())["error"].startswith(
            "the recording is larger than 2 MB. Ask who runs this service"
        )


def test_a_stream_without_a_length_is_refused_where_it_is_too_long(served, impatient):
    with closing(connect(served)) as connection:
        connection.putrequest("POST", "/score")
        connection.putheader("Content-Type", "audio/wav")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        part = bytes(2**16)
        for _ in range(TOO_LARGE // len(part) + 2):
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
        # The stream has not ended.
        answer = connection.getresponse()
        assert answer.status == 413
        answer.read()


def test_a_client_that_sends_everything_first_reads_the_refusal(served):
    form, kind = as_form(bytes(4 * TOO_LARGE), "huge.wav")
    assert served.score(form, Content_Type=kind).status == 413
    assert served.score(bytes(4 * TOO_LARGE)).status == 413


def test_the_limit_is_of_the_recording_and_not_of_the_form_around_it(served):
    form, kind = as_form(bytes(TOO_LARGE - 1), "largest.wav")
    assert len(form) > TOO_LARGE
    # Zeros are no recording, but they were read.
    assert served.score(form, Content_Type=kind).status == 422


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("application/x-www-form-urlencoded", GOOD, 415),
        ("multipart/form-data", b"--x\r\n", 400),
        ("multipart/form-data; boundary=x", b"--y", 400),
        ("multipart/form-data; boundary=x", b"--x--\r\n", 400),
        ("audio/wav", GOOD, 200),
        ("video/webm", GOOD, 200),
        ("application/octet-stream; charset=x", GOOD, 200),
    ],
)
def test_types_of_content(served, kind, body, status):
    answer = served.score(body, Content_Type=kind)
    assert answer.status == status
    if status != 200:
        assert "curl -F file=@call.mp3" in error_of(answer)


def test_a_form_without_a_file_is_refused(served):
    body = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\ntext\r\n--x--\r\n'
    answer = served.score(body, Content_Type="multipart/form-data; boundary=x")
    assert (answer.status, error_of(answer)[:29]) == (400, "the form has text as file, wh")


@pytest.mark.parametrize(
    ("field", "status", "words"),
    [
        ('"files"; filename="a.wav"', 422, "form field 'files'. Did you mean 'file'?"),
        ('"audio"; filename="a.wav"', 422, "form field 'audio'. It takes file, rttm."),
        ('"rtttm"; filename="a.rttm"', 422, "form field 'rtttm'. Did you mean 'rttm'?"),
        ('"window"', 422, "Parameters are in the address: /score?window=4."),
        ('"rttm"', 400, "text as rttm, where a file belongs"),
        ('"file"; filename="b.wav"', 400, "it has file twice"),
    ],
)
def test_a_form_field_that_nothing_reads_is_refused(served, field, status, words):
    form, kind = as_form(GOOD, "a.wav")
    other = f"--x\r\nContent-Disposition: form-data; name={field}\r\n\r\n4\r\n".encode()
    answer = served.score(other + form, Content_Type=kind)
    assert answer.status == status and words in error_of(answer)


def test_two_files_in_a_form_are_refused(served):
    first, kind = as_form(GOOD, "a.wav")
    second, _ = as_form(GOOD, "b.wav")
    answer = served.score(first.removesuffix(b"--x--\r\n") + second, Content_Type=kind)
    assert answer.status == 400 and "send one recording per request" in error_of(answer)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("?windows=4", "/score has no parameter 'windows'. Did you mean 'window'?"),
        ("?window=1&Hop=1", "/score has no parameter 'Hop'. Did you mean 'hop'?"),
        ("?trail=true", "/score has no parameter 'trail'. Did you mean 'trial'?"),
        ("?outlines=3", "/score has no parameter 'outlines'. Did you mean 'outline'?"),
        ("?threshold=0", "'threshold'. It takes window, hop, trial, outline."),
        ("?=1", "/score has no parameter ''. It takes"),
        ("?a%0Ab%1B=1", r"parameter 'a\nb\x1b'. It takes"),
        ("?window=1&hop=2", "the hop at most the window"),
        ("?window=0", "both must be positive"),
        ("?window=nan", "both must be positive"),
        ("?window=1e9", "Take windows of that length or less"),
        ("?window=1e308", "Take windows of that length or less"),
        ("?window=1.7976931348623157e308&hop=1", "Take windows of that length or less"),
        ("?window=1&hop=1e308", "the hop at most the window"),
        ("?window=1e-320", "both must be positive"),
        ("?window=inf", "both must be positive"),
        ("?hop=1", "set window too"),
        ("?window=long", "window: "),
        ("?outline=-1", "outline: "),
        ("?outline=100000000", "outline: "),
        ("?window=0.001&hop=0.0001", "use a longer hop"),
    ],
)
def test_questions_that_cannot_be_meant(served, query, words):
    answer = served.score(as_file(sound(16000 * 20)), query)
    assert answer.status == 422 and words in error_of(answer)


def test_windows_are_as_long_as_the_network_hears_at_its_own_rate():
    asked = Asked(window=6)
    asked.check(window_samples=64600, rate=8000)
    assert asked.windows == (6, 3)
    with pytest.raises(UsageError, match=r"64,600 samples \(8.075 s\)"):
        Asked(window=9).check(window_samples=64600, rate=8000)


def test_windows_are_limited_by_what_the_network_would_hear(served):
    # 20 s in windows of a quarter of a second, and the limit is 5 times 60 s: 1,200 windows.
    content = as_file(sound(16000 * 20))
    assert LIMITS.max_heard_s == 1200 * 4000 / 16000
    fits = served.score(content, f"?window=0.25&hop={264 / 16000}")
    assert fits.status == 200
    assert len(fits.json["recordings"][0]["windows"]) == 1198
    refused = served.score(content, f"?window=0.25&hop={263 / 16000}")
    assert refused.status == 422
    assert error_of(refused).startswith("the network would score 1,203 windows, each as 0.25 s")


def test_messages_are_for_who_has_no_list_and_no_limits(served):
    for path in (ROOT / "asdf" / "audio").glob("*.py"):
        # The texts as they are in the code, put together.
        text = re.sub(r'"\s+f?"', "", path.read_text(encoding="utf-8"))
        for advice in re.findall(r"[^\"]*(?:off the list|raise the limit)[^\"]*", text):
            # Parts of recordings are named in lists; no upload is one.
            if "is not part of its recording" in advice:
                continue
            cleaned = for_clients(advice)
            assert "list" not in cleaned, path
            assert "raise the limit" not in cleaned, path
    form, kind = as_form(b"Dear Sir or Madam" * 50, "letter.wav")
    assert "list" not in error_of(served.score(form, Content_Type=kind))


def test_other_paths_and_methods_are_answered_in_the_same_form(served):
    for path in ("/nothing", "/page/..%2fapp.py", "/page/page.html"):
        assert served.ask(path).status == 404
    assert served.ask("/score").status == 405
    assert set(served.ask("/nothing").json) == {"error"}


def test_nothing_is_written_to_a_disk_and_nothing_is_logged_of_it(served, caplog, tmp_path):
    opened = []

    def note(event, arguments):
        if event.startswith("tempfile.") or (event == "open" and _writes(arguments)):
            opened.append((event, arguments))

    sys.addaudithook(note)
    form, kind = as_form(as_file(sound(900_000)), "secret name.wav")
    # Larger than what Starlette would move to a file.
    assert 2**20 < len(form) < TOO_LARGE
    with caplog.at_level("DEBUG"):
        assert served.score(form, Content_Type=kind).status == 200
    seen = list(opened)
    assert seen == []
    assert "secret" not in caplog.text
    # The hook does notice files.
    tempfile.TemporaryFile().close()
    assert opened


def _writes(arguments) -> bool:
    mode = arguments[1] or ""
    return any(letter in mode for letter in "wax+") or bool(arguments[2] & 3)


def test_a_token_is_needed_where_there_is_one(detector):
    with running(detector, token=TOKEN) as served:
        for stated in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
            answer = served.score(GOOD, **stated)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert "Authorization: Bearer TOKEN" in error_of(answer)
            assert served.ask("/metrics", **stated).status == 401
        served.headers = {"Authorization": f"Bearer {TOKEN}"}
        assert served.score(GOOD).status == 200
        assert served.ask("/metrics").status == 200
        served.headers = {}
        # Who has none may see the page that asks for it, and whether the service works.
        for path in ("/", "/docs", "/health", "/page/service.js", "/openapi.json"):
            assert served.ask(path).status == 200


def test_a_full_service_refuses_more_until_one_is_done(detector):
    with running(detector, replace(LIMITS, queue=2)) as served:
        first = begin_upload(served.url, GOOD)
        second = begin_upload(served.url, GOOD)
        wait_for(lambda: served.service.in_memory == 2)
        answer = served.score(GOOD)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "2 recordings are already waiting" in error_of(answer)
        first.sendall(GOOD[1000:])
        assert first.recv(100).startswith(b"HTTP/1.1 200 ")
        wait_for(lambda: served.service.in_memory == 1)
        assert served.score(GOOD).status == 200
        # Who goes away leaves its share.
        second.close()
        wait_for(lambda: served.service.in_memory == 0)
        first.close()


def test_a_client_that_is_too_slow_is_refused(detector, impatient):
    with running(detector, replace(LIMITS, upload_s=0.2)) as served:
        with closing(begin_upload(served.url, GOOD)) as client:
            assert client.recv(100).startswith(b"HTTP/1.1 408 ")
        wait_for(lambda: served.service.in_memory == 0)


def test_a_recording_that_takes_too_long_is_given_up(detector):
    with running(detector, replace(LIMITS, request_s=1e-6)) as served:
        start = time.monotonic()
        answer = served.score(as_file(sound(16000 * 50)))
        assert answer.status == 503
        assert time.monotonic() - start < PATIENCE_S
        wait_for(lambda: served.service.in_memory == 0)


@pytest.fixture
def diverging(tmp_path, monkeypatch) -> asdf.Detector:
    """A detector whose score of a loud recording is not a number."""
    monkeypatch.syspath_prepend(str(TESTS))
    settings = small_settings(network_class="small_networks.Diverging")
    path = write_small_network(tmp_path / "network.pt", settings)
    return asdf.Detector(path, "cpu", network_folder=TESTS, threads=1)


def test_a_network_that_fails_is_the_fault_of_the_service(diverging):
    with running(diverging) as served:
        answer = served.score(as_file(np.full(9000, 0.95) * np.sign(sound(9000))))
        assert answer.status == 500
        assert "not a finite number" in error_of(answer)
        # And the next recording gets its score.
        assert served.score(as_file(0.1 * sound(9000))).status == 200


def test_a_mistake_of_the_service_has_the_form_of_a_refusal(detector):
    with running(detector) as served:
        # What makes the answers, gone.
        served.service.documents = None
        answer = served.score(GOOD)
        assert answer.status == 500
        assert error_of(answer) == "the service failed (AttributeError): see its log."
        wait_for(lambda: served.service.in_memory == 0)


def test_other_sites_may_not_read_or_frame_it(served):
    headers = served.ask("/").headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "access-control-allow-origin" not in headers
    assert headers["x-content-type-options"] == "nosniff"
    assert served.score(GOOD).headers["cache-control"] == "no-store"


def test_a_full_service_refuses_on_the_connection_that_the_next_recording_comes_by(detector):
    with running(detector, replace(LIMITS, queue=2), token=TOKEN) as served:
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "audio/wav"}
        with served.service.slot(), closing(connect(served)) as connection:
            with served.service.slot():
                connection.request("POST", "/score", GOOD, headers)
                port = connection.sock.getsockname()[1]
                answer = connection.getresponse()
                assert (answer.status, answer.getheader("retry-after")) == (503, "1")
                assert "2 recordings are already waiting" in json.loads(answer.read())["error"]
                # Whoever has no token does not learn how much there is to do.
                connection.request("POST", "/score", GOOD)
                answer = connection.getresponse()
                assert (answer.status, answer.getheader("www-authenticate")) == (401, "Bearer")
                answer.read()
            connection.request("POST", "/score", GOOD, headers)
            answer = connection.getresponse()
            assert answer.status == 200 and json.loads(answer.read())["recordings"]
            assert connection.sock.getsockname()[1] == port


def test_a_client_that_asks_first_is_refused_before_it_sends(detector):
    with (
        running(detector, replace(LIMITS, queue=1)) as served,
        served.service.slot(),
        closing(connect(served)) as connection,
    ):
        connection.putrequest("POST", "/score")
        for name, value in {"Content-Length": "1000000", "Expect": "100-continue"}.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.getresponse().status == 503


@pytest.mark.parametrize("name", ["head_s", "upload_s", "request_s", "stop_s", "readers"])
def test_of_a_limit_that_is_no_option_any_more_the_value_is_told(name):
    told = option_has_left("serve", [f"--{name.replace('_', '-')}"])
    assert f"{getattr(ServiceLimits(), name):g}." in told

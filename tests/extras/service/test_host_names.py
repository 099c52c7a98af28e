"""Under which names a service is asked, and by whose pages."""

import http.client
from contextlib import closing

import pytest
from starlette.datastructures import Headers

from asdf.extras.service.access import Names
from asdf.extras.service.limits import Refusal
from tests.conftest import PATIENCE_S
from tests.extras.service.conftest import as_file, running
from tests.unit.conftest import sound

GOOD = as_file(sound(20000))
PATHS = ("/", "/health", "/metrics", "/docs", "/version", "/openapi.json", "/page/service.js")


def status_of(names: Names, method: str = "GET", **headers: str) -> int:
    stated = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        names.check(method, Headers(stated))
    except Refusal as refusal:
        return refusal.status
    return 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((host, 200) for host in ("localhost", "localhost:8000", "LocalHost.:8000", "")),
        *((host, 200) for host in ("127.0.0.1:8000", "[::1]:8000", "[0:0:0:0:0:0:0:1]")),
        *((host, 421) for host in ("evil.example:8000", "localhost.evil.example", "[::1")),
        *((host, 421) for host in ("127.0.0.1.evil.example:8000", "evil.example@localhost:8000")),
        *((host, 421) for host in ("192.0.2.1", "detector.example.org")),
    ],
)
def test_a_service_on_this_machine_goes_by_its_own_names(host, status):
    assert status_of(Names("127.0.0.1"), host=host) == status


def test_other_names_are_configured():
    names = Names("127.0.0.1", ["Detector.example.org"])
    assert status_of(names, host="detector.example.org") == 200
    assert status_of(names, host="evil.example") == 421
    # For other machines a service has whatever name they know, until names are configured.
    assert status_of(Names("0.0.0.0"), host="server.lan:8000") == 200
    assert status_of(Names("0.0.0.0", ["server.lan"]), host="server.lan:8000") == 200
    assert status_of(Names("0.0.0.0", ["server.lan"]), host="evil.example") == 421


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost:8000"}, 200),
        ({"origin": "http://localhost:8000", "sec_fetch_site": "same-origin"}, 200),
        ({"sec_fetch_site": "none"}, 200),
        # Behind a proxy that states another Host: the browser knows best.
        ({"origin": "https://detector.example.org", "sec_fetch_site": "same-origin"}, 200),
        ({"origin": "https://detector.example.org"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://localhost:3000"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"origin": "http://localhost:8000", "sec_fetch_site": "cross-site"}, 403),
        ({"origin": "http://evil.example", "sec_fetch_site": "none"}, 403),
    ],
)
def test_pages_of_other_sites_may_not_post(headers, status):
    names = Names("127.0.0.1")
    assert status_of(names, "POST", host="localhost:8000", **headers) == status
    # Whatever machines reach it.
    assert status_of(Names("::"), "POST", host="localhost:8000", **headers) == status


def test_a_configured_name_is_an_origin_too():
    names = Names("127.0.0.1", ["detector.example.org"])
    for origin in ("https://detector.example.org", "https://detector.example.org:8443"):
        assert status_of(names, "POST", host="127.0.0.1:8000", origin=origin) == 200
    assert status_of(names, "POST", host="127.0.0.1:8000", origin="https://example.org") == 403


def ask(served, method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
    address = served.url.removeprefix("http://")
    with closing(http.client.HTTPConnection(address, timeout=PATIENCE_S)) as connection:
        connection.request(method, path, GOOD if method == "POST" else None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


@pytest.mark.parametrize("path", PATHS)
def test_a_name_that_was_led_here_reads_nothing(served, path):
    status, content = ask(served, "GET", path, {"Host": "evil.example:8711"})
    assert status == 421 and b"--host-name NAME" in content
    assert ask(served, "GET", path, {})[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example:8711", "Origin": "http://evil.example:8711"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_no_work_is_done_for_other_sites(served, headers, status):
    before = served.ask("/metrics").content
    answer = ask(served, "POST", "/score", {"Content-Type": "audio/wav", **headers})
    assert answer[0] == status
    done = b"asdf_recordings_total "
    line = next(line for line in before.splitlines() if line.startswith(done))
    assert line in served.ask("/metrics").content.splitlines()


def test_the_names_of_a_proxy_are_an_option(detector):
    with running(detector, names=["detector.example.org"]) as served:
        for host in ("detector.example.org", "localhost"):
            headers = {"Host": host, "Origin": f"https://{host}", "Content-Type": "audio/wav"}
            assert ask(served, "POST", "/score", headers)[0] == 200

"""A service that offers it searches uploads for watermarks, apart from their scores, on request."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import numpy as np
import pytest

from asdf.service.audit_file import AuditFile
from asdf.watermarks import WatermarkSearch, searching
from asdf.watermarks.mark_readers import MarkReader
from tests.unit.conftest import sound
from tests.unit.service.conftest import LIMITS, as_file, running, wait_for
from tests.unit.watermarks.test_searching import Failing, Loud

RATE = 8000
QUIET = 0.3 * sound(2 * RATE, 1) / np.abs(sound(2 * RATE, 1)).max()


def marked(level=0.9):
    samples = QUIET.copy()
    samples[RATE] = level
    return as_file(samples, RATE, subtype="FLOAT")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    return AuditFile(tmp_path_factory.mktemp("audit") / "audit.jsonl")


@pytest.fixture(scope="module")
def served(detector, audit):
    search = WatermarkSearch((Loud(), Failing()), {"missing": "not installed"})
    with running(detector, audit=audit, watermarks=search) as service:
        yield service


def test_a_mark_is_apart_from_the_score(served, audit):
    content = marked()
    plain = served.score(content).json
    answer = served.score(content, "?watermarks=true").json
    [recording] = answer["recordings"]
    found, failed = recording.pop("watermarks")
    assert answer.pop("watermarks") == {
        "asked": ["loud", "failing"],
        "not_asked": {"missing": "not installed"},
    }
    # At the rate of the file, in which the loud sample is not filtered.
    strength = pytest.approx(0.9)
    assert found == {
        "detector": "loud",
        "found": True,
        "strength": strength,
        "message": "2a",
        "start_s": 0.0,
        "end_s": 2.0,
    }
    assert failed == {
        "detector": "failing",
        "found": None,
        "error": "failing failed: no such kernel",
    }
    for document in (plain, answer):
        document["made_by"].pop("date")
    assert answer == plain
    recorded = [json.loads(line) for line in audit.path.read_text().splitlines()[-2:]]
    assert "watermarks" not in recorded[0]
    assert recorded[1]["watermarks"] == [found, failed]


def test_what_is_answered_is_described(served):
    schemas = served.ask("/openapi.json").json["components"]["schemas"]
    answer = served.score(marked(), "?watermarks=true").json
    assert set(answer["watermarks"]) == set(schemas["WatermarksAnswer"]["properties"])
    fields = set()
    for mark in answer["recordings"][0]["watermarks"]:
        fields |= set(mark)
        assert set(schemas["WatermarkAnswer"]["required"]) <= set(mark)
    assert fields == set(schemas["WatermarkAnswer"]["properties"])


def test_none_found_is_said_too(served):
    answer = served.score(marked(0.2), "?watermarks=true").json
    assert answer["recordings"][0]["watermarks"][0]["found"] is False


def test_a_service_that_offers_none_says_who_could(detector):
    with running(detector) as service:
        answer = service.score(marked(), "?watermarks=true")
        assert answer.status == 422
        assert "must be started with serve --watermarks" in answer.json["error"]


def test_each_package_counts_as_hearing_the_recording(detector, served):
    """Two packages hear 2 s each, next to the network."""
    charged = []
    rates = type(served.service.rates)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rates, "charge", lambda self, client, seconds: charged.append(seconds))
        served.score(marked())
        served.score(marked(), "?watermarks=true")
    assert charged[1] - charged[0] == pytest.approx(4.0)


class Slow(MarkReader):
    """Hears a piece, and then waits."""

    name = "slow"
    package = "slow-marks"

    def __init__(self):
        self.heard = 0
        self.may_go_on = threading.Event()

    def read(self, samples, rate):
        self.heard += 1
        self.may_go_on.wait()
        return searching.Mark(False)


def test_nobody_searches_on_when_the_time_is_over(detector):
    """The memory is free when the piece is over, and the rest of the recording is not heard."""
    slow = Slow()
    limits = replace(LIMITS, request_s=1.0, max_seconds=100)
    with running(detector, limits, watermarks=WatermarkSearch((slow,), {})) as service:
        content = as_file(0.1 * sound(95 * RATE, 2), RATE)
        answer = service.score(content, "?watermarks=true")
        assert answer.status == 503 and "not scored in time" in answer.json["error"]
        assert service.service.in_memory == 1
        slow.may_go_on.set()
        wait_for(lambda: service.service.in_memory == 0)
    assert slow.heard == 1


def test_the_page_offers_what_the_service_does(served, detector):
    page = served.ask("/").content.decode()
    assert 'id="marks"' in page and "Search for watermarks too (loud, failing)" in page
    with running(detector) as service:
        assert 'id="marks"' not in service.ask("/").content.decode()

"""The OpenAPI description, its page and the page for people: complete, and without addresses."""

import asyncio
import re

import numpy as np
import pytest
from starlette.responses import PlainTextResponse

import asdf
from asdf.checkpoint.network_file import write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.extras.service.access import Names
from asdf.extras.service.counts import Counts
from asdf.extras.service.exchange import Exchanges
from asdf.metrics.calibration import Calibration
from asdf.scoring.columns import find_columns
from tests.extras.service.conftest import TESTS, as_file, running
from tests.unit.conftest import sound

SCRIPT = re.compile(r"""<(?:script|link|img|a)[^>]*?(?:src|href)="([^"]*)\"""")


@pytest.fixture(scope="module")
def judging(network, tmp_path_factory):
    """A calibrated service with a threshold that every recording is below."""
    file = read_network_file(network)
    # Bounds so narrow that each ratio is at one of them.
    learnt = {"set": "dev", "bona_fide": 80, "spoof": 120, "lowest_llr": -1e-6, "highest_llr": 1e-6}
    others = {"replicates": [[1.0, 0.0], [1.1, 0.1]]}
    calibration = Calibration(1.0, 0.0, 0.0, others=others, **learnt)
    file.calibration = calibration.content()
    calibrated = tmp_path_factory.mktemp("calibrated") / "net.pt"
    write_network_file(calibrated, file)
    options = {"threads": 1, "threshold": 1e6, "speech_check": "off"}
    detector = asdf.Detector(calibrated, "cpu", network_folder=TESTS, **options)
    with running(detector) as service:
        yield service


def test_what_is_answered_is_what_is_described(judging):
    served = judging
    description = served.ask("/openapi.json").json
    schemas = description["components"]["schemas"]
    answer = served.score(as_file(sound(50000)), "?window=1&outline=10").json
    assert set(answer["part_search"]) == set(schemas["PartSearchAnswer"]["properties"])
    # With turns of speakers: test_speakers_of_uploads.py.
    assert set(answer) == set(schemas["ScoreAnswer"]["properties"]) - {"speakers"}
    silent = served.score(as_file(np.zeros(9000))).json["recordings"][0]
    opposite = np.stack([sound(50000), -sound(50000)], axis=1)
    differing = served.score(as_file(opposite)).json["recordings"][0]
    assert [each["channel"] for each in differing["channels"]] == [0, 1]
    fields = set(answer["recordings"][0]) | set(silent) | {"channels"}
    # At a threshold of the user's, no error rate is known.
    searched = {*answer["recordings"][0]["searched"], "expected"}
    assert searched == set(schemas["SearchedAnswer"]["properties"])
    # Some columns need what this calibration did not learn.
    known = {column.key for column in served.service.detector.pipeline.summary.columns}
    of_others = [each.answer for key, each in find_columns().items() if key not in known]
    others = set().union(*of_others) - schemas["SpeakerAnswer"]["properties"].keys()
    assert fields == schemas["RecordingAnswer"]["properties"].keys() - others
    shown = answer["recordings"][0]["shown"]
    assert shown.keys() == schemas["ShownAnswer"]["properties"].keys()
    assert "shown" not in silent and "shown" not in differing
    assert set(answer["recordings"][0]["windows"][0]) == set(schemas["WindowAnswer"]["properties"])
    # Programs rely on what is always there.
    assert set(schemas["PartSearchAnswer"]["required"]) == set(answer["part_search"])
    assert schemas["SearchedAnswer"]["required"] == ["windows", "window_s", "hop_s", "threshold"]
    assert schemas["FalseAlarmsAnswer"]["required"] == ["at_most", "recordings"]
    assert {"speaker", "alone", "overlapped_s"} <= set(schemas["SpeakerAnswer"]["required"])
    required = set(schemas["RecordingAnswer"]["required"])
    assert required <= set(silent)
    assert set(served.ask("/health").json) == set(schemas["HealthAnswer"]["properties"])
    assert set(answer["made_by"]) == set(schemas["MadeByAnswer"]["properties"])
    assert set(served.ask("/version").json) == set(schemas["VersionAnswer"]["properties"])


def test_every_field_has_a_meaning_that_is_more_than_its_name(served):
    schemas = served.ask("/openapi.json").json["components"]["schemas"]
    page = served.ask("/docs").content.decode()
    fields = 0
    for name, schema in schemas.items():
        if "Validation" in name:
            continue
        for field, described in schema["properties"].items():
            meaning = described.get("description", "")
            assert len(meaning.split()) >= 3, (name, field, meaning)
            fields += 1
    assert fields > 25
    # Backticks are markup, and shown as such.
    assert "`" not in page
    assert "<code>python -m asdf score --json</code>" in page


def test_all_paths_and_statuses_are_described(served):
    paths = served.ask("/openapi.json").json["paths"]
    assert set(paths) == {"/score", "/health", "/ready", "/live", "/metrics", "/version"}
    post = paths["/score"]["post"]
    statuses = {200, 400, 401, 403, 408, 413, 415, 421, 422, 500, 503}
    assert set(map(int, post["responses"])) == statuses
    kinds = {"application/octet-stream", "multipart/form-data"}
    assert set(post["requestBody"]["content"]) == kinds
    names = [parameter["name"] for parameter in post["parameters"]]
    assert names == ["window", "hop", "trial", "outline"]
    page = served.ask("/docs").content.decode()
    assert all(f'<th scope="row">{status}</th>' in page for status in statuses)


def test_pages_load_their_own_files_alone(served):
    for page in ("/", "/docs"):
        text = served.ask(page).content.decode()
        links = SCRIPT.findall(text)
        assert links
        for link in links:
            # Relative, so that a proxy may put the service below a path.
            assert not re.match(r"/|\w+:", link), link
            if link.startswith("page/"):
                file = served.ask(f"/{link}")
                assert file.status == 200
                addresses = set(re.findall(rb"https?://[^\s\"')]+", file.content))
                # The name of a language, which nothing loads.
                assert addresses <= {b"http://www.w3.org/2000/svg"}


def test_the_health_and_the_numbers(served):
    ready = {"ready": True, "problem": "", "seconds_left": 0.0}
    assert served.ask("/health").json == ready
    assert served.ask("/live").json == {"live": True, "problem": ""}
    digest = served.ask("/version").json["network_sha256"]
    assert served.ask("/ready").json == {**ready, "network_sha256": digest}
    assert served.score(as_file(sound(32000))).status == 200
    answer = served.ask("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.content.decode().splitlines()
    numbers = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(numbers["asdf_ready"]) == 1
    assert float(numbers["asdf_recordings_in_memory"]) == 0
    assert float(numbers['asdf_requests_total{path="/score",status="200"}']) >= 1
    assert float(numbers["asdf_audio_seconds_total"]) >= 2
    assert float(numbers["asdf_pass_pieces_count"]) >= 2


def test_an_answer_is_counted_before_its_client_can_have_read_it():
    """Another process may be asked for the numbers as soon as the answer is whole."""
    counts = Counts()
    counted = 'asdf_requests_total{path="/score",status="200"} 1.0'
    seen = []

    async def send(message):
        seen.append((message["type"], counted in counts.as_text().decode()))

    async def receive():
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/score", "headers": []}
    exchanges = Exchanges(PlainTextResponse("-1.5"), counts, Names("localhost"))
    asyncio.run(exchanges(scope, receive, send))
    assert seen == [("http.response.start", False), ("http.response.body", True)]
    assert counted in counts.as_text().decode()

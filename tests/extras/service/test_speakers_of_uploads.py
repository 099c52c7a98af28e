"""A form with turns of speakers gets a score per speaker too."""

import numpy as np
import pytest

import asdf
from asdf.extras.service.answers import stated_columns
from asdf.segments import Segment, speakers_alone
from tests.extras.service.conftest import TESTS, as_file, as_form, running
from tests.unit.conftest import sound

RATE = 16000
CALL = sound(7 * RATE, 4)
TURNS = {
    "ann": [Segment(0.0, 3.2), Segment(5.5, 6.5)],
    "bob": [Segment(3.0, 5.5)],
    "cy": [Segment(0.5, 1.0)],
}


def as_rttm(turns, name="call"):
    lines = []
    for speaker, segments in turns.items():
        for start, end in segments:
            lines.append(f"SPEAKER {name} 1 {start} {end - start:.3f} <NA> <NA> {speaker} <NA>\n")
    return "".join(lines).encode()


@pytest.fixture(scope="module")
def detector(network):
    options = {"network_folder": TESTS, "threads": 1, "threshold": 0.0, "speech_check": "off"}
    return asdf.Detector(network, "cpu", **options)


@pytest.fixture(scope="module")
def served(detector):
    with running(detector) as service:
        yield service


def ask(served, query="", **others):
    body, kind = as_form(as_file(CALL), "file.bin", **others)
    return served.score(body, query, Content_Type=kind)


def test_speakers_get_what_the_detector_gives_them(served, detector):
    content = as_file(CALL)
    answer = ask(served, rttm=as_rttm(TURNS)).json
    [whole] = answer["recordings"]
    assert whole["score"] == pytest.approx(detector.score_whole(content).score, abs=1e-6)
    expected = detector.score_speakers(content, speakers_alone(TURNS))
    assert [entry["speaker"] for entry in answer["speakers"]] == ["ann", "bob", "cy"]
    for entry, one in zip(answer["speakers"][:2], expected, strict=False):
        assert entry["score"] == pytest.approx(one.result.score, abs=1e-6)
        assert entry["verdict"] == one.result.verdict
        assert np.allclose(entry["alone"], one.speaker.alone)
        assert entry["overlapped_s"] == pytest.approx(one.speaker.overlapped_s)
    never = answer["speakers"][2]
    assert never["score"] is None and "never speaks alone" in never["error"]
    schemas = served.ask("/openapi.json").json["components"]["schemas"]
    for entry in answer["speakers"]:
        assert set(schemas["SpeakerAnswer"]["required"]) <= set(entry)


def test_channels_that_differ_are_scored_each_of_each_speaker(served, detector):
    content = as_file(np.stack([CALL, -0.5 * CALL], axis=1))
    entries = ask(served, file=content, rttm=as_rttm(TURNS)).json["speakers"]
    expected = detector.score_speakers(content, speakers_alone(TURNS))
    for entry, one in zip(entries[:2], expected, strict=False):
        assert one.result.remark.startswith("the channels cancel each other")
        assert (entry["verdict"], entry["remark"]) == (one.result.verdict, one.result.remark)
        assert entry["score"] == pytest.approx(one.result.score, abs=1e-6)
        scores = [each["score"] for each in one.result.entry()["channels"]]
        assert [each["score"] for each in entry["channels"]] == pytest.approx(scores, abs=1e-6)


def test_a_page_gets_what_it_shows_of_each_speaker(served) -> None:
    turns = as_rttm(TURNS)
    answer = ask(served, "?outline=10", rttm=turns).json
    for entry in (*answer["recordings"], *answer["speakers"]):
        assert entry["shown"].keys() == {"facts", "sentences", "doubt", "is_clear"}
    # Behind the columns of recordings in its table, as in that of `score`.
    assert stated_columns()[-1] == ("speaker", "overlapped_s")
    plain = ask(served, rttm=turns).json
    assert not any("shown" in entry for entry in (*plain["recordings"], *plain["speakers"]))


def test_without_turns_nothing_changes(served):
    assert "speakers" not in ask(served).json


@pytest.mark.parametrize(
    ("turns", "query", "message"),
    [
        (b"SPEAKER call 1 0 x <NA> <NA> ann <NA> <NA>\n", "", "rttm, line 1: a turn of 'ann' from"),
        (as_rttm({"ann": [Segment(0, 9)]}), "", "file.bin [ann]: a turn ends at 9.00 s"),
        (as_rttm(TURNS, "a") + as_rttm(TURNS, "b"), "", "not of 'file.bin'"),
        (as_rttm(TURNS), "?trial=true", "trial applies to whole recordings"),
    ],
)
def test_turns_that_do_not_fit_are_refused(served, turns, query, message):
    answer = ask(served, query, rttm=turns)
    assert answer.status == 422 and message in answer.json["error"]


def test_two_recordings_are_refused(served):
    answer = ask(served, other=as_file(CALL))
    assert answer.status == 422 and "no form field 'other'" in answer.json["error"]

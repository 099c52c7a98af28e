"""A form with a reference, of a network that compares recordings."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import asdf
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.networks import build_network
from asdf.scoring.made_by import recording_digest
from asdf.segments import Segment
from asdf.service.audit_file import AuditFile
from tests.unit.conftest import sound
from tests.unit.scoring.test_reference import pair_settings
from tests.unit.service.conftest import LIMITS, as_file, running
from tests.unit.service.test_speakers_of_uploads import as_rttm, ask

CALL, KNOWN, OTHER = sound(24000, 0), sound(20000, 1), sound(18000, 2)


@pytest.fixture(scope="module")
def detector(tmp_path_factory):
    torch.manual_seed(0)
    settings = pair_settings()
    path = tmp_path_factory.mktemp("network") / "pairs.pt"
    write_network_file(path, NetworkFile.from_network(build_network(settings), settings))
    return asdf.Detector(path, "cpu")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    return AuditFile(tmp_path_factory.mktemp("audit") / "audit.jsonl")


@pytest.fixture(scope="module")
def served(detector, audit):
    with running(detector, audit=audit) as service:
        yield service


def test_a_score_is_of_the_recording_and_the_reference(served, detector, audit):
    scores = {}
    for name, reference in {"known": KNOWN, "other": OTHER}.items():
        answer = ask(served, file=as_file(CALL), reference=as_file(reference))
        assert answer.status == 200, answer.json
        (recording,) = answer.json["recordings"]
        expected = detector.score(as_file(CALL), reference=as_file(reference))
        assert recording["score"] == pytest.approx(float(expected), abs=1e-6)
        assert recording["reference_sha256"] == recording_digest(as_file(reference))
        entry = json.loads(audit.path.read_text().splitlines()[-1])
        assert entry["reference_sha256"] == recording["reference_sha256"]
        scores[name] = recording["score"]
    assert scores["known"] != scores["other"]


def test_speakers_are_compared_with_it_too(served, detector):
    turns = {"ann": [Segment(0.0, 1.0)], "bob": [Segment(1.0, 1.5)]}
    files = {"file": as_file(CALL), "reference": as_file(KNOWN), "rttm": as_rttm(turns)}
    speakers = ask(served, **files).json["speakers"]
    alone = detector.score((CALL[:16000], 16000), reference=(KNOWN, 16000))
    assert speakers[0]["score"] == pytest.approx(float(alone), abs=1e-4)


def test_it_counts_as_audio_that_the_network_hears(detector):
    with running(detector, replace(LIMITS, rate=100, audio_rate=1)) as service:
        files = {"file": as_file(CALL), "reference": as_file(KNOWN)}
        assert ask(service, **files).status == 200
        refused = ask(service, **files)
    # 1.5 s and 1.25 s, of which one was allowed, and one more is each minute.
    assert refused.status == 429
    assert 1.5 * 60 < int(refused.headers["retry-after"]) <= 1.75 * 60 + 1


def test_without_one_it_says_how_to_send_it(served):
    answer = ask(served, file=as_file(CALL))
    assert answer.status == 422 and "-F reference=@known.wav" in answer.json["error"]


def test_a_reference_that_cannot_be_read_is_named(served):
    answer = ask(served, file=as_file(CALL), reference=b"no recording")
    assert answer.status == 422 and "the reference" in answer.json["error"]


def test_a_detector_refuses_one(network_file):
    with running(asdf.Detector(network_file, "cpu")) as service:
        answer = ask(service, file=as_file(CALL), reference=as_file(KNOWN))
    assert answer.status == 422 and "does not take a reference" in answer.json["error"]

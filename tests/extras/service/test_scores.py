"""A recording that is posted gets the answer of `python -m asdf score --json`."""

import hashlib
import json
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
import torch

import asdf
from asdf.__main__ import main
from asdf.extras.service.answers import score_command
from tests.extras.service.conftest import TESTS, as_file, as_form
from tests.unit.conftest import sound


@pytest.fixture
def command(network, tmp_path, monkeypatch):
    """Score a file with the command, and read its JSON."""

    def run(content: bytes, name: str, *options: str) -> dict:
        monkeypatch.chdir(tmp_path)
        (tmp_path / name).write_bytes(content)
        words = ["score", str(network), name, "--json", "out.json", "--network-folder", str(TESTS)]
        assert main([*words, "--device", "cpu", *options]) == 0
        return json.loads((tmp_path / "out.json").read_text())

    return run


def without(values: dict, name: str) -> dict:
    return {key: value for key, value in values.items() if key != name}


def without_provenance(document: dict) -> dict:
    """A document without what made it, which has the date."""
    entries = [without(entry, "sha256") for entry in document["recordings"]]
    return {**without(document, "made_by"), "recordings": entries}


def same(answer: object, expected: object) -> bool:
    """Whether two documents are the same, numbers up to rounding."""
    if isinstance(expected, dict):
        assert isinstance(answer, dict)
        return list(answer) == list(expected) and all(
            same(answer[key], expected[key]) for key in expected
        )
    if isinstance(expected, list):
        assert isinstance(answer, list)
        return len(answer) == len(expected) and all(map(same, answer, expected))
    if isinstance(expected, float):
        return answer == pytest.approx(expected, abs=1e-6)
    return answer == expected


# Shorter than the network's input, as long, and longer; mono and stereo, and of several rates.
CASES = {
    "short.wav": as_file(sound(3000)),
    "exact.flac": as_file(sound(16000, 1), kind="flac"),
    "long.wav": as_file(sound(50001, 2)),
    "stereo.ogg": as_file(np.stack([sound(90000, 3), sound(90000, 4)], 1), 44100, "ogg"),
    "half.mp3": as_file(sound(70000, 5), 24000, "mp3"),
    "silent.wav": as_file(np.zeros(40000)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_the_command(served, command, name):
    form, kind = as_form(CASES[name], name)
    answer = served.score(form, Content_Type=kind)
    assert answer.status == 200
    expected = command(CASES[name], name)
    expected["network"] = "plain.pt"
    assert same(without_provenance(answer.json), without_provenance(expected))


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("?window=0.5", ("--window", "0.5")),
        ("?window=1&hop=0.3", ("--window", "1", "--hop", "0.3")),
        ("?trial=true", ("--trial",)),
    ],
)
def test_questions_are_the_options_of_the_command(served, command, query, options):
    answer = served.score(CASES["long.wav"], query).json
    expected = command(CASES["long.wav"], "long.wav", *options)
    expected["network"] = "plain.pt"
    # A body without a form has no name.
    expected["recordings"][0]["path"] = "-"
    assert same(without_provenance(answer), without_provenance(expected))


def test_an_answer_says_what_made_it(served, network, detector):
    content = CASES["long.wav"]
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    answer = served.score(content, "?window=1&hop=0.3").json
    assert answer["recordings"][0]["sha256"] == hashlib.sha256(content).hexdigest()
    made = answer["made_by"]
    assert made["command"].startswith("asdf-antispoofing score plain.pt ")
    assert "--device=cpu --threads=1 --precision=fp32" in made["command"]
    assert made["command"].endswith("--speech-check=built-in --window=1 --hop=0.3 --json=-")
    assert list(made) == ["asdf", "torch", "network_sha256", "date", "options", "command"]
    assert made["network_sha256"] == hashlib.sha256(network.read_bytes()).hexdigest()
    assert (made["asdf"], made["torch"]) == (asdf.__version__, str(torch.__version__))
    assert before <= datetime.fromisoformat(made["date"]) <= datetime.now(timezone.utc)
    computed = {"precision": "fp32", "engine": detector.engine, "device": "cpu"}
    heard = {"max_samples": 16000, "window": 1.0, "hop": 0.3, "trial": False, "parts": False}
    assert made["options"] == {"threshold": None, **computed, **heard, "speech_check": "off"}
    for base, shown in (("/models/base.pt", "base.pt"), ("hub:org/base", "hub:org/base")):
        other = asdf.Detector(network, "cpu", TESTS, 1, True, base=base, speech_check="off")
        words = score_command(other, "plain.pt", "call.wav", True, None).split()
        assert {f"--base={shown}", "--speech-check=off", "--full-length", "--trial"} <= {*words}
    version = served.ask("/version").json
    assert version["network"] == "plain.pt"
    for name in ("asdf", "torch", "network_sha256"):
        assert version[name] == made[name]

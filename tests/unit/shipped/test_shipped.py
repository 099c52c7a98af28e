"""The shipped detector: whole, as it was measured, used by its name, and usable offline."""

from __future__ import annotations

import hashlib
import json
import socket
from pathlib import Path

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.errors import AsdfError
from asdf.hub import known_detectors
from asdf.interchange import find_network, read_network
from asdf.shipped import FACTS, NETWORK, is_shipped, shipped_detector

# Of the waveform of `voiced`, by the file whose digest is in facts.json.
LLR = -2.0493
"""The bound of what its calibration set supports."""

UNBOUNDED = -2.2837


def voiced(seconds: float = 2.0) -> np.ndarray:
    """Return ten harmonics of 120 Hz, whose loudness rises and falls four times per second."""
    times = np.arange(round(16000 * seconds)) / 16000
    harmonics = [np.sin(2 * np.pi * 120 * k * times) / k for k in range(1, 11)]
    return (0.1 * np.sum(harmonics, axis=0) * np.sin(4 * np.pi * times) ** 2).astype(np.float32)


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    """An empty folder to work in, without any network."""

    def refuse(*args, **kwargs):
        raise OSError("there is no network")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tmp_path


def test_the_file_is_the_measured_one():
    assert hashlib.sha256(NETWORK.read_bytes()).hexdigest() == shipped_detector().sha256
    assert NETWORK.stat().st_size < 500_000


def test_what_is_stated_of_the_weights_is_what_the_list_of_detectors_states():
    facts = json.loads(FACTS.read_text())
    [published] = [each for each in known_detectors() if each.name == facts["architecture"]]
    assert facts["weights"] == published.weights
    assert facts["weights_sha256"] == published.sha256
    assert facts["licence"] == published.licence == "MIT"
    assert facts["published_eer"] == published.eers[0].percent


def test_the_calibration_says_what_it_was_learnt_from():
    facts = shipped_detector()
    calibration = asdf.Detector(device="cpu").calibration
    assert (calibration.bona_fide, calibration.spoof) == (facts.bona_fide, facts.spoof)
    assert calibration.speakers == facts.speakers
    assert 100 * calibration.eer == pytest.approx(facts.eer, abs=0.005)
    assert 0 < calibration.cross_validated_cllr < 1
    assert facts.eer_low < facts.eer < facts.eer_high


def test_the_licence_is_that_of_the_weights():
    text = shipped_detector().licence_path.read_text()
    assert text.startswith("Copyright (c) 2021-present NAVER Corp.\n\nPermission is hereby granted")
    # As it is in clovaai/aasist at commit a04c986.
    digest = "da2e79b8592d166ef505224300968b80ebe1e4c217c43b94a5ec627d81cd4142"
    assert hashlib.sha256(text.encode()).hexdigest() == digest
    assert "asvspoof-challenge/2021" in NETWORK.with_name("NOTICE.txt").read_text()


def test_a_recording_alone_is_scored_offline_and_with_a_warning(empty, capsys, caplog):
    soundfile.write("call.wav", voiced(), 16000)
    assert main(["score", "call.wav"]) == 0
    out, errors = capsys.readouterr()
    name, score, verdict = out.rstrip("\n").split("\t")[:3]
    assert name == "call.wav"
    # Sums of thousands of products, each rounded to 2^-24, in whatever order a processor adds.
    assert float(score) == pytest.approx(LLR, abs=2e-3)
    # Harmonics alone are no voice: there is a score, and no verdict.
    assert verdict == "" and "no speech found" in out
    # The log has it, which goes to standard error.
    errors += caplog.text
    assert shipped_detector().describe() in errors
    assert "no evidence by itself" in errors
    for fact in ("AASIST-L", "ASVspoof 2019 LA", "28 %", "Kokoro"):
        assert fact in errors


def test_a_tone_has_no_verdict_and_no_words_whoever_asks(empty):
    soundfile.write("tone.wav", voiced(), 16000)
    detector = asdf.Detector(device="cpu")
    trial = detector.score_trial("tone.wav")
    unchecked = asdf.Detector(device="cpu", speech_check="off").score_trial("tone.wav")
    assert float(trial) == float(unchecked) and unchecked.verdict == "undecided"
    for result in (trial, detector.score_whole("tone.wav")):
        assert (result.verdict, result.judged) == (None, False)
        assert (result.remark, result.llr_words) == ("not judged: no speech found", "")
    assert main(["score", "tone.wav", "--json", "out.json", "--csv", "out.csv"]) == 0
    [entry] = json.loads(Path("out.json").read_text())["recordings"]
    assert entry["llr"] == pytest.approx(LLR, abs=2e-3) and "llr_words" not in entry
    heading, row = Path("out.csv").read_text().splitlines()
    assert dict(zip(heading.split(","), row.split(","), strict=True))["llr_words"] == ""


def test_the_warning_goes_along_with_the_scores(empty):
    soundfile.write("call.wav", voiced(), 16000)
    assert main(["score", "small", "call.wav", "--json", "out.json"]) == 0
    document = json.loads(Path("out.json").read_text())
    assert document["network"] == "small"
    assert document["remark"].startswith(shipped_detector().describe())
    assert document["remark"].endswith("so all of its verdicts are 'undecided'.")
    assert document["made_by"]["network_sha256"] == shipped_detector().sha256


def test_a_detector_without_a_name_is_the_shipped_one(empty):
    detector = asdf.Detector(device="cpu")
    assert detector.source == "small"
    assert detector.remark.startswith(shipped_detector().describe())
    score = detector.score_trial(voiced(), 16000)
    assert score == pytest.approx(LLR, abs=1e-4)
    assert score.unbounded_llr == pytest.approx(UNBOUNDED, abs=2e-3)
    assert asdf.Detector("AASIST-L", device="cpu").score_trial(voiced(), 16000) == pytest.approx(
        LLR, abs=2e-3
    )


def test_the_weights_are_the_published_ones_and_calibrated(shared):
    weights = shared / "reference" / "AASIST-L.pth"
    published = asdf.Detector(weights, device="cpu")
    ours = asdf.Detector(device="cpu")
    raw = published.score_trial(voiced(), 16000)
    map_ = ours.calibration
    expected = map_.scale * float(raw) + map_.offset
    assert ours.score_trial(voiced(), 16000).unbounded_llr == pytest.approx(expected, abs=1e-5)
    _, file = read_network(find_network("small"))
    _, other = asdf.interchange.read_detector(weights)
    assert set(file.state) == set(other.state)
    for name, values in file.state.items():
        assert bool((values == other.state[name]).all()), name


def test_what_exists_comes_before_the_name(empty):
    assert is_shipped("small")
    assert find_network("small") == NETWORK
    Path("small").mkdir()
    assert not is_shipped("small")
    assert find_network("small") == Path("small")


def test_calibrating_it_writes_another_file(empty, capsys):
    Path("scores.txt").write_text("a 1 2.0\nb 0 -1.0\n")
    before = NETWORK.read_bytes()
    assert main(["calibrate", "small", "scores.txt"]) == 2
    assert "part of the installation and cannot be overwritten" in (capsys.readouterr().err)
    assert NETWORK.read_bytes() == before


def test_a_published_name_says_where_its_weights_are(empty):
    with pytest.raises(
        AsdfError, match=r"are not here\. Download them from https://github.com"
    ) as e:
        asdf.Detector("AASIST")
    assert "python -m asdf import AASIST.pth net.pt" in str(e.value)
    Path("AASIST.pth").write_bytes(b"something else")
    with pytest.raises(AsdfError, match="is not the file of AASIST that its authors published"):
        asdf.Detector("aasist")
    Path("sls.pth").write_bytes(b"of unknown digest")
    assert find_network("SLS") == Path("sls.pth")


@pytest.mark.parametrize("detector", known_detectors(), ids=lambda detector: detector.name)
def test_every_listed_name_resolves_or_says_how(detector, empty, monkeypatch):
    downloaded = []
    monkeypatch.setattr(
        "asdf.interchange.named_networks.download_network",
        lambda name: downloaded.append(name.repository) or NETWORK,
    )
    short = detector.name.rpartition("/")[2]
    if detector.on_hub:
        find_network(f"hub:{detector.name}")
        find_network(short)
        assert downloaded == [detector.name, detector.name]
    elif detector.name == "AASIST-L":
        assert find_network(short) == NETWORK
    else:
        with pytest.raises(AsdfError, match="Download them from https://"):
            find_network(short)

"""The shipped detector: whole, as it was measured, used by its name, and usable offline."""

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
from asdf.shipped import NETWORK, is_shipped, shipped_detector
from tests.conftest import ROOT

# Of the waveform of `voiced`, by the file whose digest is in facts.json.
LLR = 0.8815
RAW = 1.4907
# Of the recordings that it was calibrated on.
LEVELS = [-42.98, -13.16]
OFFSETS = [-0.000781, 0.002035]


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
    assert NETWORK.with_name("LICENSE.txt").read_text() == (ROOT / "LICENSE").read_text()


def test_its_sources_and_their_licences_are_stated():
    facts = shipped_detector()
    notice = " ".join(NETWORK.with_name("NOTICE.txt").read_text().split())
    people = ("Allison Smith", "Carlo Flora", "N. V. Shmyrev", "Fish Fillets NG", "Tux Paint")
    programs = ("espeak-ng", "festival", "flite", "WORLD", "librosa", "Kokoro", "SPTK")
    for source in (*people, *programs):
        assert source in " ".join(facts.sources), source
        words = {"N. V. Shmyrev": "Shmyrev", "Tux Paint": "tuxpaint-stamps-default"}
        assert words.get(source, source) in notice, source
    for licence in ("CC BY-SA 3.0", "CC BY 3.0", "GPL-2", "GPL-3+", "LGPL-2.1+", "Apache-2.0"):
        assert licence in notice and licence in " ".join(facts.sources.values()), licence
    # The first words that a reader of a score sees: the range, then the rates.
    assert facts.describe_worth().startswith(
        f"It states no ratio above {facts.ratio_bona_fide:.0f} to 1 for bona fide"
    )


def test_the_calibration_says_what_it_was_learnt_from():
    """Of recordings whose attacks and speakers training lacked."""
    facts = shipped_detector()
    calibration = asdf.Detector(device="cpu").calibration
    assert (calibration.bona_fide, calibration.spoof) == (facts.bona_fide, facts.spoof)
    assert calibration.speakers == facts.speakers
    # A quarter each as they are, by telephone, through a codec and cut short.
    assert 100 * calibration.eer == pytest.approx(17.42, abs=0.005)
    assert 0 < calibration.cross_validated_cllr < 1
    assert facts.eer_low < facts.eer < facts.eer_high
    assert calibration.set == "mini, attacks and speakers that training lacked"
    assert calibration.chose_network is None
    assert np.exp(calibration.highest_llr) == pytest.approx(facts.ratio_bona_fide, abs=0.05)
    assert np.exp(-calibration.lowest_llr) == pytest.approx(facts.ratio_spoof, abs=0.05)
    # Of all recordings that it was calibrated on: remarks name what lies outside.
    assert calibration.others["levels"] == {"level_dbfs": LEVELS, "offset": OFFSETS}


def test_a_recording_alone_is_scored_offline_and_with_a_warning(empty, capsys, caplog):
    soundfile.write("call.wav", voiced(), 16000, subtype="FLOAT")
    assert main(["score", "call.wav", "--json", "out.json"]) == 0
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
    for fact in ("mini-best", "643 unaltered", "no ratio above", "from elsewhere", "hibari"):
        assert fact in errors
    document = json.loads(Path("out.json").read_text())
    assert document["network"] == "small"
    assert document["remark"] == shipped_detector().describe()
    assert document["made_by"]["network_sha256"] == shipped_detector().sha256


def test_a_tone_has_no_verdict_and_no_words_whoever_asks(empty):
    soundfile.write("tone.wav", voiced(), 16000, subtype="FLOAT")
    detector = asdf.Detector(device="cpu")
    trial = detector.score_trial("tone.wav")
    unchecked = asdf.Detector(device="cpu", speech_check="off").score_trial("tone.wav")
    assert float(trial) == float(unchecked) and unchecked.verdict == "bona fide"
    for result in (trial, detector.score_whole("tone.wav")):
        assert (result.verdict, result.judged) == (None, False)
        assert (result.remark, result.llr_words) == ("not judged: no speech found", "")
    assert main(["score", "tone.wav", "--json", "out.json", "--csv", "out.csv"]) == 0
    [entry] = json.loads(Path("out.json").read_text())["recordings"]
    assert entry["llr"] == pytest.approx(LLR, abs=2e-3) and "llr_words" not in entry
    heading, row = Path("out.csv").read_text().splitlines()
    assert dict(zip(heading.split(","), row.split(","), strict=True))["llr_words"] == ""


def test_a_detector_without_a_name_is_the_shipped_one(empty):
    detector = asdf.Detector(device="cpu")
    assert (detector.source, detector.remark) == ("small", shipped_detector().describe())
    score = detector.score_trial(voiced(), 16000)
    assert score == pytest.approx(LLR, abs=2e-3)
    assert (score.raw, score.unbounded_llr) == (pytest.approx(RAW, abs=2e-3), None)
    assert asdf.Detector("Small", device="cpu").score_trial(voiced(), 16000) == score
    # The map of the network's own score.
    network, _ = read_network(find_network("small"))
    assert sum(value.numel() for value in network.parameters()) == 75_394
    map_ = detector.calibration
    assert score == pytest.approx(map_.scale * score.raw + map_.offset, abs=1e-5)
    # Louder is not more genuine.
    for gain in (0.1, 2.0):
        louder = detector.score_trial(gain * voiced(), 16000).raw
        assert louder == pytest.approx(score.raw, abs=0.1)


def test_it_separates_recordings_that_it_was_not_trained_on(shared):
    """The development part has the attacks of training, so this says nothing about others."""
    mini = shared / "corpora" / "mini"
    rows = [line.split() for line in (mini / "dev_list.txt").read_text().splitlines()[::8]]
    detector = asdf.Detector(device="cpu")
    right = []
    for each in detector.score_many([mini / path for path, _ in rows]):
        right.append((each.score >= detector.threshold) == (rows[each.index][1] == "1"))
    assert len(right) == 25 and sum(right) >= 23


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
        "asdf.interchange.finding.download_network",
        lambda name: downloaded.append(name.repository) or NETWORK,
    )
    short = detector.name.rpartition("/")[2]
    if detector.on_hub:
        find_network(f"hub:{detector.name}")
        find_network(short)
        assert downloaded == [detector.name, detector.name]
    else:
        with pytest.raises(AsdfError, match="Download them from https://"):
            find_network(short)

"""Commands and the service with networks of other rates and channels: done, or refused by name."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.extras.service.service import Question, Slot
from asdf.extras.service.uploads import Upload, Wait
from tests.extras.service.conftest import LIMITS, running
from tests.unit.scoring.test_other_rates import STEREO, saved, sections, speech


@pytest.fixture
def network(tmp_path: Path) -> Path:
    """A network of 24 kHz."""
    saved(tmp_path / "network.pt", sections(24_000))
    return tmp_path / "network.pt"


@pytest.fixture
def stereo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A network of two channels, at 16 kHz."""
    monkeypatch.delitem(sys.modules, "my_sides", raising=False)
    (tmp_path / "my_sides.py").write_text(STEREO)
    settings = sections(16_000, "all")
    settings.network.network_class = "my_sides.Sides"
    settings.front_end.front_end_class = settings.back_end.back_end_class = None
    saved(tmp_path / "stereo.pt", settings, tmp_path)
    return tmp_path / "stereo.pt"


def refusal_of(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([*map(str, words)]) == 2
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


@pytest.mark.parametrize("layout", ["transformers", "aasist", "df_arena"])
def test_layouts_that_state_no_rate_refuse_others(network, tmp_path, capsys, layout) -> None:
    message = refusal_of(capsys, "export", network, tmp_path / "out", "--format", layout)
    assert f"The layout {layout} is made for networks that hear 16 kHz and one channel" in message
    assert "hears recordings at 24,000 Hz, the mean of the channels" in message


@pytest.mark.parametrize("layout", ["onnx", "torchscript"])
def test_graphs_of_several_channels_are_refused(stereo, tmp_path, capsys, layout) -> None:
    words = ("--format", layout, "--network-folder", tmp_path)
    message = refusal_of(capsys, "export", stereo, tmp_path / "out", *words)
    assert f"uses all channels of a recording, but the input of {layout} is" in message


@pytest.mark.slow
def test_a_graph_states_its_rate(network, tmp_path, capsys) -> None:
    words = ["export", str(network), str(tmp_path / "out.ts"), "--format", "torchscript"]
    assert main([*words, "--samples", "24000"]) == 0
    assert "takes waveforms (batch, 24000) at 24 kHz" in capsys.readouterr().out


def test_measurements_on_copies_are_of_16_khz(network, tmp_path, capsys) -> None:
    lines = []
    for index in range(4):
        soundfile.write(tmp_path / f"{index}.wav", speech(24_000, 0.6), 24_000)
        lines.append(f"{index}.wav {index % 2}")
    (tmp_path / "list.txt").write_text("\n".join(lines) + "\n")
    words = ("robustness", network, tmp_path / "list.txt", "--output", tmp_path / "out")
    assert "on changed copies is made for networks that hear 16 kHz" in refusal_of(capsys, *words)


def test_score_reads_at_the_network_s_rate(network, tmp_path) -> None:
    detector = asdf.Detector(network, "cpu")
    soundfile.write(tmp_path / "x.wav", speech(48_000), 48_000, subtype="FLOAT")
    words = [str(network), str(tmp_path / "x.wav"), "--device", "cpu"]
    assert main(["score", *words, "--json", str(tmp_path / "x.json")]) == 0
    document = json.loads((tmp_path / "x.json").read_text())
    assert document["recordings"][0]["score"] == pytest.approx(
        float(detector.score_trial(tmp_path / "x.wav")), abs=1e-4
    )
    assert "48,000 samples at 24 kHz (2 s)" in document["scores"]


def test_the_service_hears_what_the_detector_hears(network, stereo, tmp_path) -> None:
    mono = speech(48_000, 5.0)
    both = np.stack([mono, 0.3 * mono], axis=1)
    for path, samples in ((network, mono), (stereo, both)):
        detector = asdf.Detector(path, "cpu", tmp_path)
        content = io.BytesIO()
        soundfile.write(content, samples, 48_000, format="WAV", subtype="FLOAT")
        expected = detector.score_whole(samples, 48_000)
        with running(detector, LIMITS) as served:
            answer = served.score(content.getvalue(), "?window=1&hop=1&outline=10")
            assert answer.status == 200, answer.content
            (result,) = answer.json["recordings"]
        assert result["score"] == pytest.approx(expected.score, abs=1e-4)
        assert result["seconds"] == pytest.approx(5.0)
        assert [window["start_s"] for window in result["windows"]] == [0, 1, 2, 3, 4]


def test_the_service_hears_speakers_of_a_chosen_channel(tmp_path) -> None:
    saved(tmp_path / "second.pt", sections(24_000, 1))
    detector = asdf.Detector(tmp_path / "second.pt", "cpu")
    both = np.stack([0.1 * speech(24_000, 5.0), speech(24_000, 5.0)], axis=1)
    soundfile.write(tmp_path / "call.wav", both, 24_000, subtype="FLOAT")
    (tmp_path / "call.rttm").write_text("SPEAKER call 1 1.0 2.0 <NA> <NA> a <NA> <NA>\n")
    (expected,) = detector.score_speakers(tmp_path / "call.wav", tmp_path / "call.rttm")
    content, turns = ((tmp_path / name).read_bytes() for name in ("call.wav", "call.rttm"))
    upload = Upload(content, "call.wav", turns)
    with running(detector, LIMITS) as served:
        wait = Wait(time.monotonic() + 60, Event())
        decoded = served.service._decode(upload, Question(), wait, Slot())
    ((speaker, pieces),) = decoded.speakers
    assert speaker.name == "a" and pieces is not None and pieces.total == 48_000
    outcomes = detector.pipeline.score(pieces.all)
    scored, _ = detector.pipeline.conclude(pieces, outcomes, "call.wav")
    assert scored.score == pytest.approx(expected.result.score, abs=1e-5)


def test_what_is_no_speech_is_not_judged_at_any_rate(network) -> None:
    detector = asdf.Detector(network, "cpu", threshold=0.0)
    times = np.arange(3 * 48_000) / 48_000
    tone = (0.3 * np.sin(2 * np.pi * 440 * times)).astype(np.float32)
    assert "no speech found" in detector.score_trial(tone, 48_000).remark

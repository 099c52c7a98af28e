"""`python -m asdf why`: maps as text, JSON and pictures."""

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import soundfile

import asdf
from asdf.__main__ import main
from asdf.extras.forensic.why.explaining import Explainer, explain
from asdf.extras.forensic.why.explanation import Options, explanation_text
from tests.unit.conftest import small_settings, sound, write_small_network

# Where the package of the network lies.
ROOT = Path(__file__).resolve().parents[4]
SPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "recordings").mkdir()
    soundfile.write(tmp_path / "recordings" / "a.wav", sound(6000), 16000)
    soundfile.write(tmp_path / "recordings" / "b.wav", sound(20_000, 1), 16000)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def network_file(tmp_path):
    """A network of which hundreds of passes take no time."""
    settings = small_settings(network_class="tests.extras.forensic.why.listeners.Learned")
    return write_small_network(tmp_path / "network.pt", settings)


@pytest.fixture
def why(capsys, network_file):
    def run(*words):
        rest = ("--device", "cpu", "--network-folder", str(ROOT))
        status = main(["why", str(network_file), *map(str, words), *rest])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def test_the_outputs_are_those_of_explain(folder, why, network_file):
    status, _, errors = why("recordings", "-o", "out/call.2", "--by", "both")
    assert status == 0, errors
    written = json.loads((folder / "out/call.2.json").read_text())
    detector = asdf.Detector(network_file, "cpu", ROOT)
    names = [entry["name"] for entry in written["recordings"]]
    assert names == ["recordings/a.wav", "recordings/b.wav"]
    for entry in written["recordings"]:
        wanted = Options(methods=("occlusion", "gradients"))
        expected = explain(detector, entry["name"], options=wanted)
        picture = entry.pop("picture")
        assert entry == expected.entry()
        assert explanation_text(expected) in errors
        svg = ElementTree.parse(folder / "out" / picture).getroot()
        classes = [path.get("class") for path in svg.iter(f"{SPACE}path")]
        areas = [name for name in classes if "area" in name]
        dots = [name for name in classes if "marker" in name]
        # A dot for each marked cell, an area for each that is not within a twentieth of nothing.
        shown = 0
        for found in expected.maps:
            shares = np.abs(found.cells_SB) / np.abs(found.cells_SB).max()
            shown += int((np.round(10 * shares) >= 1).sum())
        assert len(areas) == shown
        assert len(dots) == sum(int(found.marked_SB.sum()) for found in expected.maps)
    # The network hears half a second: of the longer recording the lowest window is examined.
    lowest = detector.score_whole("recordings/b.wav").lowest
    assert written["recordings"][1]["start_s"] == lowest.start_s
    assert not list((folder / "out").glob(".*"))


def test_a_stopped_command_goes_on(folder, why, monkeypatch):
    examined = []
    explain_one = Explainer.explain

    def stop_at_the_second(self, recording, *rest):
        if examined:
            raise KeyboardInterrupt
        examined.append(recording)
        return explain_one(self, recording, *rest)

    monkeypatch.setattr(Explainer, "explain", stop_at_the_second)
    status, _, errors = why("recordings", "-o", "call")
    assert status == 130
    assert "finished explanations are saved next to call.json" in errors
    assert not (folder / "call.json").exists()
    seen = []

    def remember(self, recording, *rest):
        seen.append(recording)
        return explain_one(self, recording, *rest)

    monkeypatch.setattr(Explainer, "explain", remember)
    assert why("recordings", "-o", "call")[0] == 0
    assert [str(path) for path in seen] == ["recordings/b.wav"]
    assert len(json.loads((folder / "call.json").read_text())["recordings"]) == 2


def test_a_recording_that_cannot_be_read_leaves_the_rest(folder, why):
    (folder / "recordings" / "c.wav").write_bytes(b"no sound")
    status, _, errors = why("recordings", "-o", "call")
    assert status == 1
    assert "recordings/c.wav: not explained:" in errors
    assert len(json.loads((folder / "call.json").read_text())["recordings"]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "-"), "several files"),
        ((), "--output OUT is missing"),
        (("-o", "x", "--start", "-1"), "seconds from 0 on"),
    ],
)
def test_what_cannot_be_meant_is_refused(folder, why, words, message):
    status, _, errors = why("recordings", *words)
    assert status == 2
    assert message in errors

"""A network that takes references, in recordings, windows, streams and copies."""

import pickle

import numpy as np
import pytest
import soundfile

from asdf import Detector
from asdf.audio import read_audio
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.networks import build_network
from asdf.scoring.opened_network import copy_with
from tests.unit.conftest import network_settings, sound


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A network whose score is the level of a recording without that of its reference."""
    tmp_path = tmp_path_factory.mktemp("levels")
    (tmp_path / "my_levels.py").write_text(
        "import torch\n"
        "class Levels(torch.nn.Module):\n"
        "    further_inputs = ('references',)\n"
        "    def __init__(self, settings):\n"
        "        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.ones(1))\n"
        "    def forward(self, waveforms_BT, references=None):\n"
        "        assert references.shape == waveforms_BT.shape\n"
        "        levels = waveforms_BT.abs().mean(1) - references.abs().mean(1)\n"
        "        logits = torch.stack([-levels, levels], dim=1) + 0 * self.scale\n"
        "        return logits, logits\n"
    )
    for number, seconds in enumerate((1.0, 1.5, 3.0)):
        waveform = sound(int(16000 * seconds), number) * (number + 1)
        soundfile.write(tmp_path / f"{number}.wav", waveform, 16000, subtype="FLOAT")
    return tmp_path


def open_levels(folder) -> Detector:
    settings = network_settings(
        network_class="my_levels.Levels",
        min_evaluation_utterance_length_in_samples=8000,
        max_evaluation_utterance_length_in_samples=32000,
    )
    path = folder / "levels.pt"
    if not path.exists():
        network = build_network(settings, folder)
        write_network_file(path, NetworkFile.from_network(network, settings))
    return Detector(path, "cpu", network_folder=folder, speech_check="off")


def level(folder, number: int, start: int = 0, end: int = 32000) -> float:
    return float(np.abs(read_audio(folder / f"{number}.wav")[start:end]).mean())


def test_everything_is_heard_beside_the_reference_or_zeros(folder):
    alone = open_levels(folder)
    assert alone.takes_references and alone.warm_up(0.5) is alone
    assert float(alone.score_trial(folder / "0.wav")) == pytest.approx(level(folder, 0), abs=1e-6)
    beside = alone.with_reference(folder / "1.wav")
    # Cut to the length of the recording.
    known = level(folder, 1, end=16000)
    expected = level(folder, 0) - known
    assert float(beside.score_trial(folder / "0.wav")) == pytest.approx(expected, abs=1e-6)
    expected = [level(folder, 2, s, s + 16000) - known for s in (0, 16000, 32000)]
    windows = beside.score_over_time(folder / "2.wav", 1.0, 1.0)
    assert [window.score for window in windows] == pytest.approx(expected, abs=1e-6)
    stream = beside.stream(16000, 1.0, 1.0)
    streamed = [*stream.add(read_audio(folder / "2.wav"))]
    assert [window.score for window in streamed] == pytest.approx(expected, abs=1e-6)
    assert float(alone.score_trial(folder / "0.wav")) == pytest.approx(level(folder, 0), abs=1e-6)


def test_copies_have_the_reference(folder):
    detector = open_levels(folder).with_reference(folder / "1.wav")
    expected = float(detector.score_trial(folder / "0.wav"))
    for same in (pickle.loads(pickle.dumps(detector)), copy_with(detector, engine="plain")):
        assert float(same.score_trial(folder / "0.wav")) == expected


def test_other_networks_ignore_it(folder, network_file):
    detector = Detector(network_file, "cpu")
    assert not detector.takes_references
    beside = detector.with_reference(folder / "1.wav")
    assert beside.score_trial(folder / "0.wav") == detector.score_trial(folder / "0.wav")

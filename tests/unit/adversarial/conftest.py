"""Lists of short recordings, and detectors whose best attacks are known by a formula."""

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.networks import build_network
from asdf.robustness import Rival
from asdf.settings.sections import Sections
from asdf.trials.lists import read_list
from tests.extras.forensic.why.conftest import listener, write_listener  # noqa: F401 (fixtures)

RATE = 16_000


@pytest.fixture
def trials(tmp_path):
    """Eight recordings of half a second; every second one holds the tone that `Linear` weighs."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    times = np.arange(RATE // 2)
    lines = ["path,label"]
    for number in range(8):
        rng = np.random.default_rng(number)
        label = number % 2
        level = (0.003 if label else -0.003) * rng.uniform(0.5, 1.5)
        samples = level * np.cos(0.3 * times) + 0.05 * rng.standard_normal(len(times))
        soundfile.write(folder / f"r{number}.wav", samples, RATE, subtype="FLOAT")
        lines.append(f"r{number}.wav,{label}")
    table = folder / "list.csv"
    table.write_text("\n".join(lines) + "\n")
    return read_list(table, folder, "tiny")


@pytest.fixture
def linear(listener):  # noqa: F811
    """The detector that weighs half a second by cosines, with its own threshold."""
    detector = listener("Linear", samples=RATE // 2)
    detector.threshold = 0.0
    return Rival("linear", detector, "digest")


@pytest.fixture
def small_listener(tmp_path):
    """Make a detector of a small network with a front end by name."""

    def make(front_end: str) -> asdf.Detector:
        sections = Sections()
        sections.front_end.front_end_class = front_end
        sections.network.network_class = "asdf.networks.SSL_ASP"
        sections.network.min_evaluation_utterance_length_in_samples = 8000
        sections.network.max_evaluation_utterance_length_in_samples = 8000
        torch.manual_seed(0)
        path = tmp_path / f"{front_end}.pt"
        write_network_file(path, NetworkFile.from_network(build_network(sections), sections))
        return asdf.Detector(path, "cpu", threads=1)

    return make

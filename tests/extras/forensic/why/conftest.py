"""Detectors of networks that listen to what is known."""

from pathlib import Path

import pytest
import torch

import asdf
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.networks import build_network
from asdf.settings.sections import Sections

# Where the package of `listeners` lies.
ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def write_listener(tmp_path):
    """Write the file of a network of `listeners`, which hears a second at once."""

    def write(name: str, samples: int = 16_000, **settings):
        sections = Sections()
        sections.network.network_class = f"tests.extras.forensic.why.listeners.{name}"
        sections.network.min_evaluation_utterance_length_in_samples = samples
        sections.network.max_evaluation_utterance_length_in_samples = samples
        sections.sad.mode = settings.get("sad", "off")
        torch.manual_seed(0)
        path = tmp_path / f"{name}.pt"
        write_network_file(path, NetworkFile.from_network(build_network(sections), sections))
        return path

    return write


@pytest.fixture
def listener(write_listener):
    def make(name: str, **options) -> asdf.Detector:
        return asdf.Detector(write_listener(name, **options), "cpu", ROOT, threads=1)

    return make

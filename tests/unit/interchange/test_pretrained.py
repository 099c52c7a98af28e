"""Pretrained weights in networks of every kind: who gets them, and from which file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from asdf.checkpoint.network_file import NetworkFile
from asdf.errors import AsdfError
from asdf.interchange import build_pretrained, load_pretrained
from asdf.networks import Wav2Vec2FrontEnd, build_network
from asdf.settings import Settings
from asdf.settings.sections import FrontEnd, Sections

NETWORK = """
from dataclasses import replace
import torch
from asdf.networks import SSL_ASP, DetectorNetwork, FrontEnd, Wav2Vec2FrontEnd


class Mean(torch.nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.early = Wav2Vec2FrontEnd(settings.front_end)
        self.late = Wav2Vec2FrontEnd(settings.front_end)
        self.output = torch.nn.Linear(self.early.dimension, 2)

    def forward(self, waveforms_BT):
        return waveforms_BT, self.output(self.early(waveforms_BT).mean(dim=1))


class Reader(torch.nn.Module):
    '''It reads what front_end.weights names by itself.'''

    def __init__(self, settings):
        super().__init__()
        self.text = open(settings.front_end.weights).read()

    def forward(self, waveforms_BT):
        return waveforms_BT, waveforms_BT[:, :2]


class Two(SSL_ASP):
    def make_back_end(self, settings):
        back_end = super().make_back_end(settings)
        other = replace(settings.front_end, weights=OTHER, architecture=ARCHITECTURE)
        back_end.teacher = Wav2Vec2FrontEnd(other)
        return back_end
"""


@pytest.fixture
def own(tiny, tmp_path):
    """The settings of a network in a file of its own."""

    def choose(class_name, module="my_pretrained", **names):
        assignments = "".join(f"{name} = {value!r}\n" for name, value in names.items())
        (tmp_path / f"{module}.py").write_text(NETWORK + assignments)
        tiny.network.network_class = f"{module}.{class_name}"
        return tiny

    return choose


@pytest.fixture
def projection(reference):
    """A weight of the checkpoint whose architecture is not 'tiny'."""
    content = torch.load(reference("fairseq_xlsr_like.pt"), weights_only=True)
    return content["model"]["post_extract_proj.weight"]


def projection_of(front_end):
    return front_end.model.encoder.feature_projection.projection.weight


def test_every_front_end_of_a_users_network_gets_them(own, reference, projection, tmp_path):
    settings = own("Mean")
    settings.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    torch.manual_seed(3)
    network = build_pretrained(settings, tmp_path)
    for front_end in (network.early, network.late):
        assert torch.equal(projection_of(front_end), projection)
        assert front_end.unloaded_weights is None
    # The rest is drawn as without pretrained weights.
    section = replace(
        settings.front_end, weights=None, architecture=network.early.architecture_setting
    )
    torch.manual_seed(3)
    afresh = build_network(replace(settings, front_end=section), tmp_path)
    assert torch.equal(network.output.weight, afresh.output.weight)


def test_a_second_front_end_may_name_a_file_of_its_own(own, reference, tmp_path):
    torch.manual_seed(5)
    teacher = Wav2Vec2FrontEnd(FrontEnd(architecture="small"))
    torch.save(teacher.model.state_dict(), tmp_path / "teacher.pt")
    path = str(tmp_path / "teacher.pt")
    settings = own("Two", "my_teacher", OTHER=path, ARCHITECTURE="small")
    settings.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    network = build_pretrained(settings, tmp_path)
    assert torch.equal(projection_of(network.back_end.teacher), projection_of(teacher))


def test_a_network_that_reads_the_file_by_itself_does_so(own, tmp_path):
    settings = own("Reader", "my_reader")
    (tmp_path / "weights.txt").write_text("not a checkpoint")
    settings.front_end.weights = str(tmp_path / "weights.txt")
    assert build_pretrained(settings, tmp_path).text == "not a checkpoint"


def test_weights_that_a_users_front_end_needs_and_cannot_read_are_an_error(own, tmp_path):
    settings = own("Mean", "my_broken")
    (tmp_path / "weights.pt").write_text("not a checkpoint")
    settings.front_end.weights = str(tmp_path / "weights.pt")
    with pytest.raises(AsdfError, match=r"weights\.pt"):
        build_pretrained(settings, tmp_path)


def test_a_network_without_a_front_end_reads_none(tiny, tmp_path):
    tiny.network.network_class = "asdf.networks.AASIST_L"
    tiny.front_end.weights = str(tmp_path / "none.pt")
    assert "conv_time" in dict(build_pretrained(tiny).named_children())


def test_weights_are_read_before_the_network_is_built(tiny, tmp_path):
    (tmp_path / "weights.pt").write_text("not a checkpoint")
    tiny.front_end.weights = str(tmp_path / "weights.pt")
    # Its own error would be the first, if the constructor came first.
    tiny.back_end.nes2net_splits = (3, 7)
    tiny.network.network_class = "asdf.networks.SSL_Nes2NetX"
    with pytest.raises(AsdfError, match=r"weights\.pt"):
        build_pretrained(tiny)


def test_a_front_end_built_as_another_architecture_is_not_filled(tiny, reference):
    tiny.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    network = build_network(tiny)
    with pytest.raises(AsdfError, match="but the front end was built as tiny"):
        load_pretrained(network)


def test_a_network_without_its_weights_is_not_saved(tmp_path: Path) -> None:
    """The file would claim pretrained weights and hold random ones."""
    settings = Sections()
    settings.front_end.architecture = "tiny"
    settings.front_end.weights = str(tmp_path / "weights.pt")
    network = build_network(settings)
    with pytest.raises(AsdfError, match=r"weights\.pt' are not loaded"):
        NetworkFile.from_network(network, settings)


def test_the_singleton_of_a_script_is_taken_as_it_is(reference, projection) -> None:
    settings = Settings()
    settings.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    try:
        network = build_pretrained(settings)
    finally:
        settings.front_end.weights = None
    assert torch.equal(projection_of(network.front_end), projection)

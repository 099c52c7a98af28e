"""Ends that the settings name: any front end in a network class, any back end in a composed one."""

from __future__ import annotations

import sys
from threading import Thread

import pytest
import torch

from asdf.checkpoint import attached_parts
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import AsdfError, UsageError
from asdf.interchange import read_network
from asdf.networks import ComposedDetector, Wav2Vec2FrontEnd, build_network
from asdf.networks.split import check_split
from asdf.networks.ssl_detector import find_front_end_class
from asdf.ports import load
from asdf.settings.relations import contradictions
from asdf.settings.sections import BACK_ENDS, Sections
from tests.unit.networks.inspection import copy_state

ENDS = """
import torch
from asdf.networks import BackEnd, FrontEnd


class Frames(FrontEnd):
    dimension = 6
    window = 40
    hop = 16
    cacheable = True

    def make_model(self, settings):
        return torch.nn.Linear(self.window, self.dimension)

    def states(self, waveforms_BT):
        yield self.mask(self.model(waveforms_BT.unfold(1, self.window, self.hop)))


class OldFrames(Frames):
    def __init__(self, settings):
        super().__init__(settings)
        self.gain = 2.0


class SpectrumFrames(Frames):
    def set_sizes(self, settings):
        self.dimension = self.sections.back_end.asp_hidden


class Mean(BackEnd):
    def __init__(self, settings, front_end):
        super().__init__()
        self.output = torch.nn.Linear(front_end.dimension, 2)

    def forward(self, features_BLC):
        embeddings_BE = features_BLC.mean(dim=1)
        return embeddings_BE, self.output(embeddings_BE)
"""


@pytest.fixture
def ends(tmp_path):
    (tmp_path / "my_ends.py").write_text(ENDS, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("my_ends", None)


def compose(settings: Sections, front_end: str | None, back_end: str | None) -> Sections:
    settings.network.network_class = "asdf.networks.ComposedDetector"
    settings.front_end.front_end_class = front_end
    settings.back_end.back_end_class = back_end
    return settings


@pytest.mark.parametrize(("back_end", "name"), [("asp", "SSL_ASP"), ("sls", "SSL_SLS")])
def test_a_composed_network_is_the_network_of_the_same_ends(back_end, name, small, waveforms):
    small.network.network_class = f"asdf.networks.{name}"
    torch.manual_seed(0)
    expected = build_network(small).eval()
    torch.manual_seed(0)
    network = build_network(compose(small, "wav2vec2", back_end)).eval()
    assert network.state_dict().keys() == expected.state_dict().keys()
    for layer, numbers in copy_state(expected).items():
        assert torch.equal(network.state_dict()[layer], numbers)
    assert torch.equal(network(waveforms)[1], expected(waveforms)[1])
    assert network.fixed_samples == expected.fixed_samples


def test_every_short_name_is_a_back_end(small):
    for name, path in BACK_ENDS.items():
        with torch.device("meta"):
            network = build_network(compose(small, None, name))
        assert type(network) is ComposedDetector and type(network.back_end) is load(path)


def test_ends_of_the_users_come_from_the_recipes_folder(ends, tiny, waveforms):
    network = build_network(compose(tiny, "my_ends.Frames", "my_ends.Mean"), ends).eval()
    windows_BLW = waveforms.unfold(1, 40, 16)
    expected_BE = network.front_end.model(windows_BLW).mean(dim=1)
    embeddings_BE, logits_B2 = network(waveforms)
    torch.testing.assert_close(embeddings_BE, expected_BE)
    assert logits_B2.shape == (2, 2)


@pytest.mark.parametrize("name", ["SSL_AASIST", "SSL_MHFA", "SSL_ASP"])
def test_a_front_end_goes_before_the_back_end_of_any_network_class(name, ends, tiny, waveforms):
    tiny.network.network_class = f"asdf.networks.{name}"
    tiny.front_end.front_end_class = "my_ends.Frames"
    network = build_network(tiny, ends).eval()
    assert type(network.front_end).__name__ == "Frames"
    assert torch.isfinite(network(waveforms)[1]).all()


def test_a_front_end_knows_all_sections_unless_its_constructor_takes_one(ends, tiny):
    tiny.back_end.asp_hidden = 12
    network = build_network(compose(tiny, "my_ends.SpectrumFrames", "asp"), ends)
    assert network.front_end.dimension == 12
    network = build_network(compose(tiny, "my_ends.OldFrames", "asp"), ends)
    assert network.front_end.gain == 2.0
    assert network.front_end.sections.front_end is tiny.front_end


def test_a_back_end_of_layers_needs_layers(ends, small):
    with pytest.raises(UsageError, match=r"one encoder layer: .* the front end gives 0 layers"):
        build_network(compose(small, "my_ends.Frames", "sls"), ends)


def test_a_named_end_is_in_the_network_or_refused(tiny):
    tiny.front_end.front_end_class = "wav2vec2"
    tiny.network.network_class = "asdf.networks.AASIST"
    with pytest.raises(
        UsageError,
        match=r"front_end\.front_end_class names Wav2Vec2FrontEnd, but asdf\.networks\.AASIST does",
    ):
        build_network(tiny)
    tiny.network.network_class = "asdf.networks.SSL_AASIST"
    tiny.back_end.back_end_class = "mhfa"
    with pytest.raises(UsageError, match=r"Choose network\.network_class = '\S+ComposedDetector'"):
        build_network(tiny)
    with pytest.raises(UsageError, match=r"Set it to one of conformer, "):
        build_network(compose(tiny, None, None))


def test_a_class_that_is_no_end_is_refused(tiny):
    with pytest.raises(UsageError, match=r"front_end_class: .* asdf\.networks\.FrontEnd, which"):
        build_network(compose(tiny, "asdf.networks.SSL_ASP", "asp"))
    with pytest.raises(UsageError, match=r"back_end_class: .* asdf\.networks\.BackEnd, which"):
        build_network(compose(tiny, None, "asdf.networks.SSL_ASP"))


@pytest.mark.parametrize(
    ("pair", "written", "instead", "message"),
    [
        (("my_ends.Frames", "asp"), "Linear(self.window", "Linear(self.widow",
         r"front_end_class: my_ends\.Frames cannot be built: AttributeError: "),
        (("lfcc", "my_ends.Mean"), "(self, settings, front_end)", "(self, settings)",
         r"back_end_class: my_ends\.Mean cannot be built: TypeError: Mean\.__init__"),
    ],
)  # fmt: skip
def test_an_end_that_cannot_be_built_is_reported_by_its_setting(
    tiny, ends, pair, written, instead, message
):
    (ends / "my_ends.py").write_text(ENDS.replace(written, instead), encoding="utf-8")
    with pytest.raises(AsdfError, match=message):
        build_network(compose(tiny, *pair), ends)


def test_a_composed_network_comes_back_from_its_file(tiny, waveforms, tmp_path):
    network = build_network(compose(tiny, "wav2vec2", "asp")).eval()
    path = tmp_path / "net.pt"
    write_network_file(path, NetworkFile.from_network(network, tiny))
    again, file = read_network(path)
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])
    assert file.to_sections().back_end.back_end_class == "asp"


def test_a_files_own_ends_are_imported_from_a_folder_that_the_caller_names_only(
    ends, tiny, waveforms
):
    network = build_network(compose(tiny, "my_ends.Frames", "my_ends.Mean"), ends).eval()
    path = ends / "net.pt"
    write_network_file(path, NetworkFile.from_network(network, tiny))
    with pytest.raises(AsdfError, match=r"is of the class my_ends\.Frames, .* name the folder"):
        read_network(path)
    again, _ = read_network(path, ends)
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])


@pytest.mark.parametrize(
    ("back_end", "setting", "held", "described", "said"),
    [
        ("conformer", "conformer_blocks", 1, 10**8, "is described with far more layers than"),
        ("nes2net_x", "nes2net_splits", (4, 4), (10_000, 10_000), "Their product must divide 64"),
    ],
)
def test_a_file_cannot_describe_more_layers_than_it_holds(
    tiny, tmp_path, back_end, setting, held, described, said
):
    setattr(tiny.back_end, setting, held)
    network = build_network(compose(tiny, None, back_end))
    file = NetworkFile.from_network(network, tiny)
    file.settings["back_end"][setting] = described
    write_network_file(tmp_path / "net.pt", file)
    with pytest.raises(AsdfError, match=said):
        read_network(tmp_path / "net.pt")


def test_layers_that_another_thread_makes_meanwhile_are_not_the_files(tiny, tmp_path, monkeypatch):
    network = build_network(compose(tiny, None, "asp"))
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, tiny))

    def build_beside_others(*arguments):
        def make_many():
            for _ in range(4000):
                torch.nn.Linear(1, 1)

        other = Thread(target=make_many)
        other.start()
        other.join()
        return build_network(*arguments)

    monkeypatch.setattr(attached_parts, "build_network", build_beside_others)
    again, _ = read_network(tmp_path / "net.pt")
    assert all(map(torch.equal, again.state_dict().values(), network.state_dict().values()))


def test_features_of_the_named_front_end_are_cached_if_its_class_says_so(ends, tiny):
    tiny.front_end.front_end_class = "my_ends.Frames"
    check_split(ComposedDetector, find_front_end_class(tiny.front_end, ends))
    with pytest.raises(UsageError, match="has the front end OldFrames, whose class does not set"):
        tiny.front_end.front_end_class = "my_ends.OldFrames"
        check_split(ComposedDetector, find_front_end_class(tiny.front_end, ends))
    check_split(ComposedDetector, Wav2Vec2FrontEnd)


@pytest.mark.parametrize(
    ("network_class", "front_end", "back_end", "second"),
    [
        ("AASIST", "lfcc", None, "front_end.front_end_class"),
        ("RawGAT_ST", "lfcc", None, "front_end.front_end_class"),
        ("RawNet2", "lfcc", None, "front_end.front_end_class"),
        ("SSL_ASP", None, "mhfa", "back_end.back_end_class"),
        ("ComposedDetector", None, None, "back_end.back_end_class"),
        ("ComposedDetector", "lfcc", "mhfa", None),
        ("SSL_ASP", "lfcc", None, None),
    ],
)
def test_an_end_that_the_class_does_not_take_contradicts_it(
    network_class, front_end, back_end, second
):
    settings = compose(Sections(), front_end, back_end)
    settings.network.network_class = f"asdf.networks.{network_class}"
    pairs = [(pair.first, pair.second) for pair in contradictions(settings)]
    assert pairs == ([("network.network_class", second)] if second else [])


def test_clips_of_a_back_end_of_one_length_have_that_length(small):
    compose(small, None, "sls").network.train_clip_size = 16000
    (pair,) = [known for known in contradictions(small) if "clips" in known.relation]
    assert pair.relation == "takes clips of back_end.sls_samples = 8000 only, not of"

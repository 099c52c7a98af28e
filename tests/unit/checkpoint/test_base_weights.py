"""Network files that hold only what was trained: they and their base give one network."""

from __future__ import annotations

import pytest
import torch

import asdf
from asdf.checkpoint.base_weights import compare_layers, find_base
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import fill_network, read_network_file
from asdf.errors import AsdfError
from asdf.interchange import build_pretrained, model_card_text, read_network
from asdf.interchange import command as export_network
from asdf.networks import Wav2Vec2FrontEnd, build_network
from asdf.networks.front_ends.front_end import all_parameters
from asdf.settings.sections import Lora, Sections
from tests.unit.networks.test_low_rank import randomize

MODEL = "front_end.model."


def write_base(path, seed: int = 7):
    torch.manual_seed(seed)
    settings = Sections()
    settings.front_end.architecture = "tiny"
    torch.save(Wav2Vec2FrontEnd(settings.front_end).model.state_dict(), path)
    return str(path)


@pytest.fixture
def based(tiny, tmp_path) -> Sections:
    """Settings of a network with updates on pretrained weights."""
    tiny.network.network_class = "asdf.networks.SSL_ASP"
    tiny.front_end.weights = write_base(tmp_path / "base.pt")
    tiny.lora = Lora(rank=3)
    return tiny


def save(settings: Sections, path):
    torch.manual_seed(0)
    network = build_pretrained(settings).eval()
    randomize(network)
    write_network_file(path, NetworkFile.from_network(network, settings))
    return network, path


def test_a_file_holds_what_learns_and_comes_back_merged(based, tmp_path, waveforms):
    network, path = save(based, tmp_path / "net.pt")
    content = torch.load(path, weights_only=True)
    state = content["model_state_dict"]
    learning = {name for name, weight in network.named_parameters() if weight.requires_grad}
    buffers = {name for name, _ in network.named_buffers()}
    assert learning <= set(state) <= learning | buffers
    assert content["base"]["weights"] == based.front_end.weights
    assert content["base"]["layers"] == len(network.state_dict()) - len(state)
    read, file = read_network(path)
    assert torch.equal(read(waveforms)[1], network(waveforms)[1])
    assert (file.base, file.merged["rank"], file.to_sections().lora.rank) == (None, 3, 0)
    assert list(read.state_dict()) == list(build_network(file.to_sections()).state_dict())


def test_exports_are_whole_and_merged(based, tmp_path, waveforms, capsys):
    network, path = save(based, tmp_path / "net.pt")
    out = tmp_path / "net.safetensors"
    assert export_network.main([str(path), "--format", "safetensors", str(out)]) == 0
    (tmp_path / "base.pt").unlink()
    read, file = read_network(out)
    assert torch.equal(read(waveforms)[1], network(waveforms)[1])
    assert (file.base, file.merged["rank"], file.settings["lora"]["rank"]) == (None, 3, 0)
    assert str(tmp_path) not in str(file.description())
    card = model_card_text("net", file, 1, {})
    assert (
        "The front end was trained by LoRA (rank 3; alpha 16.0; targets attention, feed_forward). "
        "The updates are merged into its weights." in card
    )
    expected = asdf.Detector(out, engine="plain").score_trial(waveforms[0].numpy(), 16000)
    assert expected == pytest.approx(float(network(waveforms[:1].repeat(1, 2))[1][0, 1]), rel=1e-6)


def test_a_graph_has_the_updates(based, tmp_path, waveforms, capsys):
    network, path = save(based, tmp_path / "net.pt")
    out = tmp_path / "net.ts"
    options = ["--format", "torchscript", str(out), "--samples", "8000"]
    assert export_network.main([str(path), *options]) == 0
    with torch.no_grad():
        graph = torch.jit.load(out)
        torch.testing.assert_close(graph(waveforms)[1], network(waveforms)[1], rtol=1e-5, atol=1e-6)


def test_without_its_base_a_file_is_no_network(based, tmp_path, waveforms):
    network, path = save(based, tmp_path / "net.pt")
    moved = (tmp_path / "base.pt").rename(tmp_path / "elsewhere.pt")
    with pytest.raises(AsdfError, match=r"base\.pt, were not found\. Name them: base='PATH'"):
        read_network(path)
    read, _ = read_network(path, base=str(moved))
    assert torch.equal(read(waveforms)[1], network(waveforms)[1])
    detector = asdf.Detector(path, base=moved)
    assert detector.settings.lora.alpha == 16.0
    other = write_base(tmp_path / "other.pt", seed=8)
    with pytest.raises(AsdfError, match="layers differ: these are other pretrained weights"):
        read_network(path, base=other)


@pytest.mark.parametrize(
    ("noted", "base", "expected"),
    [
        ("hub:org/name@c0ffee", None, "hub:org/name@c0ffee"),
        # The user may leave 'hub:' out, and the commit: it is that of the file.
        ("hub:org/name@c0ffee", "org/name", "hub:org/name@c0ffee"),
        ("hub:org/name@c0ffee", "org/other", "org/other"),
        ("torchaudio:WAV2VEC2_BASE", None, "torchaudio:WAV2VEC2_BASE"),
    ],
)
def test_weights_of_the_hub_are_there_by_their_name(noted, base, expected):
    assert find_base({"weights": noted, "digest": "0"}, None, base) == expected


def test_a_file_s_bare_name_is_a_path_that_has_to_be_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entry = {"weights": "org/name", "digest": "0"}
    with pytest.raises(AsdfError, match="org/name, were not found"):
        find_base(entry, None, None)
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert find_base(entry, None, None) == "org/name"


def test_a_network_of_another_base_is_not_filled(based, tmp_path):
    network, path = save(based, tmp_path / "net.pt")
    file = read_network_file(path)
    again = build_pretrained(based)
    fill_network(again, file)
    torch.testing.assert_close(again.state_dict(), network.state_dict(), rtol=0, atol=0)
    based.front_end.weights = None
    with pytest.raises(AsdfError, match="other layers differ"):
        fill_network(build_network(based), file)


@pytest.mark.parametrize(
    ("choice", "front_end", "partial"),
    [
        ("auto", {"frozen": True}, False),
        (True, {"frozen": True}, True),
        (True, {"trained_parts": ("layers:2", "norms")}, True),
        (True, {"layer": 1}, True),
        ("auto", {}, False),
        (True, {}, False),
    ],
)
def test_other_fronts_are_whole_unless_the_settings_say_so(
    choice, front_end, partial, based, tmp_path, waveforms
):
    based.lora.rank = 0
    based.network.save_only_trained = choice
    for name, value in front_end.items():
        setattr(based.front_end, name, value)
    network, path = save(based, tmp_path / "net.pt")
    file = read_network_file(path)
    assert (file.base is not None) is partial
    absent = set(network.state_dict()) - set(file.state)
    resting = {
        name
        for name, weight in network.named_parameters()
        if name.startswith(MODEL) and not weight.requires_grad
    }
    assert absent == (resting if partial else set())
    read, whole = read_network(path)
    assert torch.equal(read(waveforms)[1], network(waveforms)[1])
    assert whole.base is None and set(whole.state) == set(network.state_dict())


def test_a_whole_file_of_other_numbers_makes_the_next_ones_whole(based, tmp_path, caplog):
    based.network.save_only_trained = False
    torch.manual_seed(0)
    network = build_pretrained(based)
    with torch.no_grad():
        for _, parameter in all_parameters(network.front_end):
            parameter.mul_(1.1)
    path = tmp_path / "whole.pt"
    write_network_file(path, NetworkFile.from_network(network, based))
    based.network.save_only_trained = "auto"
    again = build_pretrained(based)
    with caplog.at_level("WARNING", logger="asdf"):
        fill_network(again, read_network_file(path))
    assert "networks are saved whole" in caplog.text
    file = NetworkFile.from_network(again, based)
    assert file.base is None and set(file.state) == set(network.state_dict())


DAMAGED_BASE = "its entry about the base cannot be read"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: content.update(base=3), DAMAGED_BASE),
        (lambda content: content.update(base={"weights": 4, "digest": "a"}), DAMAGED_BASE),
        (lambda content: content.update(base={"weights": "x"}), DAMAGED_BASE),
        (lambda content: content.update(base=[]), DAMAGED_BASE),
        # It asks for no more memory than it and its base bring.
        (
            lambda content: content["settings"]["back_end"].update(asp_hidden=100_000),
            "of another shape",
        ),
        (
            lambda content: content["model_state_dict"].pop("back_end.output.weight"),
            r"1 missing from the file: back_end\.output\.weight",
        ),
    ],
    ids=["a number", "no path", "no digest", "a list", "larger sizes", "lacks what learns"],
)
def test_a_damaged_file_is_refused_before_its_network_is_built(change, said, based, tmp_path):
    _, path = save(based, tmp_path / "net.pt")
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, path)
    with pytest.raises(AsdfError, match=said):
        read_network(path)


def test_layers_that_differ_are_counted_and_named():
    shapes = {"a": torch.Size([2]), "b": torch.Size([3, 4]), "c": torch.Size([])}
    state = {"b": torch.zeros(4, 3), "c": 1.0, "d": torch.zeros(1), "e": torch.zeros(1)}
    assert compare_layers(shapes, state, ignored=["e"], own_names={"a": "x"}) == (
        "1 missing from the file: x; 2 of another shape: b (4x3 in the file, 3x4 in the network), "
        "c (a float in the file, a number in the network); 1 unknown to the network: d"
    )
    assert compare_layers(shapes, {name: torch.zeros(shapes[name]) for name in shapes}) == ""


def test_a_file_without_all_layers_is_not_imported_but_exported(based, tmp_path):
    from asdf.extras.zoo import command as import_network

    _, path = save(based, tmp_path / "net.pt")
    with pytest.raises(AsdfError, match="python -m asdf export"):
        import_network.main([str(path), str(tmp_path / "out.pt")])

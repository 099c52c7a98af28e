"""What the front ends of patches keep: sizes, lengths, learning, files, graphs."""

from __future__ import annotations

import json
from dataclasses import asdict
from types import ModuleType

import pytest
import torch

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import UsageError
from asdf.interchange import build_pretrained, read_network, write_onnx, write_torchscript
from asdf.networks import build_network
from asdf.networks.ssl_detector import find_front_end_class
from asdf.settings.sections import Lora
from tests.extras.zoo import test_beats, test_dasheng, test_eat
from tests.unit.networks.inspection import names_with_gradient, trainable_names

CASES = {"beats": test_beats, "eat": test_eat, "dasheng": test_dasheng}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> ModuleType:
    return CASES[request.param]


@pytest.mark.parametrize(("name", "millions"), [("beats", 90), ("eat", 85), ("dasheng", 85)])
def test_the_published_sizes_are_the_papers(name, millions):
    """Features of 768 values; sizes are read back from their text."""
    settings = CASES[name].tiny_settings().front_end
    settings.architecture = name
    with torch.device("meta"):
        front_end = find_front_end_class(settings)(settings)
    parameters = sum(weight.numel() for weight in front_end.parameters())
    assert (front_end.architecture_setting, front_end.dimension) == (name, 768)
    assert round(parameters / 1e6) in (millions, millions + 1)
    tiny = CASES[name].TINY
    assert type(tiny).from_text(json.dumps(asdict(tiny))) == tiny


def test_a_literal_of_other_sizes_is_refused(case):
    settings = case.tiny_settings()
    settings.front_end.architecture = '{"depth": 3}'
    with pytest.raises(UsageError, match=f"is not the literal of {case.TINY.words} sizes"):
        build_network(settings)


@pytest.mark.parametrize(
    ("name", "parts"),
    [("eat", ["attn", "norm1", "mlp", "norm2"]), ("dasheng", ["norm1", "attn", "norm2", "mlp"])],
)
def test_parameters_stay_in_the_order_of_states_in_checkpoints(name, parts):
    first = build_network(CASES[name].tiny_settings()).front_end.model.blocks[0]
    assert [part for part, _ in first.named_children() if part != "dropout"] == parts


@pytest.mark.parametrize("recompute", [False, True])
def test_all_of_it_learns_and_so_do_updates(case, recompute):
    settings = case.tiny_settings()
    settings.front_end.gradient_checkpointing = recompute
    settings.front_end.layer_drop = 0.5
    settings.front_end.time_mask_proportion = 0.2
    waveforms = 0.1 * torch.randn(2, 12000)
    network = build_network(settings).train()
    network(waveforms)[1].square().sum().backward()
    assert names_with_gradient(network) == trainable_names(network)
    settings.lora = Lora(rank=2)
    settings.front_end.layer = 2
    network = build_network(settings).train()
    network(waveforms)[1].square().sum().backward()
    assert names_with_gradient(network) == trainable_names(network)
    names = {name for name in trainable_names(network) if name.startswith("front_end.model.")}
    assert any("lora_A" in name for name in names)
    assert not any(".blocks.2." in name or ".layers.2." in name for name in names)


def test_it_comes_back_from_its_file_and_is_exported_as_a_graph(case, tmp_path):
    torch.manual_seed(0)
    waveforms = 0.1 * torch.randn(2, 8000)
    settings = case.tiny_settings(case.write_published(tmp_path / "weights"))
    network = build_pretrained(settings).eval()
    write_network_file(tmp_path / "net.pt", NetworkFile.from_network(network, settings))
    again, _ = read_network(tmp_path / "net.pt")
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])
    # Both compare the graph with the network; Dasheng's at lengths of one chunk and of many.
    write_torchscript(network, tmp_path / "net.ts", 8000)
    assert "of any length" in write_onnx(network, tmp_path / "net.onnx")

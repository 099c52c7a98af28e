"""Divided tensors beside a network file: read whole or in rows, and refused when damaged."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.checkpoint.stored_parts import (
    PartFile,
    StoredParts,
    folders_of,
    next_folder,
    put_back,
    remove_with_parts,
    take_out,
)
from asdf.errors import AsdfError
from asdf.training.checkpoints import join_networks, newest_checkpoint

WEIGHT = torch.arange(10.0).view(5, 2)
MOMENT = torch.arange(5.0) - 2
PLACES = [("state", "layer.weight"), ("optimiser_state", "state", 3, "exp_avg")]
KEYS = ["state/layer.weight", "optimiser_state/state/3/exp_avg"]


def write_part(path: Path, first: int, end: int) -> None:
    """Write rows of both tensors, as torch.distributed.checkpoint does."""
    rows = {KEYS[0]: WEIGHT[first:end].clone(), KEYS[1]: MOMENT[first:end].clone()}
    offsets = {KEYS[0]: [first, 0], KEYS[1]: [first]}
    places = {key: {"saved_offsets": offset} for key, offset in offsets.items()}
    save_file(rows, path, metadata={"DCP_SHARDING_INFO": json.dumps(places), "DCP_VERSION": "1.0"})


@pytest.fixture
def path(tmp_path) -> Path:
    """A network file whose two tensors lie in two parts, of three and of two rows."""
    folder = tmp_path / "epoch.3.parts-1"
    folder.mkdir()
    write_part(folder / "a.safetensors", 0, 3)
    write_part(folder / "b.safetensors", 3, 5)
    files = {one.name: PartFile.measure(one) for one in folder.iterdir()}
    file = NetworkFile(
        state={"layer.weight": torch.empty(0), "count": torch.tensor(7)},
        optimiser_state={"state": {3: {"exp_avg": torch.empty(0), "step": torch.tensor(4.0)}}},
        parts=StoredParts(folder, files, PLACES).entry(),
    )
    path = tmp_path / "epoch.3.pt"
    write_network_file(path, file)
    return path


def test_tensors_come_back_whole(path):
    file = read_network_file(path)
    assert file.parts is None and list(file.state) == ["layer.weight", "count"]
    assert torch.equal(file.state["layer.weight"], WEIGHT) and file.state["count"] == 7
    moments = file.optimiser_state["state"][3]
    assert torch.equal(moments["exp_avg"], MOMENT) and moments["step"] == 4
    # Also where the caller maps the file.
    assert torch.equal(read_network_file(path, mapped=True).state["layer.weight"], WEIGHT)


def test_parts_of_64_processes_are_read_whole(tmp_path):
    """Also where there are fewer rows than processes, so that some have none."""
    folder = tmp_path / "resume.parts-7"
    folder.mkdir()
    bounds = [min(rank, 5) for rank in range(65)]
    for rank, (first, end) in enumerate(pairwise(bounds)):
        write_part(folder / f"shard-{rank}.safetensors", first, end)
    files = {one.name: PartFile.measure(one) for one in folder.iterdir()}
    assert len(files) == 64
    read = StoredParts(folder, files, PLACES).whole()
    assert torch.equal(read[PLACES[0]], WEIGHT) and torch.equal(read[PLACES[1]], MOMENT)


def test_outlines_have_shapes_and_no_numbers(path):
    file = read_network_file(path, whole=False)
    assert file.state["layer.weight"].numel() == 0
    outlines = file.stored_parts().outlines()
    assert {place: tuple(one.shape) for place, one in outlines.items()} == {
        PLACES[0]: (5, 2),
        PLACES[1]: (5,),
    }
    assert {one.device.type for one in outlines.values()} == {"meta"}


def test_joined_networks_are_files_of_one_piece(path):
    join_networks(path.parent)
    assert [one.name for one in path.parent.iterdir()] == ["epoch.3.pt"]
    content = torch.load(path, weights_only=True)
    assert torch.equal(content["model_state_dict"]["layer.weight"], WEIGHT)
    assert torch.equal(content["optimizer_state_dict"]["state"][3]["exp_avg"], MOMENT)
    assert "parts" not in content


def refusal(path: Path) -> str:
    with pytest.raises(AsdfError, match=r"epoch\.3\.parts-1, the divided tensors") as error:
        read_network_file(path)
    return str(error.value)


def test_what_was_changed_is_named(path):
    part = path.with_name("epoch.3.parts-1") / "b.safetensors"
    content = part.read_bytes()
    part.write_bytes(content[:-1] + b"\x40")
    assert "the checksum of b.safetensors differs" in refusal(path)
    part.write_bytes(content[:-1])
    assert f"b.safetensors: it has {len(content) - 1} bytes, and had {len(content)}" in refusal(
        path
    )
    part.unlink()
    assert "b.safetensors: it is missing" in refusal(path)
    part.write_bytes(content)
    (part.parent / "c.safetensors").write_bytes(content)
    assert "other files are among them: c.safetensors" in refusal(path)
    (part.parent / "c.safetensors").unlink()
    assert read_network_file(path).state["count"] == 7


@pytest.mark.parametrize(
    ("rows", "said"),
    [((4, 5), "numbers of state/layer.weight"), ((2, 5), "numbers of state/layer.weight")],
)
def test_rows_that_are_missing_or_doubled_are_refused(path, rows, said):
    part = path.with_name("epoch.3.parts-1") / "b.safetensors"
    write_part(part, *rows)
    file = read_network_file(path, whole=False)
    file.parts["files"]["b.safetensors"] = list(vars(PartFile.measure(part)).values())
    write_network_file(path, file)
    assert said in refusal(path)


def test_what_is_not_safetensors_is_refused(path):
    part = path.with_name("epoch.3.parts-1") / "b.safetensors"
    part.write_bytes(b"\xff" * part.stat().st_size)
    file = read_network_file(path, whole=False)
    file.parts["files"]["b.safetensors"] = list(vars(PartFile.measure(part)).values())
    write_network_file(path, file)
    assert "has changed since it was written" in refusal(path)


@pytest.mark.parametrize(
    "change",
    [
        {"folder": "../epoch.3.parts-1"},
        {"folder": "/etc"},
        {"folder": 3},
        {"files": {"../a.safetensors": [1, 2]}},
        {"files": {"a.safetensors": [1]}},
        {"files": ["a.safetensors"]},
        {"tensors": 5},
        {"tensors": [5]},
    ],
)
def test_a_damaged_entry_is_refused(path, change):
    file = read_network_file(path, whole=False)
    file.parts = {**file.parts, **change}
    write_network_file(path, file)
    with pytest.raises(AsdfError, match="does not say where its divided tensors are"):
        read_network_file(path)


def test_a_network_without_its_parts_is_not_the_newest(path, caplog):
    write_network_file(path.with_name("epoch.2.pt"), read_network_file(path))
    assert newest_checkpoint(path.parent) == path
    shutil.rmtree(path.with_name("epoch.3.parts-1"))
    assert newest_checkpoint(path.parent) == path.with_name("epoch.2.pt")
    assert "skipped: " in caplog.text and "it is missing" in caplog.text


def test_folders_are_numbered_and_removed_with_their_file(path):
    assert next_folder(path).name == "epoch.3.parts-2"
    other = path.with_name("epoch.31.pt")
    next_folder(other).mkdir()
    assert [one.name for one in folders_of(path)] == ["epoch.3.parts-1"]
    remove_with_parts(path)
    assert [one.name for one in path.parent.iterdir()] == ["epoch.31.parts-1"]


def test_tensors_in_lists_have_a_place():
    tensor = torch.ones(2)
    taken = {}
    rest = take_out({"a": [tensor, 1], "b": (tensor,)}, lambda one: one is tensor, taken)
    assert list(taken) == [("a", 0), ("b", 0)] and rest["a"][0].numel() == 0
    back = put_back(rest, taken)
    assert back["a"] == [tensor, 1] and back["b"] == (tensor,)

"""Checkpoints that each process writes its part of hold what one file would, however they go on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from asdf.checkpoint.network_reading import read_network_file
from asdf.checkpoint.stored_parts import StoredParts, folders_of, key_of, remove_with_parts
from asdf.distributed.sharding import local_part
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.training.checkpoints import HostCopies, collect_checkpoint
from asdf.training.part_saving import PartWriter
from asdf.training.training_progress import Progress
from tests.distributed.test_exactness import assert_equal_runs
from tests.distributed.test_groups import CASE, GROUPS
from tests.distributed.test_sharding import make_step
from tests.distributed.worlds import compute_in_worlds

# Ten runs of two and three processes.
pytestmark = pytest.mark.slow

# Adam's moments, averages, a front end that rests at first: all tensors that a checkpoint may have.
CONFIG = """
divided < debug
network.network_class = 'small_networks.FrontEnded'
network.ema_decay = 0.9
front_end.architecture = 'tiny'
front_end.dropout = 0.1
front_end.unfreeze_after_epochs = 1
network.checkpoint_interval_steps = 1
network.max_epochs = 3
network.global_minibatch_size = 6
computing.shard_network = True
recipe.end_stage = 1

in_parts < divided
computing.shard_checkpoints = True
"""
# The second process dies in its step 9, when the save after step 7 is settled, and that after step
# 8 may be.
KILL = "1:8"
SYSTEM = "paths.system_folder={}"


@pytest.fixture
def killed(recipe) -> Path:
    """The folder of a run with parts that was killed in its second epoch."""
    recipe.add_configs(CONFIG)
    assert recipe.run("in_parts", SYSTEM.format("killed"), processes=2, TEST_KILL=KILL).status != 0
    networks = recipe.system("killed") / "networks"
    # Of three saves in this epoch, the newest one and one that was being written.
    assert 1 <= len(folders_of(networks / "resume.pt")) <= 2
    for name in ("epoch.1", "resume"):
        file = read_network_file(networks / f"{name}.pt", whole=False)
        folder = networks / file.parts["folder"]
        assert len(file.parts["files"]) == 2 and folder in folders_of(networks / f"{name}.pt")
        # What is divided is in the parts alone, each process's half.
        sizes = [path.stat().st_size for path in folder.iterdir()]
        assert (networks / f"{name}.pt").stat().st_size < min(sizes)
        assert max(sizes) < 1.1 * min(sizes)
    return recipe.system("killed")


def in_worlds(world: World, folder: Path) -> dict[str, Any]:
    """Write parts of a network that four processes hold in two groups, or two in one."""
    step = make_step(GROUPS if world.size == 4 else CASE, world, sharded=True)
    copies = HostCopies(leaves_parts=True)
    entries = (step.network, step.optimiser, step.scaler, Progress(), step.settings)
    collect_checkpoint(*entries, world, copies)
    whole = {key_of(path): tensor.full_tensor() for path, tensor in copies.parts.items()}
    writer = PartWriter(world)
    copied = writer.copy(copies.parts)
    # As the steps do that are taken while threads write.
    for tensor in copies.parts.values():
        local_part(tensor.detach()).zero_()
    files = writer.write(copied, folder / f"{world.size}.parts-1")
    fault = ""
    (folder / "no folder").touch()
    try:
        writer.write(copied, folder / "no folder" / "epoch.1.parts-1")
    except AsdfError as error:
        fault = str(error)
    faults = world.gather(fault)
    entry = StoredParts(folder / f"{world.size}.parts-1", files, list(copies.parts)).entry()
    return {"whole": whole, "entry": entry, "faults": faults}


@pytest.mark.parametrize("processes", [2, 4])
def test_parts_have_the_numbers_of_their_step(tmp_path, processes: int) -> None:
    """Each once, of processes that hold the same; and all ranks learn of what cannot be written."""
    results = compute_in_worlds(partial(in_worlds, folder=tmp_path), tmp_path, (processes,))
    result = results[processes]
    parts = StoredParts.from_entry(result["entry"], tmp_path / "epoch.1.pt")
    read = {key_of(path): tensor for path, tensor in parts.whole().items()}
    assert len(read) > 50
    torch.testing.assert_close(read, result["whole"], rtol=0, atol=0)
    numbers = sum(tensor.nbytes for tensor in read.values())
    assert sum(file.size for file in parts.files.values()) < numbers + processes * 20_000
    assert len(result["faults"]) == processes
    for fault in result["faults"]:
        assert "no folder" in fault and "cannot write" in fault


def test_a_killed_run_with_parts_ends_as_one_with_whole_files(recipe, killed) -> None:
    whole = recipe.run("divided", SYSTEM.format("whole"), processes=2)
    assert whole.status == 0, whole.output
    resumed = recipe.run("in_parts", SYSTEM.format("killed"), processes=2)
    assert resumed.status == 0, resumed.output
    assert "going on from resume.pt: epoch 1, step " in resumed.output
    assert "joining the parts of epoch.3.pt" in resumed.output
    networks = sorted(path.name for path in (killed / "networks").iterdir())
    assert networks == ["epoch.1.pt", "epoch.2.pt", "epoch.3.pt", "evaluations.json"]
    assert_equal_runs(recipe.system("whole"), killed)


@pytest.mark.parametrize("processes", [1, 3])
def test_another_number_of_processes_goes_on_as_from_a_whole_file(
    recipe, killed, processes: int
) -> None:
    before = recipe.run("divided", SYSTEM.format("before"), processes=2, TEST_KILL=KILL)
    assert before.status != 0
    # Both go on from the end of the first epoch.
    for system in ("before", "killed"):
        remove_with_parts(recipe.system(system) / "networks" / "resume.pt")
    from_parts = read_network_file(killed / "networks" / "epoch.1.pt").content()
    from_whole = torch.load(recipe.system("before") / "networks" / "epoch.1.pt")
    assert list(from_parts) == list(from_whole)
    for key in ("model_state_dict", "optimizer_state_dict", "unaveraged_state_dict"):
        torch.testing.assert_close(from_parts[key], from_whole[key], rtol=0, atol=0)
    for config, system in (("divided", "before"), ("in_parts", "killed")):
        outcome = recipe.run(config, SYSTEM.format(system), processes=processes)
        assert outcome.status == 0, outcome.output
        assert "going on from epoch.1.pt: epoch 1, step 5" in outcome.output
    assert_equal_runs(recipe.system("before"), killed)


def test_parts_that_are_damaged_are_named(recipe, killed) -> None:
    networks = killed / "networks"
    folder = networks / read_network_file(networks / "resume.pt", whole=False).parts["folder"]
    part = folder / "shard-00002-model-00001-of-00001.safetensors"
    content = part.read_bytes()
    part.write_bytes(content[:-4] + bytes(4))
    run = ("in_parts", SYSTEM.format("killed"))
    refused = recipe.run(*run, processes=2)
    assert refused.status != 0
    assert f"the checksum of {part.name} differs" in refused.output
    part.unlink()
    # The network before it is whole.
    resumed = recipe.run(*run, processes=2)
    assert resumed.status == 0, resumed.output
    assert f"{part.name}: it is missing" in resumed.output
    assert "going on from epoch.1.pt" in resumed.output

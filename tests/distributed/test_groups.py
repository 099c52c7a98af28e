"""A network that each of two groups divides learns what all four processes together learn."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch

from asdf.distributed.world import World
from asdf.training.checkpoints import HostCopies, collect_checkpoint
from asdf.training.steps.direction import Direction
from asdf.training.training_progress import Progress
from tests.distributed.test_sharding import DRAWN_NOWHERE, assert_close, make_step, train
from tests.distributed.worlds import compute_in_worlds

# Four processes that train.
pytestmark = pytest.mark.slow

CASE = {
    **DRAWN_NOWHERE["clipping, weighted layers, Adam"],
    "network.global_minibatch_size": 8,
}
GROUPS = {**CASE, "computing.shard_group": 2}


def saved(world: World, case: dict[str, object]) -> bytes:
    """Return the bytes of a network file before any step, on the main rank."""
    step = make_step(case, world, sharded=True)
    parts = (step.network, step.optimiser, step.scaler, Progress(), step.settings)
    checkpoint = collect_checkpoint(*parts, world, HostCopies(), step.average)
    if checkpoint is None:
        return b""
    written = io.BytesIO()
    # The setting itself is in the file.
    torch.save({**checkpoint.content(), "settings": None}, written)
    return written.getvalue()


def norm_of_weights(world: World, case: dict[str, object]) -> float:
    step = make_step(case, world, sharded=True)
    parameters = list(step.network.parameters())
    parts = [parameter.detach().to_local() for parameter in parameters]
    return float(Direction(parameters, parts, world).norm())


def work(world: World) -> dict[str, Any]:
    cases = {"flat": CASE, "groups": GROUPS}
    results: dict[str, Any] = {
        "saved": {name: saved(world, case) for name, case in cases.items()},
        "norms": {name: norm_of_weights(world, case) for name, case in cases.items()},
    }
    for name, case in cases.items():
        results[name] = train(case, world, sharded=True)
    left = world.agree(train(GROUPS, world, sharded=True, epochs=1))
    results["resumed"] = train(GROUPS, world, sharded=True, start=left)
    results["from flat"] = train(CASE, world, sharded=True, start=left)
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, Any]:
    return compute_in_worlds(work, tmp_path_factory.mktemp("groups"), (4,))[4]


def test_steps_are_those_of_a_flat_mesh_up_to_rounding(results) -> None:
    """In float64: gradients of two groups are added up in another order than those of four."""
    assert results["groups"]["loss_sum"] == pytest.approx(results["flat"]["loss_sum"], rel=1e-12)
    assert_close(results["groups"], results["flat"], "groups")


def test_network_files_are_the_same_to_the_last_byte(results) -> None:
    assert len(results["saved"]["flat"]) > 10_000
    assert results["saved"]["groups"] == results["saved"]["flat"]
    assert results["norms"]["groups"] == pytest.approx(results["norms"]["flat"], rel=1e-12)


def test_a_checkpoint_goes_on_in_groups_to_the_last_bit_and_without(results) -> None:
    for key in ("model_state_dict", "optimizer_state_dict", "unaveraged_state_dict"):
        straight, resumed = results["groups"][key], results["resumed"][key]
        torch.testing.assert_close(resumed, straight, rtol=0, atol=0)
    assert_close(results["from flat"], results["groups"], "from groups to a flat mesh")

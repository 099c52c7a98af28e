"""Gradients that travel in 16 bits: their values by formula, and resumed runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from asdf.distributed.world import World
from asdf.training.exchange import exchange_gradients, exchange_now
from tests.distributed.test_sharding import DRAWN, train
from tests.distributed.worlds import compute_in_worlds

# Worlds of two and of three processes that train.
pytestmark = pytest.mark.slow

FORMATS = {"bf16": torch.bfloat16, "fp16": torch.float16}
DROPOUT = DRAWN["masks, dropout, recomputed layers"]


def gradients(world: World, name: str) -> dict[str, Any]:
    """Return the exchanged gradients of a step, and those of each rank alone, by rank."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(6, 300), nn.Tanh(), nn.Linear(300, 2))
    model = exchange_gradients(network, world, name)
    clips = torch.randn(4, 6, generator=torch.Generator().manual_seed(world.rank))
    with exchange_now(model, False):
        model(clips).square().sum().backward()
    alone = [parameter.grad.clone() for parameter in network.parameters()]
    for parameter in network.parameters():
        parameter.grad = None
    with exchange_now(model, True):
        model(clips).square().sum().backward()
    exchanged = [parameter.grad.clone() for parameter in network.parameters()]
    return {"exchanged": world.gather(exchanged), "alone": world.gather(alone)}


def work(world: World) -> dict[str, Any]:
    results: dict[str, Any] = {name: gradients(world, name) for name in FORMATS}
    case = {**DROPOUT, "computing.gradient_compression": "bf16"}
    results["straight"] = train(case, world)
    start = world.agree(train(case, world, epochs=1))
    results["resumed"] = train(case, world, start=start)
    results["float32"] = train(DROPOUT, world)
    results["sharded"] = train(case, world, sharded=True)
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[int, dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("compressed")
    return compute_in_worlds(work, folder)


@pytest.mark.parametrize("name", FORMATS)
def test_each_rank_has_the_sum_of_the_shares_in_that_format(results, name: str) -> None:
    of_ranks = results[2][name]
    for number, (first, second) in enumerate(zip(*of_ranks["alone"], strict=True)):
        shares = [gradient.to(FORMATS[name]) / 2 for gradient in (first, second)]
        expected = (shares[0] + shares[1]).float()
        for exchanged in of_ranks["exchanged"]:
            torch.testing.assert_close(exchanged[number], expected, rtol=0, atol=0)


@pytest.mark.parametrize("processes", [2, 3])
def test_a_resumed_run_takes_the_same_steps_to_the_last_bit(results, processes: int) -> None:
    straight, resumed = results[processes]["straight"], results[processes]["resumed"]
    for key in ("model_state_dict", "optimizer_state_dict"):
        torch.testing.assert_close(resumed[key], straight[key], rtol=0, atol=0)
    whole = results[processes]["float32"]
    assert straight["loss_sum"] != whole["loss_sum"]
    assert straight["loss_sum"] == pytest.approx(whole["loss_sum"], rel=0.01)
    divided = results[processes]["sharded"]
    assert divided["loss_sum"] != whole["loss_sum"]
    assert divided["loss_sum"] == pytest.approx(whole["loss_sum"], rel=0.01)

"""A network that only the main process builds trains as one that each process built."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from asdf.distributed.outlines import build_on_main
from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.settings.sections import Sections
from tests.distributed.test_sharding import DRAWN_NOWHERE, UPDATED, train
from tests.distributed.worlds import compute_in_worlds

# Worlds of two and of three processes that train.
pytestmark = pytest.mark.slow

CASES = (UPDATED, "clipping, weighted layers, Adam", "heads for frames and for sources")
LAYERS, DIMENSION = 12, 512
ENCODER = {
    "conv_layers": ((128, 10, 5), *[(128, 3, 2)] * 4, *[(128, 2, 2)] * 2),
    "extractor_mode": "layer_norm",
    "conv_bias": True,
    "dimension": DIMENSION,
    "layers": LAYERS,
    "heads": 8,
    "feed_forward": 4 * DIMENSION,
    "layer_norm_first": True,
}
LAYER_BYTES = 4 * (12 * DIMENSION**2 + 13 * DIMENSION)


def resident() -> int:
    """Return the bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def memory(world: World) -> list[int] | None:
    """Return by rank what a network of 150 MB takes when it is built."""
    settings = Sections()
    settings.front_end.architecture = repr(ENCODER)
    settings.network.network_class = "asdf.networks.SSL_AASIST_L"
    before = resident()
    network = build_on_main(partial(build_network, settings), world)
    taken = world.gather(resident() - before)
    del network
    return taken


def work(world: World) -> dict[str, Any]:
    results: dict[str, Any] = {"memory": memory(world)}
    for name in CASES:
        case = DRAWN_NOWHERE[name]
        whole = train(case, world, sharded=True)
        outlined = train(case, world, sharded=True, outlined=True)
        results[name] = {"whole": whole, "outlined": outlined}
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[int, dict[str, Any]]:
    return compute_in_worlds(work, tmp_path_factory.mktemp("outlined"))


@pytest.mark.parametrize("processes", [2, 3])
def test_it_takes_the_same_steps_to_the_last_bit(results, processes: int) -> None:
    for name in CASES:
        trained = results[processes][name]
        assert trained["outlined"]["loss_sum"] == trained["whole"]["loss_sum"], name
        for key in ("model_state_dict", "optimizer_state_dict"):
            pair = trained["outlined"][key], trained["whole"][key]
            torch.testing.assert_close(*pair, rtol=0, atol=0)


@pytest.mark.parametrize("processes", [2, 3])
def test_the_main_process_alone_holds_the_network(results, processes: int) -> None:
    encoder = LAYERS * LAYER_BYTES
    main, *others = results[processes]["memory"]
    assert main > encoder
    # The modules themselves, and what is imported for them.
    assert max(others) < 0.3 * encoder

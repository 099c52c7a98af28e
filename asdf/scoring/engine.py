"""Which way a network is computed for its scores on a CPU: as it is, or with packed weights.

Invariant: scores of both differ by 1e-5 at most (`asdf.networks.packed`), and all processes of a
list use the same. What is recorded with scores is what was used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.packed import PackedNetwork, is_available, multiplies_bfloat16
from asdf.scoring.precision import ScoringPrecision

PACKED, PLAIN = "packed", "plain"
ENGINES = (PACKED, PLAIN)


class Engine:
    """A network as it is computed for scores.

    Attributes:
        name: 'packed' or 'plain'.
    """

    def __init__(
        self,
        name: str,
        network: nn.Module,
        precision: ScoringPrecision,
        owns_network: bool = False,
    ) -> None:
        """Compute `network` on its device.

        Args:
            name: as `choose_engine` chose it.
            owns_network: nobody else uses the network, so that the packed weights may replace its
                weights instead of standing in memory next to them.
        """
        self.name = name
        self._packed: PackedNetwork | None = None
        if name == PACKED:
            dtype = torch.bfloat16 if precision.name == "bf16" else torch.float32
            self._packed = PackedNetwork(network, owns_network, dtype)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Let the network compute this way in the block, in `eval()` mode."""
        if self._packed is None:
            yield
            return
        with self._packed.in_use():
            yield


def choose_engine(requested: str, precision: ScoringPrecision) -> str:
    """Choose the engine for a device: 'packed' on a CPU that has what it needs, else 'plain'.

    Raises:
        UsageError: no such engine.
    """
    if requested not in ENGINES:
        raise UsageError(f"engine {requested!r}: scores are computed by {' or '.join(ENGINES)}.")
    if precision.device.type != "cpu" or not is_available():
        return PLAIN
    if precision.name == "bf16" and not multiplies_bfloat16():
        return PLAIN
    return requested


def agree_on_engine(requested: str, precision: ScoringPrecision, world: World) -> str:
    """Choose one engine for all processes of `world`, which call it together.

    Raises:
        UsageError: as `choose_engine`.
    """
    local = choose_engine(requested, precision)
    every = world.gather(local) or []
    # One process that lacks it is enough: a list is not scored in two ways.
    return world.run_on_main(lambda: PLAIN if PLAIN in every else local)

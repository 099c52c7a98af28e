"""A part of a list is marked as done only when every rank has saved its rows."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asdf.distributed.world import World
from asdf.runs.divisions import Part
from asdf.scoring.score_list import _Progress
from asdf.trials.trial_list import TrialList
from tests.distributed.worlds import compute_in_worlds

# How long the other rank looks for a mark that comes before its rows.
WITHIN_S = 2
PART = Part(1, 2)
NO_TRIALS = TrialList([], np.zeros(0, np.int8))


class LateRows:
    """Rows that the second rank saves late, and that see whether the mark came before them."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder = folder
        self.world = world

    def save(self) -> None:
        end = time.monotonic() + WITHIN_S
        while not self.world.is_main and time.monotonic() < end:
            if list(self.folder.glob(".out.txt.*")):
                (self.folder / "too early").touch()
                return
            time.sleep(0.05)


def work() -> dict[str, Any]:
    return {"list": "mine"}


def end_part(world: World, folder: Path) -> dict[str, Any]:
    rows: Any = LateRows(folder, world)
    _Progress(rows, {}).end(PART, folder / "out.txt", work, world, NO_TRIALS)
    world.barrier()
    return {
        "marks": len(list(folder.glob(".out.txt.*"))),
        "too early": (folder / "too early").exists(),
    }


@pytest.mark.slow
def test_the_mark_comes_after_the_rows_of_all_ranks(tmp_path):
    results = compute_in_worlds(partial(end_part, folder=tmp_path), tmp_path, sizes=(2,))
    assert results[2] == {"marks": 1, "too early": False}

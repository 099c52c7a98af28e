"""Loaders' processes that are spawned, as on Windows and macOS, see what forked ones see."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import RecipeFolder

# Python imports it when it starts, the main process as well as those of the loaders.
SITE = """
import atexit, multiprocessing, os, sys

multiprocessing.set_start_method({method!r})
if "multiprocessing.spawn" in " ".join(sys.orig_argv):
    with open({spawned!r}, "a") as file:
        file.write("spawned\\n")
"""
# Values that differ from the defaults: a worker that read the settings anew would use others.
WORDS = (
    "debug",
    "rawboost.enabled=True",
    "rawboost.algo=3",
    "sad.mode=endpoint",
    "augmentation.chain=('time_mask',)",
    "network.max_epochs=1",
    "recipe.end_stage=2",
    "computing.network_dataloader_workers=1",
)


def losses(system: Path) -> list[float]:
    lines = (system / "metrics.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return [entry["loss"] for entry in entries if entry["kind"] == "step"]


@pytest.mark.parametrize("method", ["spawn"])
def test_spawned_workers_change_no_loss_and_no_score(recipe: RecipeFolder, tmp_path, method):
    results = {}
    spawned = tmp_path / "spawned"
    for name in ("fork", method):
        site = tmp_path / f"site-{name}"
        site.mkdir()
        (site / "sitecustomize.py").write_text(SITE.format(method=name, spawned=str(spawned)))
        command = [sys.executable, str(recipe.folder / "run.py"), *WORDS]
        outcome = recipe.run_command(
            [*command, f"paths.system_folder={name}"], PYTHONPATH=str(site)
        )
        assert outcome.status == 0, outcome.output
        system = recipe.system(name)
        scores = (system / "scores" / "epoch.1" / "demo-eval.txt").read_bytes()
        results[name] = (losses(system), scores)
        assert spawned.exists() == (name == "spawn")
    assert len(results["fork"][0]) >= 3
    assert results["spawn"] == results["fork"]

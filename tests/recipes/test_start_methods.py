"""Loaders' processes that are spawned, as on Windows and macOS, see what forked ones see."""

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import RecipeFolder

# Python imports it when it starts, the main process as well as those of the loaders.
SITE = """
import multiprocessing, signal, sys

multiprocessing.set_start_method({method!r})
"""
# As on those systems: no locks, no limits, and other signals.
LACKING = """
for name in ("SIGUSR1", "SIGUSR2", "sigwaitinfo", "pthread_sigmask"):
    delattr(signal, name)
for name in ("fcntl", "resource"):
    sys.modules[name] = None
if "multiprocessing.spawn" in " ".join(sys.orig_argv):
    with open({spawned!r}, "a") as file:
        file.write("spawned\\n")
"""
# Values that differ from the defaults: a worker that read the settings anew would use others.
HEARD = ("rawboost.enabled=True", "rawboost.algo=3", "sad.mode=endpoint")
SHORT = ("network.max_epochs=1", "recipe.end_stage=2", "computing.network_dataloader_workers=1")
WORDS = ("debug", *HEARD, "augmentation.chain=('time_mask',)", *SHORT)


def losses(system: Path) -> list[float]:
    lines = (system / "metrics.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return [entry["loss"] for entry in entries if entry["kind"] == "step"]


@pytest.mark.slow
def test_spawned_workers_change_no_loss_and_no_score(recipe: RecipeFolder, tmp_path):
    results = []
    spawned = tmp_path / "spawned"
    programs = {"fork": SITE, "spawn": SITE + LACKING}
    for method, program in programs.items():
        site = tmp_path / f"site-{method}"
        site.mkdir()
        (site / "sitecustomize.py").write_text(program.format(method=method, spawned=str(spawned)))
        command = [sys.executable, str(recipe.folder / "run.py"), *WORDS]
        words = [*command, f"paths.system_folder={method}"]
        recipe.run_command(words, PYTHONPATH=str(site)).ok()
        system = recipe.system(method)
        scores = (system / "scores" / "epoch.1" / "demo-eval.txt").read_bytes()
        results.append((losses(system), scores))
        assert spawned.exists() == (method == "spawn")
    assert len(results[0][0]) >= 3
    assert results[0] == results[1]

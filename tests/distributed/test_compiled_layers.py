"""Compiled layers under several processes: the same network as without, by the real compiler."""

import os
import shutil
import subprocess
import sys

import pytest
import torch

from tests.conftest import PATIENCE_S

CONFIG = """
layered < debug
network.network_class = 'asdf.networks.SSL_Linear'
front_end.architecture = 'tiny'
network.optimizer = 'sgd'
network.initial_learning_rate = 0.03
network.global_minibatch_size = 8
network.max_epochs = 1
recipe.end_stage = 1
recipe.validation_sets = ('demo-dev',)
"""
COMPILED = "computing.compile='layers'"
LAUNCHER = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for the CPU needs g++")
@pytest.mark.parametrize("choice", ["", "front_end.gradient_checkpointing=True"])
def test_two_processes_with_compiled_layers_train_the_network_of_one_without(
    recipe, tmp_path, capsys, choice
):
    recipe.add_configs(CONFIG)
    words = [choice] if choice else []
    alone = recipe.call(capsys, "layered", "paths.system_folder=plain", *words)
    assert alone.status == 0, alone.output
    # By a Python of their own: the compiler starts processes, which the tests' warm one forks.
    both = subprocess.run(
        [*LAUNCHER, "run.py", "layered", "paths.system_folder=compiled", COMPILED, *words],
        cwd=recipe.folder,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    assert both.returncode == 0, both.stdout
    assert "the next step compiles the network" in both.stdout
    plain, compiled = (
        torch.load(recipe.system(name) / "networks" / "epoch.1.pt", weights_only=True)
        for name in ("plain", "compiled")
    )
    torch.testing.assert_close(
        compiled["model_state_dict"], plain["model_state_dict"], rtol=1e-4, atol=1e-5
    )

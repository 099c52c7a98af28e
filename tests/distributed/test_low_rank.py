"""Updates on several processes: steps of one."""

import pytest
import torch

from tests.distributed.test_exactness import assert_equal_runs
from tests.unit.checkpoint.test_base_weights import write_base

CONFIG = """
updates < debug
network.network_class = 'asdf.networks.SSL_Linear'
front_end.architecture = 'tiny'
front_end.weights = 'base.pt'
front_end.trained_parts = ('norms', 'layers:2')
lora.rank = 3
network.optimizer = 'sgd'
network.initial_learning_rate = 0.03
network.global_minibatch_size = 8
network.max_epochs = 1
recipe.end_stage = 1
recipe.validation_sets = ('demo-dev',)
"""


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(recipe, capsys):
    recipe.add_configs(CONFIG)
    write_base(recipe.folder / "base.pt")
    alone = recipe.call(capsys, "updates", "paths.system_folder=one")
    assert alone.status == 0, alone.output
    two = recipe.run("updates", "paths.system_folder=two", processes=2)
    assert two.status == 0, two.output
    first, second = read(recipe, "one"), read(recipe, "two")
    state = first["model_state_dict"]
    # What was added begins at 0: it has moved by more than the processes may differ.
    added = [name for name in state if "lora_B" in name]
    assert len(added) == 12
    assert min(float(state[name].abs().max()) for name in added) > 1e-4
    # Whoever trained it: what rests is not in the file, and has the same numbers.
    assert second["base"] == first["base"]
    torch.testing.assert_close(second["model_state_dict"], state, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_updates_go_on_from_their_file(recipe):
    """Which holds only what was trained: to the last bit of a run that was never stopped."""
    recipe.add_configs(CONFIG)
    write_base(recipe.folder / "base.pt")
    words = ("network.checkpoint_interval_steps=2",)
    for name, killed in (("straight", {}), ("killed", {"TEST_KILL": "1:3"}), ("killed", {})):
        network = "network.network_class=small_networks.FrontEnded"
        folder = f"paths.system_folder={name}"
        run = recipe.run("updates", network, folder, *words, processes=2, **killed)
        assert (run.status == 0) == (not killed), run.output
    assert "going on from resume.pt" in run.output
    assert "base" in torch.load(recipe.system("killed") / "networks/epoch.1.pt", weights_only=True)
    assert_equal_runs(recipe.system("straight"), recipe.system("killed"))


def read(recipe, system: str) -> dict:
    return torch.load(recipe.system(system) / "networks" / "epoch.1.pt", weights_only=True)

"""Runs with averages of the weights: killed ones, and what of them is scored."""

import pytest
import torch

from tests.recipes.resuming import assert_resumes_exactly

CONFIG = """
averaged < normed
network.ema_decay = 0.8
network.checkpoint_interval_steps = 2
network.max_epochs = 2
network.average_best_networks = 2
recipe.selected_epochs = (1, 'average')
"""


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "kill"), [(1, "0:5"), (3, "2:3")])
def test_a_killed_run_ends_as_one_never_killed(recipe, capsys, processes, kill):
    recipe.add_configs(CONFIG)
    assert_resumes_exactly(recipe, "averaged", processes=processes, TEST_KILL=kill)
    if processes == 1:
        check_what_is_scored(recipe, capsys)


def check_what_is_scored(recipe, capsys):
    """Stage 2 computes again what validation has computed, from the network's file alone."""
    system = recipe.system("whole")
    scores = system / "scores" / "epoch.1" / "demo-dev.txt"
    expected = scores.read_bytes()
    scores.unlink()
    words = ("averaged", "paths.system_folder=whole", "recipe.start_stage=2")
    recipe.call(capsys, *words).ok()
    assert scores.read_bytes() == expected
    networks = [recipe.load(name, "whole") for name in ("epoch.1", "epoch.2", "average")]
    assert "unaveraged_state_dict" not in networks[2]
    weights = [network["model_state_dict"]["output.weight"].double() for network in networks]
    torch.testing.assert_close(weights[2], (weights[0] + weights[1]) / 2, rtol=0, atol=1e-7)

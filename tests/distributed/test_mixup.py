"""Mixed clips on several processes, and a kill in the middle of an epoch."""

import pytest
import torch

from tests.distributed.test_exactness import assert_equal_runs, step_losses, weights

MIXED = (
    "augmentation.mixup_probability=0.6",
    "augmentation.chain=('time_mask', 'silence')",
    "network.class_weights=(0.1, 0.9)",
)


@pytest.mark.slow
def test_processes_take_the_steps_of_one_with_mixed_clips(recipe, capsys):
    options = (
        "debug",
        *MIXED,
        "network.optimizer_step_interval=2",
        "network.print_interval=1",
        "network.global_minibatch_size=6",
        "recipe.end_stage=1",
    )
    alone = recipe.call(capsys, *options)
    assert alone.status == 0, alone.output
    first = recipe.output.rename(recipe.folder / "one")
    losses = step_losses(first / "system1")
    for processes in (2, 3):
        again = recipe.run(*options, f"paths.system_folder=p{processes}", processes=processes)
        assert again.status == 0, again.output
        system = recipe.system(f"p{processes}")
        assert step_losses(system) == pytest.approx(losses, rel=0, abs=1e-5)
        ends = [
            weights(folder / "networks" / "epoch.3.pt") for folder in (first / "system1", system)
        ]
        torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-6)


@pytest.mark.slow
def test_a_killed_run_with_mixed_clips_ends_as_one_never_killed(recipe):
    options = ["normed", *MIXED, "network.checkpoint_interval_steps=2"]
    whole = recipe.run(*options, "paths.system_folder=whole")
    assert whole.status == 0, whole.output
    assert recipe.run(*options, "paths.system_folder=killed", TEST_KILL="0:5").status != 0
    resumed = recipe.run(*options, "paths.system_folder=killed")
    assert resumed.status == 0, resumed.output
    assert_equal_runs(recipe.system("whole"), recipe.system("killed"))

"""A front end that is frozen first and drops layers and frames at random: 3 processes, stops."""

import pytest
import torch

CONFIG = """
drops < debug
network.network_class = 'asdf.networks.SSL_ASP'
front_end.architecture = 'tiny'
front_end.layer = 'weighted'
front_end.unfreeze_after_epochs = 1
front_end.layer_drop = 0.5
front_end.time_mask_proportion = 0.2
front_end.time_mask_length = 2
network.max_epochs = 2
network.minibatch_size = 3
network.optimizer_step_interval = 2
network.checkpoint_interval_steps = 1
recipe.end_stage = 1
recipe.validation_sets = ()
"""


@pytest.mark.slow
def test_three_processes_unfreeze_together_and_resume_exactly(recipe):
    """Each draws layers and frames of its own. One run is cut short after the first of the two
    steps in which the front end learns; a stop before that is a test of one process."""
    recipe.add_configs(CONFIG)
    whole = recipe.run("drops", "paths.system_folder=whole", processes=3)
    assert whole.status == 0, whole.output
    assert whole.output.index("the front end is frozen") < whole.output.index(
        "the front end is trained from here on"
    )
    part = recipe.run("drops", "paths.system_folder=part", "network.max_steps=3", processes=3)
    assert part.status == 0, part.output
    resumed = recipe.run("drops", "paths.system_folder=part", processes=3)
    assert resumed.status == 0, resumed.output
    folders = [recipe.system(name) / "networks" for name in ("whole", "part")]
    first, second = (torch.load(folder / "epoch.2.pt", weights_only=True) for folder in folders)
    for key in ("model_state_dict", "optimizer_state_dict"):
        torch.testing.assert_close(first[key], second[key], rtol=0, atol=0)
    before, after = (
        torch.load(folders[0] / f"epoch.{n}.pt", weights_only=True)["model_state_dict"]
        for n in (1, 2)
    )
    layers = "front_end.model.encoder.transformer.layers.0.feed_forward.output_dense.weight"
    assert not torch.equal(before[layers], after[layers])

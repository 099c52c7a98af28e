"""A run that learns prompts: counted, resumed exactly, scored from its small files."""

import pytest
import torch

from tests.unit.checkpoint.test_base_weights import write_base

CONFIG = """
prompts < debug
network.network_class = 'asdf.networks.SSL_ASP'
front_end.architecture = 'tiny'
front_end.weights = 'base.pt'
front_end.layer_drop = 0.2
prompt.tokens = 3
prompt.wavelet_tokens = 2
prompt.dropout = 0.1
network.max_epochs = 2
network.checkpoint_interval_steps = 2
"""


@pytest.mark.slow
def test_a_run_of_prompts_is_counted_and_resumes_exactly(recipe, capsys):
    recipe.add_configs(CONFIG)
    write_base(recipe.folder / "base.pt")
    planned = recipe.call(capsys, "prompts", "--dry-run")
    assert planned.status == 0, planned.output
    outcome = recipe.call(capsys, "prompts", "paths.system_folder=whole")
    assert outcome.status == 0, outcome.output
    # 5 vectors of 64 values in each of 2 layers.
    assert "640 of them trainable" in outcome.output
    words = ("prompts", "paths.system_folder=part", "recipe.end_stage=1")
    assert recipe.call(capsys, *words, "network.max_steps=9").status == 0
    resumed = recipe.call(capsys, *words)
    assert resumed.status == 0 and "going on from" in resumed.output, resumed.output
    whole, part = (
        torch.load(recipe.system(name) / "networks" / "epoch.2.pt", weights_only=True)
        for name in ("whole", "part")
    )
    assert sum("prompts" in name for name in whole["model_state_dict"]) == 4
    assert not any("k_proj" in name for name in whole["model_state_dict"])
    for key in ("model_state_dict", "optimizer_state_dict"):
        torch.testing.assert_close(whole[key], part[key], rtol=0, atol=0)

"""Runs that train updates on pretrained weights: small files, exact resumes, the same scores."""

import numpy as np
import pytest
import torch

import asdf
from tests.unit.checkpoint.test_base_weights import write_base

CONFIG = """
updates < debug
network.network_class = 'asdf.networks.SSL_ASP'
front_end.architecture = 'tiny'
front_end.weights = 'base.pt'
front_end.layer_drop = 0.2
front_end.unfreeze_after_epochs = 1
lora.rank = 3
lora.dropout = 0.1
network.max_epochs = 2
network.average_best_networks = 2
network.checkpoint_interval_steps = 2
recipe.selected_epochs = ('best', 'average')
"""


def scores(recipe, system: str) -> dict[str, bytes]:
    folder = recipe.system(system) / "scores"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.txt")}


@pytest.mark.slow
def test_a_run_of_updates_is_small_resumes_exactly_and_scores_as_it_validated(recipe, capsys):
    recipe.add_configs(CONFIG)
    write_base(recipe.folder / "base.pt")
    outcome = recipe.call(capsys, "updates", "paths.system_folder=whole", "recipe.end_stage=1").ok()
    assert "front end: 124,256 parameters, 5,376 of them trainable" in outcome.output
    validated = scores(recipe, "whole")
    file = recipe.load("average", "whole")
    assert file["base"]["weights"] == str(recipe.folder / "base.pt")
    assert not any(name.endswith("k_proj.weight") for name in file["model_state_dict"])
    words = ("updates", "paths.system_folder=part", "recipe.end_stage=1")
    recipe.call(capsys, *words, "network.max_steps=9").ok()
    resumed = recipe.call(capsys, *words).ok()
    assert "going on from" in resumed.output, resumed.output
    last = [recipe.load("epoch.2", system) for system in ("whole", "part")]
    assert last[0]["base"] == last[1]["base"]
    for key in ("model_state_dict", "optimizer_state_dict"):
        torch.testing.assert_close(last[0][key], last[1][key], rtol=0, atol=0)
    stage_2 = ("updates", "paths.system_folder=whole", "recipe.start_stage=2")
    recipe.call(capsys, *stage_2).ok()
    after = scores(recipe, "whole")
    # Merged as they are in stage 2, the networks give the very scores of validation.
    again = {name for name in validated if name in after}
    assert again and all(after[name] == validated[name] for name in again)
    detector = asdf.Detector(recipe.system("whole") / "networks" / "epoch.2.pt")
    assert np.isfinite(detector.score_trial(np.zeros(16000, np.float32) + 0.1, 16000))
    (recipe.folder / "base.pt").rename(recipe.folder / "moved.pt")
    missing = recipe.call(capsys, *stage_2)
    assert missing.status != 0 and "were not found. Name them" in missing.output, missing.output
    moved = f"front_end.weights={recipe.folder / 'moved.pt'}"
    outcome = recipe.call(capsys, *stage_2, moved).ok()
    assert scores(recipe, "whole") == after, outcome.output

"""`computing.deterministic` in a run: what cannot keep it ends the run with the reason."""

from asdf.distributed.determinism import WORKSPACE

NETWORK = """
import torch
from small_networks import Plain


class Putting(Plain):
    def forward(self, waveforms_BT):
        embeddings_BE, logits_B2 = super().forward(waveforms_BT)
        index = torch.tensor([0, 1])
        return embeddings_BE, logits_B2.put(index, logits_B2.flatten()[:2])
"""


def test_an_operation_without_a_deterministic_way_ends_the_run_with_one_message(recipe, capsys):
    (recipe.folder / "putting.py").write_text(NETWORK)
    words = ("debug", "network.network_class=putting.Putting", "recipe.end_stage=1")
    outcome = recipe.call(capsys, *words, "computing.deterministic=True", "network.max_epochs=1")
    said = "error: computing.deterministic = True, but torch has no deterministic way to compute "
    outcome.refused(f"{said}put")


def test_a_workspace_of_cublas_that_varies_is_refused_before_the_run(recipe, capsys, monkeypatch):
    monkeypatch.setenv(WORKSPACE, ":0:0")
    outcome = recipe.call(capsys, "debug", "computing.deterministic=True", "--dry-run")
    outcome.refused(f"the environment has {WORKSPACE}=:0:0")
    recipe.call(capsys, "debug", "--dry-run").ok()

"""A front end of another kind, in a file next to the recipe: all that front ends do, it does."""

import pytest
import torch

from asdf.evaluation import read_scores

NETWORK = '''
import torch
import torchaudio
from asdf.networks import SSL_ASP, FrontEnd


class LogFilterBank(FrontEnd):
    """Logarithms of the energies in 20 bands, and a projection that learns."""

    dimension = 20
    window = 400
    hop = 160
    cacheable = True

    def make_model(self, settings):
        bands = torchaudio.transforms.MelSpectrogram(
            n_fft=400, hop_length=160, n_mels=20, center=False
        )
        return torch.nn.ModuleDict({"bands": bands, "projection": torch.nn.Linear(20, 20)})

    def states(self, waveforms_BT):
        energies_BCL = self.model["bands"](waveforms_BT)
        features_BLC = (energies_BCL + 1e-6).log().transpose(1, 2)
        yield self.mask(self.model["projection"](features_BLC))


class FilterBankASP(SSL_ASP):
    front_end_class = LogFilterBank
'''

CONFIG = """
bank < debug
network.network_class = 'my_bank.FilterBankASP'
network.max_epochs = 1
network.print_interval = 4
network.clip_position = 'start'
front_end.time_mask_proportion = 0.2
"""

PROJECTION = "front_end.model.projection.weight"


def run(recipe, capsys, *words):
    if "bank <" not in (recipe.folder / "configs" / "run_configs.py").read_text():
        recipe.add_configs(CONFIG)
        (recipe.folder / "my_bank.py").write_text(NETWORK)
    outcome = recipe.call(capsys, "bank", *words).ok()
    return outcome.output


def trained_weights(recipe):
    path = recipe.system() / "networks" / "epoch.1.pt"
    return torch.load(path, weights_only=True)["model_state_dict"]


def scores(recipe):
    return read_scores(recipe.system() / "scores" / "epoch.1" / "demo-eval.txt")


def test_it_is_trained_and_scored_and_its_masks_are_drawn(recipe, capsys):
    run(recipe, capsys)
    assert len(scores(recipe)) == 8
    weights = trained_weights(recipe)
    assert weights["front_end.masking.embedding"].shape == (20,)
    assert weights["front_end.model.bands.mel_scale.fb"].shape == (201, 20)


@pytest.mark.slow
def test_its_learning_rate_is_its_own(recipe, capsys):
    run(recipe, capsys, "front_end.learning_rate=1e-30", "recipe.end_stage=1")
    still = trained_weights(recipe)[PROJECTION]
    run(recipe, capsys, "paths.system_folder=other", "recipe.end_stage=1")
    path = recipe.system("other") / "networks" / "epoch.1.pt"
    moved = torch.load(path, weights_only=True)["model_state_dict"][PROJECTION]
    assert (moved - still).abs().max() > 0
    run(recipe, capsys, "front_end.frozen=True", "paths.system_folder=frozen", "recipe.end_stage=1")
    path = recipe.system("frozen") / "networks" / "epoch.1.pt"
    frozen = torch.load(path, weights_only=True)["model_state_dict"][PROJECTION]
    torch.testing.assert_close(still, frozen, rtol=0, atol=1e-20)


@pytest.mark.slow
def test_frozen_its_features_are_cached_and_scores_are_those_without_a_cache(recipe, capsys):
    run(recipe, capsys, "front_end.frozen=True")
    expected = scores(recipe)
    cached = ("front_end.frozen=True", "front_end.cache_features=True")
    output = run(recipe, capsys, *cached, "paths.system_folder=cached")
    assert "computing them once" in output
    path = recipe.system("cached") / "scores" / "epoch.1" / "demo-eval.txt"
    torch.testing.assert_close(
        torch.tensor(read_scores(path).scores), torch.tensor(expected.scores), rtol=0, atol=1e-3
    )
    output = run(recipe, capsys, *cached, "paths.system_folder=again")
    assert "already computed" in output
    # An edited front end has other features.
    text = NETWORK.replace("1e-6", "1e-5")
    (recipe.folder / "my_bank.py").write_text(text)
    output = run(recipe, capsys, *cached, "paths.system_folder=edited")
    assert "computing them once" in output

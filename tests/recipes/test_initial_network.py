"""Training that begins with a whole network, as with a classifier of the hub."""

import re

import pytest
import torch

from asdf.checkpoint.network_reading import read_network_file
from asdf.extras.zoo.layouts.importing import import_detector
from asdf.extras.zoo.layouts.published import authors_state
from asdf.networks import build_network
from asdf.settings.sections import Sections
from tests.extras.zoo.classifier_folders import save_classifier

TRAIN = ("tuned", "recipe.end_stage=1", "network.max_epochs=1")


def test_a_classifier_of_transformers_is_trained_further(recipe, tmp_path, capsys):
    save_classifier(tmp_path / "hub", "hubert")
    lines = train_further(recipe, tmp_path / "hub", capsys)
    assert "network.network_class = 'asdf.networks.SSL_Classifier'" in lines
    assert "back_end.classifier_classes = ('fake', 'real')" in lines


@pytest.mark.slow
def test_a_detector_of_a_toolkit_is_trained_further(recipe, tmp_path, capsys):
    """On frames up to the end of a recording, and a sum of layers, as its program has them."""
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_SUPERBAASIST"
    vars(settings.front_end).update(architecture="tiny", layer="weighted", repeat_last_frame=True)
    state, _ = authors_state(build_network(settings))
    torch.save(state, tmp_path / "swa.pth")
    lines = train_further(recipe, tmp_path / "swa.pth", capsys)
    assert "network.network_class = 'asdf.networks.SSL_SUPERBAASIST'" in lines
    assert "front_end.layer = 'weighted'" in lines
    assert "front_end.repeat_last_frame = True" in lines


def train_further(recipe, path, capsys) -> list[str]:
    """Train one epoch from a network, which then is away, and return the lines that it asks for."""
    first = import_detector(path).network.state_dict()
    config = recipe.folder / "configs" / "run_configs.py"
    start = f"\ntuned < debug\npaths.system_folder = 'tuned'\nnetwork.initial_network = '{path}'\n"
    text = config.read_text()
    config.write_text(text + start)
    outcome = recipe.call(capsys, *TRAIN, "--dry-run")
    assert outcome.status != 0
    # The lines that the message lists are the ones that are missing.
    told = "the config describes another network than this one. Add to the config:\n"
    _, found, said = outcome.output.partition(told)
    assert found, outcome.output
    asked = [line.strip() for line in re.match(r"(?:    .*\n)*", said)[0].splitlines()]
    lines = [*asked, "network.initial_learning_rate = 1e-9"]
    config.write_text(text + start + "\n".join(lines) + "\n")
    outcome = recipe.call(capsys, *TRAIN).ok()
    assert f"training starts from {path}" in outcome.output
    file = read_network_file(recipe.system("tuned") / "networks" / "epoch.1.pt")
    # At this rate nothing moves: it began with the classifier, and not at random.
    for name, tensor in first.items():
        # Statistics of batch norms have no rate.
        if "running_" in name or "num_batches" in name:
            continue
        torch.testing.assert_close(file.state[name], tensor, rtol=0, atol=1e-5)
    assert file.settings["network"]["initial_network"] is None
    # What was trained is a network as any other: it is scored without the classifier.
    path.rename(path.with_name("gone"))
    recipe.call(capsys, "tuned", "recipe.start_stage=2", "recipe.selected_epochs=(1,)").ok()
    return asked

"""Training that begins with a whole network, as with a classifier of the hub."""

from __future__ import annotations

import torch

from asdf.checkpoint.network_reading import read_network_file
from asdf.interchange import import_detector
from tests.unit.interchange.classifier_folders import save_classifier

TRAIN = ("tuned", "recipe.end_stage=1", "network.max_epochs=1")


def test_a_classifier_of_transformers_is_trained_further(recipe, tmp_path, capsys):
    save_classifier(tmp_path / "hub", "hubert")
    first = import_detector(tmp_path / "hub").network.state_dict()
    config = recipe.folder / "configs" / "run_configs.py"
    start = (
        "\ntuned < debug\npaths.system_folder = 'tuned'\n"
        f"network.initial_network = '{tmp_path}/hub'\n"
    )
    text = config.read_text()
    config.write_text(text + start)
    outcome = recipe.call(capsys, *TRAIN, "--dry-run")
    assert outcome.status != 0
    assert "the config describes another network than this one. Add to the config:" in (
        outcome.output
    )
    # The lines that the message lists are the ones that are missing.
    said = outcome.output.splitlines()
    at = next(number for number, line in enumerate(said) if line.endswith("Add to the config:"))
    lines = []
    for line in said[at + 1 :]:
        if not line.startswith("    "):
            break
        lines.append(line.strip())
    assert "network.network_class = 'asdf.networks.SSL_Classifier'" in lines
    assert "back_end.classifier_classes = ('fake', 'real')" in lines
    lines.append("network.initial_learning_rate = 1e-9")
    config.write_text(text + start + "\n".join(lines) + "\n")
    outcome = recipe.call(capsys, *TRAIN)
    assert outcome.status == 0, outcome.output
    assert f"training begins with {tmp_path}/hub" in outcome.output
    file = read_network_file(recipe.system("tuned") / "networks" / "epoch.1.pt")
    # At this rate nothing moves: it began with the classifier, and not at random.
    for name, tensor in first.items():
        torch.testing.assert_close(file.state[name], tensor, rtol=0, atol=1e-5)
    assert file.settings["network"]["initial_network"] is None
    # What was trained is a network as any other: it is scored without the classifier.
    (tmp_path / "hub").rename(tmp_path / "gone")
    outcome = recipe.call(capsys, "tuned", "recipe.start_stage=2", "recipe.selected_epochs=(1,)")
    assert outcome.status == 0, outcome.output

"""Which networks stay, which is the best, and their average."""

import pytest
import torch

from asdf.errors import AsdfError
from asdf.runs.evaluations import Evaluation
from asdf.runs.layout import Layout, NetworkName, list_networks
from asdf.training.checkpoints import average_networks, remove_networks
from tests.unit.conftest import network_settings

# Epochs 1 to 8 by their EER on the first validation set; epochs 5 and 2 are equally good.
EERS = {1: 0.4, 2: 0.1, 3: 0.3, 4: 0.05, 5: 0.1, 6: 0.2, 7: 0.35, 8: 0.3}
EVALUATIONS = [
    Evaluation(10 * epoch, epoch, NetworkName.after_epoch(epoch), {"dev": eer, "other": 1 - eer})
    for epoch, eer in EERS.items()
]


def retained_epochs(system, selected=None, **network) -> list[int]:
    folder = Layout(system).networks
    folder.mkdir()
    for epoch in EERS:
        (folder / f"epoch.{epoch}.pt").touch()
    (folder / "resume.pt").touch()
    settings = network_settings(**network)
    settings.recipe.selected_epochs = selected
    remove_networks(Layout(system), settings, EVALUATIONS)
    assert (folder / "resume.pt").exists()
    return [name.position.epochs for name in list_networks(folder)]


def test_all_networks_stay_by_default(tmp_path):
    assert retained_epochs(tmp_path, keep_best_networks=1) == list(EERS)


@pytest.mark.parametrize(
    ("settings", "epochs"),
    [
        ({"keep_last_networks": 2, "keep_best_networks": 0}, [7, 8]),
        ({"keep_last_networks": 1, "keep_best_networks": 1}, [4, 8]),
        ({"keep_last_networks": 1, "keep_best_networks": 2}, [4, 5, 8]),  # of equals the later one
        (
            {"keep_last_networks": 1, "keep_best_networks": 0, "average_best_networks": 3},
            [2, 4, 5, 8],
        ),
        ({"keep_last_networks": 1, "keep_best_networks": 0, "selected": (1, "best", 6)}, [1, 6, 8]),
    ],
)
def test_what_is_retained(tmp_path, settings, epochs):
    assert retained_epochs(tmp_path, **settings) == epochs


def test_the_average_is_the_mean_of_the_best(tmp_path):
    networks = Layout(tmp_path).networks
    networks.mkdir()
    weights = {epoch: torch.tensor([1.0 + epoch * 2**-20, -float(epoch)]) for epoch in EERS}
    for epoch, weight in weights.items():
        state = {"weight": weight, "half": weight.bfloat16(), "batches": torch.tensor(epoch)}
        torch.save(
            {"model_state_dict": state, "network_class": "mine.Net"}, networks / f"epoch.{epoch}.pt"
        )
    path = average_networks(Layout(tmp_path), EVALUATIONS, 3)
    content = torch.load(path, weights_only=True)
    mean = (weights[4].double() + weights[2].double() + weights[5].double()) / 3
    assert path.name == "average.pt" and content["averaged"] == [
        "epoch.4.pt",
        "epoch.5.pt",
        "epoch.2.pt",
    ]
    assert torch.equal(content["model_state_dict"]["weight"], mean.float())
    assert content["model_state_dict"]["half"].dtype == torch.bfloat16
    assert content["model_state_dict"]["batches"] == 4 and content["network_class"] == "mine.Net"
    before = torch.load(networks / "epoch.4.pt", weights_only=True)["model_state_dict"]
    assert torch.equal(before["weight"], weights[4])
    # Fewer than requested: of the best five one was not retained.
    (networks / "epoch.2.pt").unlink()
    content = torch.load(average_networks(Layout(tmp_path), EVALUATIONS, 5), weights_only=True)
    assert content["averaged"] == [f"epoch.{epoch}.pt" for epoch in (4, 5, 6, 8)]
    assert content["model_state_dict"]["weight"][1] == -(4 + 5 + 6 + 8) / 4


def test_an_average_of_nothing_is_an_error(tmp_path):
    with pytest.raises(
        AsdfError, match=r"no network has been evaluated: set\s+recipe\.validation_sets"
    ):
        average_networks(Layout(tmp_path), [], 3)

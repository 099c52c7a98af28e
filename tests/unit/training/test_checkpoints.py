"""Networks on disk: what comes back, what is refused, when one is written, and which stay."""

import io
import resource
from pathlib import Path

import pytest
import torch
from torch import nn

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import fill_network
from asdf.errors import AsdfError
from asdf.runs.evaluations import Evaluation
from asdf.runs.layout import Layout, NetworkName, list_networks
from asdf.settings.sections import Sections
from asdf.training import checkpoints
from asdf.training.checkpoints import (
    HostCopies,
    SaveTimer,
    average_networks,
    collect_checkpoint,
    newest_checkpoint,
    read_checkpoint,
    remove_networks,
)
from asdf.training.optimisers import build_optimiser, load_optimiser_state
from asdf.training.training_progress import Progress
from tests.unit.conftest import network_settings

EVALUATION = Evaluation(17, 2.5, NetworkName("epoch.3.step.17"), {"dev": 0.1}, "bf16")


def network(seed: int = 0, outputs: int = 2) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, outputs))


def save(path: Path, progress: Progress | None = None, seed: int = 0) -> nn.Module:
    made, settings = network(seed), Sections()
    settings.front_end.weights = "xlsr.pt"
    settings.network.network_class = "mine.Net"
    optimiser = build_optimiser(made, settings)
    made(torch.rand(5, 3)).sum().backward()
    optimiser.step()
    content = collect_checkpoint(
        made,
        optimiser,
        torch.amp.GradScaler("cpu", enabled=False),
        progress or Progress(),
        settings,
        HostCopies(),
    )
    write_network_file(path, content)
    return made


def test_a_round_trip(tmp_path):
    progress = Progress(2, 5, 17, 1.5, 2.5, 0.7, 1, 0.5, [EVALUATION], "", 2, "abc")
    made = save(tmp_path / "epoch.3.step.17.pt", progress)
    checkpoint = read_checkpoint(tmp_path / "epoch.3.step.17.pt")
    other = network(seed=1)
    fill_network(other, checkpoint)
    torch.testing.assert_close(other.state_dict(), made.state_dict(), rtol=0, atol=0)
    assert checkpoint.progress["evaluations"] == [EVALUATION.record()]
    assert Progress.from_state(checkpoint.progress) == progress
    assert progress.network_name().file == "epoch.3.step.17.pt"
    # Where the original ASDF looks for them.
    assert checkpoint.others == {"training_loss": 0.7, "consecutive_lr_updates": 1}
    assert checkpoint.network_class == "mine.Net"
    assert checkpoint.settings["network"]["minibatch_size"] == 24
    # A network needs no pretrained weights to be built again.
    assert checkpoint.settings["front_end"]["weights"] is None


def test_names_of_networks():
    assert Progress(epochs=3, step=9).network_name().file == "epoch.3.pt"
    assert Progress(epochs=3, position=5, step=9).network_name().file == "epoch.4.step.9.pt"


def test_another_networks_file_is_refused_layer_by_layer_and_changes_nothing(tmp_path):
    save(tmp_path / "epoch.1.pt")
    other = network(seed=1, outputs=3)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    with pytest.raises(AsdfError) as caught:
        fill_network(other, read_checkpoint(tmp_path / "epoch.1.pt"))
    assert str(caught.value) == (
        f"weights {tmp_path / 'epoch.1.pt'} do not fit Sequential; nothing was loaded. Layers 2 of "
        "another shape: 2.weight (2x4 in the file, 3x4 in the network), 2.bias (2 in the file, 3 "
        "in the network). They are of the network class mine.Net. Set network.network_class and "
        "front_end.architecture to those it was trained with, or give this run another "
        "paths.system_folder."
    )
    torch.testing.assert_close(other.state_dict(), before, rtol=0, atol=0)
    with pytest.raises(
        AsdfError, match=r"9 missing from the file: 0\.weight, 0\.bias, .* and 3 more"
    ):
        fill_network(other, NetworkFile({}))


@pytest.mark.parametrize(
    "extra",
    [
        {"training_loss": torch.tensor(0.5), "consecutive_lr_updates": torch.tensor(1)},
        {"training_loss": 0.5, "consecutive_lr_updates": 1},
    ],
)
def test_a_file_of_the_original_framework(tmp_path, extra):
    made, other = network(), network(1)
    content = {"model_state_dict": {**made.state_dict(), **extra}, "optimizer_state_dict": {}}
    torch.save(content, tmp_path / "epoch.7.pt")
    fill_network(other, read_checkpoint(tmp_path / "epoch.7.pt"))
    torch.testing.assert_close(other.state_dict(), made.state_dict(), rtol=0, atol=0)
    assert newest_checkpoint(tmp_path) == tmp_path / "epoch.7.pt"


def test_a_file_that_is_no_network_is_refused(tmp_path):
    path = tmp_path / "epoch.1.pt"
    for content, said in (
        ([1], "it holds a list, but weights must be in a dict"),
        ({"a": 1}, "is not a network"),
        ({"model_state_dict": [1]}, "is not a network"),
    ):
        torch.save(content, path)
        with pytest.raises(AsdfError, match=said):
            read_checkpoint(path)
    with pytest.raises(AsdfError, match=r"no network .*epoch\.2\.pt\. There are epoch\.1\.pt\."):
        read_checkpoint(tmp_path / "epoch.2.pt")


def test_the_newest_checkpoint_is_the_one_of_most_steps(tmp_path):
    assert newest_checkpoint(tmp_path) is None
    save(tmp_path / "epoch.9.pt", Progress(epochs=9, step=90))
    save(tmp_path / "epoch.10.pt", Progress(epochs=10, step=100))
    assert newest_checkpoint(tmp_path) == tmp_path / "epoch.10.pt"
    save(tmp_path / "epoch.11.step.105.pt", Progress(epochs=10, position=3, step=105))
    assert newest_checkpoint(tmp_path) == tmp_path / "epoch.11.step.105.pt"
    save(tmp_path / "resume.pt", Progress(epochs=10, position=4, step=107))
    assert newest_checkpoint(tmp_path) == tmp_path / "resume.pt"
    # A kill between the end of an epoch and the removal of its resume.pt.
    save(tmp_path / "epoch.11.pt", Progress(epochs=11, step=110))
    assert newest_checkpoint(tmp_path) == tmp_path / "epoch.11.pt"


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, monkeypatch):
    messages = []
    monkeypatch.setattr(
        checkpoints.LOG, "warning", lambda text, *what: messages.append(text % what)
    )
    save(tmp_path / "epoch.1.pt", Progress(epochs=1, step=10))
    save(tmp_path / "epoch.2.pt", Progress(epochs=2, step=20))
    whole = (tmp_path / "epoch.2.pt").read_bytes()
    (tmp_path / "epoch.2.pt").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "resume.pt").write_bytes(b"")
    assert newest_checkpoint(tmp_path) == tmp_path / "epoch.1.pt"
    assert len(messages) == 2 and "resume.pt" in messages[0] and "epoch.2.pt" in messages[1]
    (tmp_path / "epoch.1.pt").write_bytes(b"x")
    with pytest.raises(AsdfError, match=r"none of the 3 networks in .* can be read\. Move them"):
        newest_checkpoint(tmp_path)


def test_a_full_disk_leaves_the_old_network(tmp_path):
    path = tmp_path / "epoch.1.pt"
    write_network_file(path, NetworkFile({}))
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(AsdfError, match=r"too large\. The previous content is unchanged\."):
            write_network_file(path, NetworkFile({"weight": torch.zeros(100_000)}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_moments_do_not_stay_in_a_file_that_is_mapped(name, tmp_path):
    """Else training would write into pages of the file, and a new one in its place would end it."""
    settings = Sections()
    settings.network.optimizer = name
    settings.network.momentum = 0.9
    made = network()
    trained = build_optimiser(made, settings)
    made(torch.rand(5, 3)).sum().backward()
    trained.step()
    torch.save(trained.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True, mmap=True)
    in_file = {}
    for index, moments in state["state"].items():
        in_file[index] = {key: value.data_ptr() for key, value in moments.items()}

    resumed = build_optimiser(network(), settings)
    load_optimiser_state(resumed, state)
    loaded = resumed.state_dict()["state"]
    assert loaded.keys() == in_file.keys()
    for index, moments in trained.state_dict()["state"].items():
        for key, value in moments.items():
            assert torch.equal(loaded[index][key], value)
            assert loaded[index][key].data_ptr() != in_file[index][key]


def saved(content) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    network[2].weight = network[0].weight  # shared, and saved once
    network.register_buffer("part", torch.arange(10.0)[2:8:3])
    network.register_buffer("empty", torch.zeros(0, dtype=torch.int64))
    network.register_buffer("none", torch.zeros(0))
    optimiser = torch.optim.Adam(network.parameters())
    network(torch.rand(5, 3)).sum().backward()
    optimiser.step()
    return network, optimiser


def test_a_copy_is_saved_as_what_it_is_of_and_does_not_change_with_it():
    network, optimiser = trained()
    content = {
        "network": network.state_dict(),
        "optimiser": optimiser.state_dict(),
        "rest": [1, (2.5, torch.ones(2, dtype=torch.bfloat16)), "text", None],
    }
    before = saved(content)
    copied = HostCopies().take(content)
    assert saved(copied) == before
    assert copied["network"]._metadata == content["network"]._metadata
    optimiser.step()
    network[1].running_mean += 1
    assert saved(content) != before
    assert saved(copied) == before


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


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def lateness(interval, saves: list[tuple[float, float]]) -> float | None:
    """Return after how many seconds a timer that saw these saves is late; None if after an hour.

    Args:
        saves: what training stood still for, and what the thread then took to write.
    """
    clock = Clock()
    timer = SaveTimer(interval, clock)
    for saving_s, writing_s in saves:
        clock.now += 7
        timer.note_saving(saving_s)
        timer.note_writing(writing_s)
    start = clock.now
    for second in range(3601):
        clock.now = start + second
        if timer.is_late():
            return second
    return None


@pytest.mark.parametrize(
    ("interval", "saves", "expected"),
    [
        (None, [], None),
        (900.0, [], 900),
        (2.5, [(100.0, 100.0)], 3),
        ("auto", [], 30),
        ("auto", [(0.1, 0.1)], 30),
        ("auto", [(0.6, 3.0)], 30),
        ("auto", [(2.0, 3.0)], 100),
        ("auto", [(0.6, 40.0)], 400),
        # The last save counts: the disk may have become slower, or quicker.
        ("auto", [(2.0, 0.0), (12.0, 1.0)], 600),
        ("auto", [(12.0, 90.0), (0.01, 0.02)], 30),
        ("auto", [(73.0, 0.0)], None),
        ("auto", [(0.0, 361.0)], None),
    ],
)
def test_how_long_after_the_last_save_the_next_is_due(interval, saves, expected):
    assert lateness(interval, saves) == expected


@pytest.mark.parametrize(("interval", "while_writing"), [("auto", False), (40.0, True)])
def test_none_is_due_while_one_is_being_written_but_by_a_set_interval(interval, while_writing):
    clock = Clock()
    timer = SaveTimer(interval, clock)
    timer.note_saving(0.1)
    clock.now += 45
    assert timer.is_late() == while_writing
    timer.note_writing(2.0)
    assert timer.is_late()


def test_what_is_not_training_is_taken_off_and_the_interval_stays():
    clock = Clock()
    timer = SaveTimer("auto", clock)
    timer.note_saving(2.0)
    timer.note_writing(2.0)
    clock.now += 99
    assert not timer.is_late()
    clock.now += 5000
    timer.restart()
    clock.now += 99
    assert not timer.is_late() and timer.interval() == 100
    clock.now += 1
    assert timer.is_late()

"""Networks on disk: what is written comes back, and what does not fit is refused with a reason."""

import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.errors import AsdfError
from asdf.runs.evaluations import Evaluation
from asdf.runs.layout import NetworkName
from asdf.settings.sections import Sections
from asdf.training import checkpoints
from asdf.training.checkpoints import (
    HostCopies,
    collect_checkpoint,
    fill_network,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from asdf.training.optimisers import build_optimiser, load_optimiser_state
from asdf.training.training_progress import Progress

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
    write_checkpoint(path, content)
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


class Runs:
    def __reduce__(self):
        return print, ("code in a checkpoint was run",)


def test_a_file_that_is_no_network_is_refused_and_never_run(tmp_path, capsys):
    path = tmp_path / "epoch.1.pt"
    for content, said in (
        (Runs(), "cannot read the network"),
        ([1], "it holds a list, but weights must be in a dict"),
        ({"a": 1}, "is not a network"),
        ({"model_state_dict": [1]}, "is not a network"),
    ):
        torch.save(content, path)
        with pytest.raises(AsdfError, match=said):
            read_checkpoint(path)
    path.write_bytes(b"damaged")
    with pytest.raises(
        AsdfError,
        match=r"cannot read the network .*epoch\.1\.pt\. It is refused, and nothing in it was run",
    ):
        read_checkpoint(path)
    with pytest.raises(
        AsdfError, match=r"there is no network .*epoch\.2\.pt\. There are epoch\.1\.pt\."
    ):
        read_checkpoint(tmp_path / "epoch.2.pt")
    assert "was run" not in capsys.readouterr().out


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
    with pytest.raises(
        AsdfError, match=r"none of the 3 networks in .* can be read\. They are left as"
    ):
        newest_checkpoint(tmp_path)


FULL = """
import resource, sys, torch
from pathlib import Path
from asdf.errors import AsdfError
from asdf.checkpoint.network_file import NetworkFile
from asdf.training.checkpoints import write_checkpoint
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    write_checkpoint(Path(sys.argv[1]), NetworkFile({"weight": torch.zeros(100_000)}))
except AsdfError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 100_000])
def test_a_full_disk_leaves_the_old_network(tmp_path, warm, limit):
    path = tmp_path / "epoch.1.pt"
    write_checkpoint(path, NetworkFile({}))
    before = path.read_bytes()
    completed = subprocess.run(
        [warm(), "-c", FULL, str(path), str(limit)], capture_output=True, text=True
    )
    assert completed.returncode == 0 and completed.stderr == "", completed.stderr
    assert completed.stdout.startswith(
        f"cannot write {path}: File too large. The previous content is unchanged."
    )
    assert "a run resumes from the newest checkpoint" in completed.stdout
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

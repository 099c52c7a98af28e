"""ASDF network files: a detector comes back from its file alone, and a file runs nothing."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import read_network_file
from asdf.errors import AsdfError
from asdf.interchange import read_network
from asdf.networks import AASIST_L, SSL_AASIST
from asdf.settings.sections import Sections


@pytest.fixture
def saved(tmp_path, tiny):
    """A network and its file."""
    torch.manual_seed(0)
    tiny.front_end.frozen, tiny.front_end.weights = True, "never/looked/at.pt"
    tiny.front_end.weights = None
    network = SSL_AASIST(tiny)
    tiny.front_end.weights = "pretrained/gone.pt"
    file = NetworkFile.from_network(network, tiny, calibration={"scale": 2.0})
    write_network_file(tmp_path / "net.pt", file)
    return network, tmp_path / "net.pt"


def changed(path: Path, change) -> Path:
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, path)
    return path


def test_a_network_comes_back_from_its_file_alone(saved, waveforms):
    network, path = saved
    state = torch.random.get_rng_state()
    read, file = read_network(path)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert type(read) is SSL_AASIST and not read.training
    torch.testing.assert_close(read.state_dict(), network.state_dict(), rtol=0, atol=0)
    assert torch.equal(read(waveforms)[1], network.eval()(waveforms)[1])
    assert (file.format, file.version, file.calibration) == ("asdf", 1, {"scale": 2.0})
    settings = file.to_sections()
    assert (settings.front_end.architecture, settings.front_end.weights) == ("tiny", None)


def test_settings_of_a_newer_version_are_ignored_with_a_warning_and_missing_ones_are_the_defaults(
    saved, caplog
):
    def change(content):
        content["settings"]["front_end"]["of_tomorrow"] = 3
        content["settings"]["tomorrow"] = {"x": 1}
        del content["settings"]["front_end"]["dropout"], content["settings"]["rawboost"]

    path = changed(saved[1], change)
    with caplog.at_level(logging.WARNING, logger="asdf"):
        read, _ = read_network(path)
    assert "ignored: front_end.of_tomorrow, tomorrow.x" in caplog.text
    assert torch.equal(read.back_end.LL.weight, saved[0].back_end.LL.weight)


def test_a_value_that_does_not_fit_is_reported(saved):
    path = changed(saved[1], lambda content: content["settings"]["front_end"].update(frozen="half"))
    with pytest.raises(
        AsdfError, match=r"net\.pt was made with front_end\.frozen = 'half', which this ASDF"
    ):
        read_network(path)


@pytest.mark.parametrize(
    ("section", "name", "value", "shown"),
    [
        ("sad", "hangover_s", -1.0, "-1.0"),
        ("sad", "hangover_s", float("nan"), "nan"),
        ("network", "train_clip_size", 0, "0"),
        ("network", "network_class", ["x" * 5000], "['xxx"),
    ],
)
def test_a_value_out_of_its_settings_bounds_is_refused(section, name, value, shown, saved):
    path = changed(saved[1], lambda content: content["settings"][section].update({name: value}))
    with pytest.raises(AsdfError) as caught:
        read_network(path)
    message = str(caught.value)
    assert f"was made with {section}.{name} = {shown}" in message and len(message) < 1500
    assert message.endswith(
        "The file is damaged, or was written by a newer ASDF: then update yours."
    )


@pytest.mark.parametrize(
    "name",
    [
        "os.system",
        "torch.nn.Linear",
        "asdf.networks.interface.nn",
        "evil.Net",
        "Net",
        "asdf.networks.interface.DistributedDataParallel",
        "asdf.networksx.Net",
    ],
)
def test_only_the_projects_classes_are_built(name, saved, tmp_path, monkeypatch):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')")
    monkeypatch.syspath_prepend(str(tmp_path))
    path = changed(
        saved[1], lambda content: content["settings"]["network"].update(network_class=name)
    )
    with pytest.raises(AsdfError):
        read_network(path)
    assert not (tmp_path / "trace").exists()


OWN = """
from torch import nn
class Net(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.layer = nn.Linear(2, settings.network.minibatch_size)

    def forward(self, waveforms_BT):
        return waveforms_BT, self.layer(waveforms_BT[:, :2])
"""


def test_a_users_class_is_built_from_the_folder_that_is_named(tmp_path, monkeypatch):
    (tmp_path / "own_network_of_a_test.py").write_text(OWN)
    settings = Sections()
    settings.network.network_class, settings.network.minibatch_size = "own_network_of_a_test.Net", 3
    made = torch.nn.ModuleDict({"layer": torch.nn.Linear(2, 3)})
    write_network_file(tmp_path / "own.pt", NetworkFile.from_network(made, settings))
    with pytest.raises(
        AsdfError,
        match=r"is of the class own_network_of_a_test\.Net, which is not part of asdf\.networks",
    ):
        read_network(tmp_path / "own.pt")
    (tmp_path / "empty").mkdir()
    with pytest.raises(AsdfError, match="has no module in"):
        read_network(tmp_path / "own.pt", tmp_path / "empty")
    read, _ = read_network(tmp_path / "own.pt", tmp_path)
    assert torch.equal(read.layer.weight, made["layer"].weight)


def test_weights_that_do_not_fit_are_named(saved):
    path = changed(saved[1], lambda content: content["model_state_dict"].pop("back_end.LL.bias"))
    with pytest.raises(AsdfError, match=r"Layers 1 missing from the file: back_end\.LL\.bias\. "):
        read_network(path)


def test_a_file_of_weights_alone_is_sent_to_import(tmp_path, reference):
    torch.save({"model_state_dict": AASIST_L(Sections()).state_dict()}, tmp_path / "epoch.1.pt")
    with pytest.raises(AsdfError, match=r"python -m asdf import .*epoch\.1\.pt OUT"):
        read_network(tmp_path / "epoch.1.pt")
    with pytest.raises(AsdfError, match="there is no such file"):
        read_network(tmp_path / "epoch.2.pt")
    with pytest.raises(AsdfError, match="it is a folder"):
        read_network_file(tmp_path)


def test_a_failed_write_leaves_the_old_file(saved):
    before = saved[1].read_bytes()
    with pytest.raises(AttributeError):
        file = NetworkFile.from_network(saved[0], Sections(), others={"function": lambda: None})
        write_network_file(saved[1], file)
    assert saved[1].read_bytes() == before and list(saved[1].parent.iterdir()) == [saved[1]]


ENTRIES = {
    "format": "asdf",
    "version": 1,
    "network_class": "mine.Net",
    "settings": {"recipe": {"seed": 3}, "paths": {"output_folder": "/home/someone"}},
    "model_state_dict": {"weight": torch.ones(2)},
    "optimizer_state_dict": {"state": {}},
    "scaler_state_dict": {"scale": 2.0},
    "progress": {"step": 7, "training_loss": 0.5, "consecutive_lr_updates": 1},
    "calibration": {"scale": 2.0},
    "evaluation": {"dev": 0.25},
    "averaged": ["epoch.1.pt"],
    "training_loss": 0.5,
    "consecutive_lr_updates": 1,
    "of_tomorrow": 3,
}


def test_each_entry_is_an_attribute_and_is_written_again():
    file = NetworkFile.from_content(ENTRIES, Path("net.pt"))
    assert file.content() == ENTRIES and list(file.content())[:5] == list(ENTRIES)[:5]
    assert (file.optimiser_state, file.scaler_state) == ({"state": {}}, {"scale": 2.0})
    assert (file.progress["step"], file.calibration) == (7, {"scale": 2.0})
    assert file.others == {"training_loss": 0.5, "consecutive_lr_updates": 1, "of_tomorrow": 3}


def test_a_checkpoint_has_the_two_numbers_where_the_original_asdf_looks_for_them():
    file = NetworkFile({}, progress={"training_loss": 0.5, "consecutive_lr_updates": 1})
    assert file.content() == {
        "model_state_dict": {},
        "progress": {"training_loss": 0.5, "consecutive_lr_updates": 1},
        "training_loss": 0.5,
        "consecutive_lr_updates": 1,
    }


def test_a_description_has_neither_training_nor_paths():
    description = NetworkFile.from_content(ENTRIES, Path("net.pt")).description()
    described = ("format", "version", "network_class", "settings")
    assert tuple(description) == (*described, "calibration", "evaluation", "averaged")
    assert description["settings"] == {"recipe": {"seed": 3}}


def test_settings_of_another_type_are_none():
    file = NetworkFile.from_content({**ENTRIES, "settings": [1]}, Path("net.pt"))
    assert file.settings is None and not file.is_described

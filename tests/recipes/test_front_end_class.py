"""Runs whose settings name the front end: one of the project's, or a class of one's own."""

import re
import shutil

import pytest
import torch

from asdf import Detector
from asdf.errors import AsdfError
from tests.encoders import save_encoder
from tests.hub_server import sha256
from tests.unit import conftest

# Fixtures of the unit tests.
hub = conftest.hub
hub_cache = conftest.hub_cache

OWN = '''
from dataclasses import dataclass

import torch
import torchaudio
from asdf.networks import FrontEnd
from asdf.settings import OwnSettings, setting


@dataclass
class BankSettings(OwnSettings, section_name="bank"):
    """The filters of LogFilterBank."""

    bands: int = setting(20, "number of bands", at_least=1, at_most=200)


class LogFilterBank(FrontEnd):
    own_settings = BankSettings
    window = 400
    hop = 160
    cacheable = True

    def set_sizes(self, settings):
        self.dimension = self.sections.bank.bands

    def make_model(self, settings):
        return torchaudio.transforms.MelSpectrogram(
            n_fft=400, hop_length=160, n_mels=self.dimension, center=False
        )

    def states(self, waveforms_BT):
        yield self.mask((self.model(waveforms_BT) + 1e-6).log().transpose(1, 2))
'''
CONFIG = """
ends < debug
network.network_class = 'asdf.networks.SSL_ASP'
network.max_epochs = 1
recipe.end_stage = 2
network.clip_position = 'start'

own < ends
front_end.front_end_class = 'my_bank.LogFilterBank'
bank.bands = 24

lfcc < ends
network.network_class = 'asdf.networks.ComposedDetector'
front_end.front_end_class = 'lfcc'
front_end.frozen = True
back_end.back_end_class = 'mhfa'
back_end.mhfa_embedding = 16
spectrum.normalization = 'mean'

encoder < ends
network.network_class = 'asdf.networks.SSL_MHFA'
front_end.front_end_class = 'transformers'
"""


@pytest.fixture
def ends(recipe):
    return recipe.with_files(CONFIG, my_bank=OWN)


def run(recipe, capsys, *words):
    return recipe.call(capsys, *words).ok().output


def scores(recipe, system="system1"):
    return torch.tensor(recipe.scores("demo-eval", system=system).scores)


@pytest.mark.slow_but("SSL_MHFA")
@pytest.mark.parametrize("network", ["SSL_AASIST", "SSL_MHFA"])
def test_a_front_end_of_ones_own_with_settings_of_its_own(network, ends, capsys):
    chosen = f"network.network_class=asdf.networks.{network}"
    run(ends, capsys, "own", chosen, "--dry-run")
    run(ends, capsys, "own", chosen, "front_end.time_mask_proportion=0.2")
    assert len(scores(ends)) == 8
    path = ends.system() / "networks" / "epoch.1.pt"
    layers = ends.load()["model_state_dict"]
    assert layers["front_end.model.mel_scale.fb"].shape == (201, 24)
    assert layers["front_end.masking.embedding"].shape == (24,)
    assert Detector(path, network_folder=ends.folder).settings.bank.bands == 24
    with pytest.raises(AsdfError, match=r"is of the class my_bank\.LogFilterBank"):
        Detector(path)
    again = ends.call(capsys, "own", chosen, "bank.bands=0")
    assert again.status == 2 and "bank.bands" in again.output


def test_lfcc_before_a_back_end_that_settings_name_with_and_without_cached_features(ends, capsys):
    assert "parameters" in run(ends, capsys, "lfcc", "--dry-run")
    run(ends, capsys, "lfcc")
    cached = "front_end.cache_features=True"
    words = (cached, "paths.system_folder=cached")
    assert "computing them once" in run(ends, capsys, "lfcc", *words)
    # Cached in float16, by 2^-11 of themselves at most from what is computed; a score of magnitude
    # 1 behind normalised features, after some steps with each, by 20 times that.
    torch.testing.assert_close(scores(ends, "cached"), scores(ends), rtol=0, atol=20 * 2**-11)
    # Other features are computed anew.
    words = (cached, "spectrum.filters=30", "paths.system_folder=more", "recipe.end_stage=1")
    assert "computing them once" in run(ends, capsys, "lfcc", *words)
    detector = Detector(ends.system() / "networks" / "epoch.1.pt")
    assert detector.settings.spectrum.normalization == "mean"


def test_an_edited_front_end_has_other_features(ends, capsys):
    words = ("own", "front_end.frozen=True", "front_end.cache_features=True", "recipe.end_stage=1")
    assert "computing them once" in run(ends, capsys, *words)
    assert "already computed" in run(ends, capsys, *words, "paths.system_folder=again")
    (ends.folder / "my_bank.py").write_text(OWN.replace("1e-6", "1e-5"))
    assert "computing them once" in run(ends, capsys, *words, "paths.system_folder=edited")


@pytest.mark.slow
def test_an_encoder_of_transformers_is_trained_and_scored_without_its_folder(
    ends, capsys, tmp_path
):
    folder = tmp_path / "encoder"
    save_encoder(folder, "wav2vec2-bert")
    words = ("encoder", f"front_end.weights={folder}")
    assert "parameters" in run(ends, capsys, *words, "--dry-run")
    run(ends, capsys, *words)
    folder.rename(tmp_path / "elsewhere")
    before = scores(ends)
    run(ends, capsys, "encoder", "recipe.start_stage=2")
    assert torch.equal(scores(ends), before)


@pytest.fixture
def encoder(tmp_path, hub):
    """The commit and the files of an encoder that the hub has."""
    save_encoder(tmp_path / "encoder", "hubert")
    files = {path.name: path.read_bytes() for path in (tmp_path / "encoder").iterdir()}
    return hub.repository("org/encoder").commit(files), files


@pytest.mark.slow
def test_an_encoder_of_the_hub_is_trained_by_its_name_and_scored_without_it(
    ends, capsys, hub, hub_cache, encoder
):
    commit, _ = encoder
    words = ("encoder", "front_end.weights=org/encoder")
    planned = run(ends, capsys, *words, "--dry-run")
    assert re.search(r"the run downloads 0\.\d MB of org/encoder", planned)
    assert not hub.contents() and not list(hub_cache.rglob("snapshots"))
    run(ends, capsys, *words)
    planned = run(ends, capsys, *words, "--dry-run")
    assert "downloads" not in planned and "parameters" in planned
    assert ends.load()["pretrained"] == f"hub:org/encoder@{commit}"
    shutil.rmtree(hub_cache)
    hub.repositories.clear()
    before = scores(ends)
    run(ends, capsys, *words, "recipe.start_stage=2")
    assert torch.equal(scores(ends), before)
    outcome = ends.call(capsys, *words, "--dry-run")
    assert outcome.status != 0
    assert outcome.output.count("hub:org/encoder: the hub has no such repository") == 1


@pytest.mark.slow
def test_processes_fetch_an_encoder_of_the_hub_once_and_take_one_commit(
    ends, hub, hub_cache, encoder
):
    commit, files = encoder
    variables = {"HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(hub_cache), "HF_HUB_OFFLINE": "0"}
    words = ("encoder", "front_end.weights=org/encoder", "recipe.end_stage=1")
    ends.run(*words, processes=2, **variables).ok()
    assert ends.load()["pretrained"] == f"hub:org/encoder@{commit}"
    digest = sha256(files["model.safetensors"])
    fetched = [path for _, path, _ in hub.contents() if digest in path]
    assert len(fetched) == 1, hub.contents()


def test_a_network_that_does_not_take_the_named_end_is_refused_by_a_dry_run(ends, capsys):
    words = ("own", "network.network_class=asdf.networks.AASIST", "--dry-run")
    ends.call(capsys, *words).refused("has no front end and cannot be combined with")

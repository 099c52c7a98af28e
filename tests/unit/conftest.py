"""Small settings, a small network and its file, waveforms, recordings, and reference files."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.scoring.score_list import build_list_scorer, score_list
from asdf.settings.sections import Sections
from tests.hub_server import HubServer

ROOT = Path(__file__).resolve().parents[2]
REFERENCE_FOLDERS = (ROOT / "tests" / "fixtures" / "networks", ROOT.parent / "shared" / "reference")


@pytest.fixture(scope="session", autouse=True)
def single_thread() -> None:
    torch.set_num_threads(1)


def network_settings(**values) -> Sections:
    """Return the default settings, with these values in the section `network`."""
    settings = Sections()
    for name, value in values.items():
        setattr(settings.network, name, value)
    return settings


def small_settings(**values) -> Sections:
    """Return the settings of a network that scores 4,000 to 8,000 samples in a millisecond."""
    settings = network_settings(
        **{
            "network_class": "asdf.networks.ComposedDetector",
            "min_evaluation_utterance_length_in_samples": 4000,
            "max_evaluation_utterance_length_in_samples": 8000,
            **values,
        }
    )
    settings.front_end.architecture = "tiny"
    if "network_class" not in values:
        settings.front_end.front_end_class = "log_mel"
        settings.back_end.back_end_class = "linear"
    settings.computing.network_dataloader_workers = 0
    return settings


@pytest.fixture
def tiny() -> Sections:
    """Settings with the tiny front end."""
    settings = Sections()
    settings.front_end.architecture = "tiny"
    return settings


@pytest.fixture
def small(tiny) -> Sections:
    """Settings with `tiny`'s front end and small back ends."""
    tiny.back_end.mhfa_embedding = 24
    tiny.back_end.sls_hidden = 32
    tiny.back_end.sls_samples = 8000
    tiny.back_end.conformer_dimension = 16
    tiny.back_end.conformer_blocks = 2
    tiny.back_end.lcnn_projection = 32
    tiny.back_end.resnet_projection = 20
    tiny.back_end.resnet_embedding = 40
    tiny.back_end.ecapa_channels = 16
    tiny.back_end.mamba_dimension = 16
    tiny.back_end.mamba_blocks = 2
    tiny.back_end.spectra_samples = 8000
    tiny.back_end.rawnet2_recurrent = 64
    return tiny


def write_small_network(path: Path, settings: Sections | None = None, **entries) -> Path:
    """Write a network file of random weights; `entries` go into it as they are."""
    settings = settings or small_settings()
    torch.manual_seed(0)
    network = build_network(settings)
    with torch.no_grad():  # a fresh network's scores hardly differ
        for parameter in network.parameters():
            parameter.mul_(1.3)
    write_network_file(path, NetworkFile.from_network(network, settings, **entries))
    return path


def list_scores(network, utterances, lengths, settings: Sections, stop=None) -> np.ndarray:
    """Return the scores of a list, as stage 2 of one process computes them."""
    scorer = build_list_scorer(network, settings, World())
    return score_list(scorer, utterances, lengths, settings, World(), stop or StopRequest())


@pytest.fixture(scope="session")
def network_file(tmp_path_factory) -> Path:
    return write_small_network(tmp_path_factory.mktemp("network") / "network.pt")


@pytest.fixture
def waveforms() -> torch.Tensor:
    """Two waveforms of half a second at about the level of speech."""
    return 0.1 * torch.randn(2, 8000, generator=torch.Generator().manual_seed(1))


def sound(samples: int, seed: int = 0) -> np.ndarray:
    """Return a random walk of a random level within full scale."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(0.05, 0.8)
    walk = np.cumsum(rng.uniform(-1, 1, samples))
    return (level * walk / np.sqrt(samples)).clip(-1, 1)


@pytest.fixture
def recordings(tmp_path) -> Path:
    """A folder of five recordings of different lengths, rates and formats."""
    folder = tmp_path / "recordings"
    folder.mkdir()
    soundfile.write(folder / "a.wav", sound(6000), 16000)
    soundfile.write(folder / "b.flac", sound(2500, 1), 16000)
    soundfile.write(folder / "c.WAV", sound(6000, 2), 16000)
    soundfile.write(folder / "d.ogg", np.outer(sound(20000, 3), [1, 0.5]), 44100)
    soundfile.write(folder / "e.mp3", sound(40000, 5), 48000)
    return folder


@pytest.fixture(scope="session")
def reference() -> Callable[[str], Path]:
    """The path of a reference file, in the fixtures or in `shared` next to the checkout."""

    def find(name: str) -> Path:
        for folder in REFERENCE_FOLDERS:
            if (folder / name).is_file():
                return folder / name
        pytest.skip(f"{name} is too large for the fixtures, and not in {REFERENCE_FOLDERS[1]}")

    return find


@pytest.fixture(scope="session")
def recorded(reference: Callable[[str], Path]) -> Callable[[str], dict[str, torch.Tensor]]:
    """The tensors of a reference .npz file."""

    def load(name: str) -> dict[str, torch.Tensor]:
        arrays = np.load(reference(name))
        return {key: torch.from_numpy(value) for key, value in arrays.items()}

    return load


@pytest.fixture
def hub_cache(tmp_path, monkeypatch):
    """An empty cache of the hub's library, which reads its variables when it is imported."""
    from huggingface_hub import constants

    folder = tmp_path / "cache"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    # Uploads by the older protocol, which the hub on this machine speaks.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture
def hub(hub_cache, monkeypatch):
    """A hub without repositories, at which the library looks."""
    from huggingface_hub import constants

    with HubServer() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield server


@pytest.fixture
def hub_variables(hub, hub_cache):
    """The environment of a process that uses this hub and this cache."""
    variables = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(hub_cache)}
    # Libraries that other tests import may have set it.
    variables.pop("HF_HUB_OFFLINE", None)
    return variables

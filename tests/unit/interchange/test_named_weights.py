"""`front_end.weights` by a repository of the hub: the real library, and a hub on this machine."""

from __future__ import annotations

import shutil

import pytest
import torch
from safetensors.torch import save_file

from asdf.checkpoint.base_weights import find_base
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.errors import AsdfError, UsageError
from asdf.extras.zoo.layouts.published import antideepfake_state
from asdf.interchange import build_front_end, build_pretrained, bytes_to_fetch, read_network
from asdf.interchange.front_end_weights import fetch_configuration
from asdf.settings.sections import FrontEnd, Sections
from tests.encoders import config_text, hidden_states, save_encoder

NAME = "org/encoder"


def publish(hub, folder):
    """Put the files of a folder into the repository, as a new commit."""
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    return hub.repository(NAME).commit(files)


@pytest.fixture
def encoder(hub, tmp_path):
    """A tiny HuBERT as transformers saves it, in the repository; and its commit."""
    model = save_encoder(tmp_path / "encoder", "hubert")
    (tmp_path / "encoder" / "README.md").write_text("a card")
    return model, publish(hub, tmp_path / "encoder")


def build(**settings):
    torch.manual_seed(1)
    return build_front_end(FrontEnd(**settings)).eval()


def detector_settings(**front_end):
    settings = Sections()
    settings.network.network_class = "asdf.networks.SSL_ASP"
    settings.front_end = FrontEnd(**front_end)
    return settings


@pytest.mark.slow_but(
    "wav2vec2-org/encoder", "wav2vec2-hub:org/encoder", "wav2vec2-hub:org/encoder@main"
)
@pytest.mark.parametrize("named", [NAME, f"hub:{NAME}", f"hub:{NAME}@main"])
@pytest.mark.parametrize("kind", ["transformers", "wav2vec2"])
def test_a_name_gives_the_features_of_transformers(kind, named, encoder, hub, waveforms):
    model, commit = encoder
    front_end = build(front_end_class=kind, weights=named)
    assert front_end.pretrained == f"hub:{NAME}@{commit}"
    with torch.no_grad():
        states = front_end.hidden_states(waveforms)
    for ours, theirs in zip(states, hidden_states(model, waveforms), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)
    # Once per build, and no file that is not read.
    assert [path for _, path, _ in hub.requests if "/revision/" in path] == [
        f"/api/models/{NAME}/revision/main"
    ]
    assert not [path for _, path, _ in hub.contents() if "README" in path]
    hub.requests.clear()
    build(front_end_class=kind, weights=named)
    assert not hub.contents()


@pytest.mark.parametrize("kind", ["transformers", "wav2vec2"])
def test_without_a_network_the_cache_is_used(kind, encoder, waveforms, monkeypatch):
    from huggingface_hub import constants

    before = build(front_end_class=kind, weights=NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    again = build(front_end_class=kind, weights=NAME)
    assert torch.equal(again(waveforms), before(waveforms))
    with pytest.raises(AsdfError, match="HF_HUB_OFFLINE disables the hub, and the cache"):
        build(front_end_class=kind, weights="org/other")


def test_what_the_hub_refuses_is_one_message(hub, encoder, hub_cache):
    with pytest.raises(AsdfError, match="hub:org/none: the hub has no such repository"):
        build(weights="org/none")
    with pytest.raises(AsdfError, match="the repository has no revision 'v9'"):
        build(weights=f"hub:{NAME}@v9")
    with pytest.raises(UsageError, match="is not a hub name"):
        build(weights="hub:encoder")
    hub.repository(NAME).gated = True
    with pytest.raises(AsdfError, match="access requires agreeing to its owners' terms"):
        build(weights=NAME)
    hub.repository("org/two").commit({"a.pt": b"1", "b.pt": b"2"})
    with pytest.raises(AsdfError, match=r"holds 2 weight files, 'a\.pt', 'b\.pt'"):
        build(weights="org/two")


@pytest.mark.parametrize("config", [{}, {"config.json": b"{}"}])
def test_a_repository_of_antideepfake_is_read(config, hub, waveforms, tmp_path):
    settings = detector_settings(architecture="tiny")
    settings.network.network_class = "asdf.networks.SSL_Linear"
    settings.front_end.normalize_waveforms = True
    network = build_pretrained(settings)
    state, _ = antideepfake_state(network)
    save_file(state, tmp_path / "model.safetensors")
    content = (tmp_path / "model.safetensors").read_bytes()
    hub.repository(NAME).commit({"model.safetensors": content, **config})
    front_end = build(weights=NAME, architecture="tiny", normalize_waveforms=True)
    with torch.no_grad():
        assert torch.equal(front_end(waveforms), network.front_end.eval()(waveforms))


def test_a_network_states_the_commit_and_needs_neither_hub_nor_cache(
    hub, encoder, hub_cache, waveforms, tmp_path
):
    _, commit = encoder
    settings = detector_settings(front_end_class="transformers", weights=NAME)
    network = build_pretrained(settings).eval()
    path = tmp_path / "net.pt"
    write_network_file(path, NetworkFile.from_network(network, settings))
    shutil.rmtree(hub_cache)
    hub.requests.clear()
    again, file = read_network(path)
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])
    assert file.pretrained == file.description()["pretrained"] == f"hub:{NAME}@{commit}"
    assert not hub.requests


def test_what_was_trained_alone_belongs_to_the_commit(hub, encoder, waveforms, tmp_path):
    _, commit = encoder
    settings = detector_settings(front_end_class="wav2vec2", weights=NAME, frozen=True)
    settings.network.save_only_trained = True
    network = build_pretrained(settings).eval()
    path = tmp_path / "net.pt"
    write_network_file(path, NetworkFile.from_network(network, settings))
    # Other numbers under the same name.
    save_encoder(tmp_path / "other", "hubert")
    config = tmp_path / "other" / "config.json"
    config.write_text(config.read_text() + "\n")
    moved = publish(hub, tmp_path / "other")
    assert moved != commit
    again, _ = read_network(path)
    assert torch.equal(again(waveforms)[1], network(waveforms)[1])
    pinned = f"hub:{NAME}@{commit}"
    entry = {"weights": pinned, "digest": ""}
    for base in (None, NAME, f"hub:{NAME}"):
        assert find_base(entry, path, base) == pinned
    assert find_base(entry, path, f"hub:{NAME}@{moved}") == f"hub:{NAME}@{moved}"
    with pytest.raises(AsdfError, match="were not found"):
        find_base({"weights": "org/other", "digest": ""}, path, None)


def test_a_look_at_the_size_downloads_nothing(hub, encoder, tmp_path):
    size = sum(
        (tmp_path / "encoder" / name).stat().st_size
        for name in ("config.json", "model.safetensors")
    )
    assert bytes_to_fetch(NAME) == size
    assert not hub.contents()
    build(front_end_class="transformers", weights=NAME)
    assert bytes_to_fetch(NAME) == 0 == bytes_to_fetch("torchaudio:WAVLM_BASE")


def test_a_look_at_the_size_offline_is_a_message_if_only_the_configuration_is_cached(
    hub, encoder, monkeypatch
):
    from huggingface_hub import constants

    fetch_configuration(NAME)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(AsdfError, match="HF_HUB_OFFLINE disables the hub, and the cache"):
        bytes_to_fetch(NAME)


def test_an_architecture_is_named_as_well(hub, encoder, waveforms):
    front_end = build(front_end_class="transformers", architecture=NAME)
    expected = build(front_end_class="transformers", architecture=config_text("hubert"))
    assert [weight.shape for weight in front_end.parameters()] == [
        weight.shape for weight in expected.parameters()
    ]
    assert front_end(waveforms).shape == expected(waveforms).shape
    assert not [path for _, path, _ in hub.contents() if "safetensors" in path]

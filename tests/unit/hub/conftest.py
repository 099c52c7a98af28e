"""A hub on this machine, for huggingface_hub as it is."""

from __future__ import annotations

import os

import pytest

from tests.hub_server import HubServer


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of the hub's library, which reads its variables when it is imported."""
    from huggingface_hub import constants

    folder = tmp_path / "cache"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for variable in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    return folder


@pytest.fixture
def hub(cache, monkeypatch):
    """A hub without repositories, at which the library looks."""
    from huggingface_hub import constants

    with HubServer() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        yield server


@pytest.fixture
def variables(hub, cache):
    """The environment of a process that uses this hub and this cache."""
    return {**os.environ, "HF_ENDPOINT": hub.url, "HF_HUB_CACHE": str(cache)}

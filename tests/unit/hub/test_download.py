"""The real huggingface_hub downloads from a hub on this machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from asdf.errors import AsdfError
from asdf.hub import HubName, download_folder, download_network, name_of
from tests.hub_server import git_digest, sha256

NAME = HubName("org/net")
CONFIG = b'{"format": "asdf"}'
WEIGHTS = bytes(range(256)) * 40


@pytest.fixture
def repository(hub):
    repository = hub.repository("org/net")
    repository.commit({"config.json": CONFIG, "model.safetensors": WEIGHTS, "run.py": b"exit()"})
    return repository


def large_contents(hub):
    return [(method, part) for method, path, part in hub.contents() if path.startswith("/large/")]


def test_a_folder_is_the_commit_of_main(hub, repository, caplog):
    caplog.set_level("INFO", logger="asdf")
    folder = download_folder(NAME, ["*"])
    commit = repository.refs["main"]
    assert folder.name == commit
    assert name_of(folder / "config.json") == HubName("org/net", commit)
    assert name_of(folder.parent) is None
    assert f"hub:org/net: 'main' is commit {commit}" in caplog.text
    # Code is never downloaded, whatever the patterns say.
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert (folder / "config.json").read_bytes() == CONFIG
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    # The library's own layout: others use the same cache.
    assert (folder / "model.safetensors").resolve().name == sha256(WEIGHTS)
    assert (folder / "config.json").resolve().name == git_digest(CONFIG)


def test_the_second_time_no_content_is_requested(hub, repository):
    first = download_folder(NAME, ["*.json", "*.safetensors"])
    hub.requests.clear()
    assert download_folder(NAME, ["*.json", "*.safetensors"]) == first
    assert download_network(NAME) == first
    assert hub.requests == 2 * [("GET", "/api/models/org/net/revision/main", None)]


def test_what_the_library_downloaded_is_used(hub, repository, monkeypatch):
    from huggingface_hub import constants, snapshot_download

    folder = snapshot_download("org/net")
    hub.requests.clear()
    assert download_folder(NAME, ["*.json", "*.safetensors"]) == Path(folder)
    assert not hub.contents()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert download_network(NAME) == Path(folder)


def test_only_what_is_wanted_is_fetched(hub, repository):
    folder = download_folder(NAME, ["config.json"])
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    assert not large_contents(hub)


def test_a_pinned_revision_stays(hub, repository):
    old = repository.refs["main"]
    repository.refs["v1"] = old
    new = repository.commit({"config.json": CONFIG, "model.safetensors": WEIGHTS[::-1]})
    assert download_network(NAME).name == new
    assert download_network(HubName("org/net", "v1")).name == old
    folder = download_network(HubName("org/net", old))
    assert (folder.name, (folder / "model.safetensors").read_bytes()) == (old, WEIGHTS)
    hub.requests.clear()
    assert download_network(HubName("org/net", old)) == folder
    assert not hub.contents()


@pytest.mark.parametrize("patterns", [["*.json", "*.safetensors"], ["config.json"]])
def test_offline_the_cache_is_used(patterns, hub, repository, monkeypatch):
    from huggingface_hub import constants

    folder = download_folder(NAME, patterns)
    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert download_folder(NAME, patterns) == folder
    assert not hub.requests


def test_offline_without_the_files(hub, repository, monkeypatch):
    from huggingface_hub import constants

    download_folder(NAME, ["config.json"])
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    for name in (NAME, HubName("org/other")):
        with pytest.raises(AsdfError, match=r"HF_HUB_OFFLINE disables.* the cache .* not hold it"):
            download_network(name)


def test_a_hub_that_is_down_leaves_the_cache(hub, repository, caplog):
    folder = download_network(NAME)
    hub.status = 503
    assert download_network(NAME) == folder
    assert "the hub does not respond; using the cached commit" in caplog.text


def test_networks_of_one_file(hub):
    hub.repository("org/net").commit({"README.md": b"text", "best.pt": WEIGHTS})
    path = download_network(NAME)
    assert (path.name, path.read_bytes()) == ("best.pt", WEIGHTS)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["README.md", "run.py"], "holds no network: no file ends in .*but 'README.md'"),
        (["a.pt", "b.pth"], r"holds 2 weight files, 'a.pt', 'b.pth', and none is model.safe"),
    ],
)
def test_no_network(files, message, hub):
    hub.repository("org/net").commit(dict.fromkeys(files, b"x"))
    with pytest.raises(AsdfError, match=message):
        download_network(NAME)


def test_nothing_matches(hub, repository):
    with pytest.raises(AsdfError, match=r"holds none of the requested files \(\*.pt\), but 'conf"):
        download_folder(NAME, ["*.pt"])


def test_a_missing_repository(hub):
    with pytest.raises(AsdfError, match=r"hub:org/net: the hub has no such repository, or .*spelt"):
        download_network(NAME)
    with pytest.raises(AsdfError, match="If 'org/net' is meant as a path, it does not exist"):
        download_network(HubName("org/net", is_explicit=False))


def test_a_missing_revision(hub, repository):
    with pytest.raises(AsdfError, match=r"has no revision 'v9': its branches, tags and commits"):
        download_network(HubName("org/net", "v9"))


def test_a_gated_repository(hub, repository, monkeypatch):
    repository.gated = True
    with pytest.raises(
        AsdfError, match=rf"agreeing to its owners' terms. Agree to them on {hub.url}/org"
    ):
        download_network(NAME)
    hub.tokens = {"secret": "read"}
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert (download_network(NAME) / "model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, r"the hub denies access \(403\): log in"),
        (429, r"too many requests \(429\): wait"),
        (500, r"cannot be reached.*Compute nodes often have no internet access"),
    ],
)
def test_refusals(status, message, hub, repository):
    hub.status = status
    with pytest.raises(AsdfError, match=message):
        download_network(NAME)


def test_no_network_connection(hub_cache, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(AsdfError, match=r"the hub at http://127.0.0.1:9 cannot be reached"):
        download_network(NAME)


def test_the_variables_of_the_library(hub, repository, hub_variables):
    program = (
        "from asdf.hub import download_network, parse_name\n"
        "print(download_network(parse_name('hub:org/net')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=hub_variables,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).name == repository.refs["main"]
    # Neither torch nor a bar, which would be in the way of what a script reads.
    assert done.stderr == ""


def test_paths_out_of_the_repository_are_none(hub):
    hub.repository("org/net").commit({"../../../net.pt": WEIGHTS, "/net.pt": WEIGHTS})
    with pytest.raises(AsdfError, match="holds no network"):
        download_network(NAME)


def test_what_lies_next_to_weights_without_a_config_json_comes_too(hub):
    """DeepFense's config.yaml says how much of a recording is scored."""
    repository = hub.repository("org/fense")
    repository.commit({"best_model.pth": WEIGHTS, "config.yaml": b"data: {}", "run.py": b"exit()"})
    path = download_network(HubName("org/fense"))
    assert path.name == "best_model.pth"
    assert sorted(file.name for file in path.parent.iterdir()) == ["best_model.pth", "config.yaml"]

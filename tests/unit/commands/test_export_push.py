"""`export --push`: the real huggingface_hub pushes to a hub on this machine, and it reads back."""

import json

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.__main__ import main
from asdf.audio.speech import repeat_to
from asdf.interchange import read_detector
from tests.unit.conftest import sound, write_small_network


@pytest.fixture(scope="module")
def network_file(tmp_path_factory):
    return write_small_network(tmp_path_factory.mktemp("net") / "net.pt")


@pytest.fixture
def token(hub, monkeypatch):
    hub.tokens = {"writer": "write", "reader": "read"}
    monkeypatch.setenv("HF_TOKEN", "writer")


def push(network_file, *options: str, name: str = "org/net") -> int:
    return main(["export", str(network_file), "--push", name, *options])


def test_what_is_pushed_is_the_same_detector(hub, token, network_file, tmp_path, capsys):
    assert push(network_file) == 0
    repository = hub.repositories["org/net"]
    commit = repository.refs["main"]
    files = [".gitattributes", "README.md", "config.json", "model.safetensors"]
    assert sorted(repository.commits[commit]) == files
    assert repository.messages == ["Add net"]
    said = capsys.readouterr().out
    assert f"published: {hub.url}/org/net/commit/{commit}" in said
    assert f'usage: asdf.Detector("hub:org/net"), or this commit: "hub:org/net@{commit}"' in said
    assert "no licence: state it with --licence" in said

    detector = asdf.Detector("hub:org/net")
    assert detector.source == f"hub:org/net@{commit}"
    waveform = sound(6000)
    expected = asdf.Detector(network_file).score_trial(waveform, 16000)
    assert detector.score_trial(waveform, 16000) == expected
    mine, _ = read_detector(network_file)
    theirs, _ = read_detector(detector.source)
    torch.testing.assert_close(theirs.state_dict(), mine.state_dict(), rtol=0, atol=0)
    # Scores state the commit.
    soundfile.write(tmp_path / "a.wav", waveform, 16000)
    words = ["score", "hub:org/net", str(tmp_path / "a.wav"), "--json", str(tmp_path / "s.json")]
    assert main(words) == 0
    assert json.loads((tmp_path / "s.json").read_text())["network"] == detector.source
    assert f"network: {detector.source}\n" in capsys.readouterr().err


def test_the_card_names_the_repository_and_the_licence(hub, token, network_file):
    assert push(network_file, "--licence", "cc-by-4.0") == 0
    repository = hub.repositories["org/net"]
    card = repository.commits[repository.refs["main"]]["README.md"].decode()
    assert card.startswith("---\nlicense: cc-by-4.0\nlibrary_name: asdf\n")
    assert "# net\n" in card
    assert 'detector = asdf.Detector("hub:org/net")' in card
    assert "python -m asdf score hub:org/net recording.wav" in card
    assert "## Licence\n\ncc-by-4.0\n" in card


def test_a_licence_that_the_hub_does_not_know(hub, token, network_file, capsys):
    assert push(network_file, "--licence", "cc-by") == 1
    message = 'the hub rejects the model card: Invalid metadata in README.md. - "license" must'
    assert message in capsys.readouterr().err


def test_a_branch_leaves_main_as_it_was(hub, token, network_file):
    first = hub.repository("org/net").commit({"note.md": b"first"})
    assert push(network_file, name="org/net@v2") == 0
    repository = hub.repositories["org/net"]
    assert repository.refs["main"] == first
    assert repository.refs["v2"] != first
    branch = asdf.Detector("hub:org/net@v2")
    assert branch.source == f"hub:org/net@{repository.refs['v2']}"
    # A second push to a branch that is there.
    assert push(network_file, "--licence", "mit", name="org/net@v2") == 0


def test_a_private_repository(hub, token, network_file, capsys):
    assert push(network_file, "--private") == 0
    assert hub.repositories["org/net"].private
    assert asdf.Detector("hub:org/net").source.startswith("hub:org/net@")
    # Nothing private goes to a public one.
    hub.repository("org/open").commit({"note.md": b"first"})
    assert push(network_file, "--private", name="org/open") == 1
    assert "hub:org/open exists and is public; nothing was pushed" in capsys.readouterr().err
    assert len(hub.repositories["org/open"].commits) == 1


@pytest.mark.parametrize(
    ("token_text", "status", "message"),
    [
        (None, 2, "publishing needs an account of http://127.0.0.1"),
        ("unknown", 1, "the hub does not recognise the token. Log in with one that may write"),
        ("reader", 1, "the token may not write there"),
    ],
)
def test_who_may_not_push(
    token_text, status, message, hub, token, network_file, monkeypatch, capsys
):
    if token_text is None:
        monkeypatch.delenv("HF_TOKEN")
    else:
        monkeypatch.setenv("HF_TOKEN", token_text)
    assert push(network_file) == status
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not hub.repositories


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--push", "net"], "'hub:net' is not a hub name"),
        (["--push", "org/net", "--output", "x"], "give exactly one output"),
        (["--push", "org/net", "--format", "onnx"], "--push pushes hub or transformers, not onnx"),
        (["--format", "hub", "--output", "x", "--private"], "--private applies to --push"),
        (["--output", "x"], "--format is missing"),
        (["--format", "onnx"], "give exactly one output"),
        (["--format", "onnx", "-o", "x", "--licence", "mit"], "--licence applies to hub"),
    ],
)
def test_options_that_do_not_fit(options, message, network_file, capsys):
    assert main(["export", str(network_file), *options]) == 2
    assert message in capsys.readouterr().err


def test_a_pushed_transformers_folder_loads_by_its_name(hub, token, network_file):
    """By a pipeline of a stranger who has ASDF: configuration and code by transformers."""
    transformers = pytest.importorskip("transformers", reason="in the test extra")
    assert push(network_file, "--format", "transformers") == 0
    classify = transformers.pipeline(
        "audio-classification", model="org/net", trust_remote_code=True, device="cpu"
    )
    waveform = sound(6000).astype(np.float32)
    network, file = read_detector(network_file)
    shortest = file.to_sections().network.min_evaluation_utterance_length_in_samples
    repeated = repeat_to(waveform, shortest)
    with torch.no_grad():
        logits = network(torch.from_numpy(repeated)[None])[1][0]
    shares = {each["label"]: each["score"] for each in classify(waveform)}
    assert shares["bonafide"] == pytest.approx(float(logits.softmax(0)[1]), abs=1e-5)

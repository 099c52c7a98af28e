"""A score is made without torch's compiler, and says what made it."""

import hashlib
import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import asdf
from asdf.checkpoint.network_file import NetworkFile, write_network_file
from asdf.checkpoint.network_reading import read_network_file, write_hub_folder
from asdf.errors import AsdfError
from asdf.networks import build_network
from asdf.networks.casting import without_numbers
from asdf.scoring.document import made_by, network_digest, provenance_of, recording_digest
from asdf.settings.sections import Sections

PROGRAM = """
import sys
from asdf.__main__ import main
status = main(["score", *sys.argv[1:]])
print(status, sorted({"torch._dynamo", "sympy"} & sys.modules.keys()))
"""


def tiny(name: str) -> Sections:
    settings = Sections()
    settings.network.network_class = f"asdf.networks.{name}"
    settings.front_end.architecture = "tiny"
    return settings


@pytest.mark.slow_but("SSL_AASIST")
@pytest.mark.parametrize("name", ["SSL_AASIST", "SSL_MHFA"])
def test_scoring_does_not_load_the_compiler(tmp_path, name):
    settings = tiny(name)
    network = NetworkFile.from_network(build_network(settings), settings)
    write_network_file(tmp_path / "n.pt", network)
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 20_000)
    soundfile.write(tmp_path / "a.wav", noise, 16_000)
    command = [sys.executable, "-c", PROGRAM, tmp_path / "n.pt", tmp_path / "a.wav"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_recordings_become_results_without_torch() -> None:
    """All but the engine is numpy: torch is imported with a network."""
    rooms = ("columns", "scored", "parts", "recordings", "speakers", "pipeline", "many")
    imports = "; ".join(f"import asdf.scoring.{room}" for room in rooms)
    program = f"import sys; {imports}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", ["SSL_AASIST", "SSL_MHFA"])
def test_a_network_without_numbers_has_the_shapes_of_a_real_one(name):
    with without_numbers():
        outline = build_network(tiny(name))
    shapes = [
        {name: part.shape for name, part in network.state_dict().items()}
        for network in (outline, build_network(tiny(name)))
    ]
    assert shapes[0] == shapes[1]
    assert all(part.is_meta for part in outline.state_dict().values())


@pytest.mark.parametrize("dim", [-1, 0, 2])
def test_norms_have_their_shapes(dim):
    weight = torch.ones(3, 4, 5)
    with without_numbers():
        shape = torch.norm_except_dim(weight.to("meta"), 2, dim).shape
        # A real tensor's norm is computed.
        norms = torch.norm_except_dim(weight, 2, dim)
    assert shape == norms.shape
    assert float(norms.flatten()[0]) == pytest.approx((60 / max(1, norms.numel())) ** 0.5)


def sha256sum(path: Path) -> str:
    done = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True)
    return done.stdout.split()[0]


def test_all_of_it_is_there_and_is_plain(network_file):
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    entry = provenance_of(asdf.Detector(network_file, "cpu", threshold=0.25)).entry()
    assert list(entry) == ["asdf", "torch", "network_sha256", "date", "options"]
    assert entry["asdf"] == asdf.__version__
    assert entry["torch"] == str(torch.__version__) and type(entry["torch"]) is str
    assert entry["network_sha256"] == sha256sum(network_file)
    assert entry["options"]["threshold"] == 0.25
    assert json.loads(json.dumps(entry)) == entry
    date = datetime.fromisoformat(entry["date"])
    assert date.utcoffset() == timedelta(0)
    assert before <= date <= datetime.now(timezone.utc)


def test_a_later_result_of_the_same_program_has_its_own_date(network_file):
    first = provenance_of(asdf.Detector(network_file, "cpu"))
    older = replace(first, date="2020-01-01T00:00:00+00:00")
    later = made_by(older, True, None, "asdf score")
    assert later["date"][:4] >= "2026"
    options = {**first.options, "trial": True, "window": None, "hop": None}
    same = {**older.entry(), "options": options, "command": "asdf score", "date": ""}
    assert {**later, "date": ""} == same


def test_of_a_folder_the_weights_are_digested(network_file, tmp_path):
    write_hub_folder(tmp_path / "exported", read_network_file(network_file), "A card.")
    weights = tmp_path / "exported" / "model.safetensors"
    assert network_digest(tmp_path / "exported") == sha256sum(weights)


def test_a_network_that_is_gone_is_a_message(tmp_path):
    with pytest.raises(AsdfError, match=r"there is no file .*gone\.pt"):
        network_digest(tmp_path / "gone.pt")


def test_a_recording_has_one_digest_wherever_it_lies(tmp_path):
    content = bytes(range(256)) * 9000
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with tarfile.open(tmp_path / "corpus.tar", "w") as tar:
        tar.add(path, "wav/a.wav")
    expected = hashlib.sha256(content).hexdigest()
    assert sha256sum(path) == expected
    assert recording_digest(content) == expected
    assert recording_digest(path) == expected
    assert recording_digest(tmp_path / "corpus.tar" / "wav" / "a.wav") == expected
    with pytest.raises(AsdfError, match=r"cannot read .*b\.wav"):
        recording_digest(tmp_path / "b.wav")

"""What made a score: the digests are those of `sha256sum`, and all of it is plain JSON."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import torch

import asdf
from asdf.checkpoint.network_reading import read_network_file, write_hub_folder
from asdf.errors import AsdfError
from asdf.scoring.document import made_by, network_digest, provenance_of, recording_digest
from tests.unit.conftest import write_small_network


@pytest.fixture(scope="module")
def network(tmp_path_factory) -> Path:
    return write_small_network(tmp_path_factory.mktemp("network") / "network.pt")


def sha256sum(path: Path) -> str:
    assert shutil.which("sha256sum")
    return subprocess.run(
        ["sha256sum", path], capture_output=True, text=True, check=True
    ).stdout.split()[0]


def test_all_of_it_is_there_and_is_plain(network):
    before = datetime.now(timezone.utc) - timedelta(seconds=1)
    entry = provenance_of(asdf.Detector(network, "cpu", threshold=0.25)).entry()
    assert list(entry) == ["asdf", "torch", "network_sha256", "date", "options"]
    assert entry["asdf"] == asdf.__version__
    assert entry["torch"] == str(torch.__version__)
    assert type(entry["torch"]) is str
    assert entry["network_sha256"] == sha256sum(network)
    assert entry["options"]["threshold"] == 0.25
    assert json.loads(json.dumps(entry)) == entry
    date = datetime.fromisoformat(entry["date"])
    assert date.utcoffset() == timedelta(0)
    assert before <= date <= datetime.now(timezone.utc)


def test_a_later_result_of_the_same_program_has_its_own_date(network):
    first = provenance_of(asdf.Detector(network, "cpu"))
    older = replace(first, date="2020-01-01T00:00:00+00:00")
    later = made_by(older, True, None, "asdf score")
    assert later["date"][:4] >= "2026"
    options = {**first.options, "trial": True, "window": None, "hop": None}
    same = {**older.entry(), "options": options, "command": "asdf score", "date": ""}
    assert {**later, "date": ""} == same


def test_of_a_folder_the_weights_are_digested(network, tmp_path):
    write_hub_folder(tmp_path / "exported", read_network_file(network), "A card.")
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

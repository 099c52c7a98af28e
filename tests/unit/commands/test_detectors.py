"""The table of published detectors, and that its facts are as their sources state them."""

from __future__ import annotations

import json
import re

import pytest

from asdf.__main__ import main
from asdf.hub import known_detectors, parse_name


def test_the_table_names_every_detector(capsys):
    assert main(["detectors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    detectors = known_detectors()
    rows = lines[1 : 1 + len(detectors)]
    for row, detector in zip(rows, detectors, strict=True):
        assert row.removeprefix("hub:").startswith(detector.name)
    mms = next(row for row in rows if "/mms-300m-anti-deepfake " in row)
    assert re.split(r"\s{2,}", mms) == [
        "hub:nii-yamagishilab/mms-300m-anti-deepfake",
        "317 M",
        "74,000 h, RawBoost",
        "In-the-Wild 2.90, Deepfake-Eval-2024 32.80",
        "CC BY-NC-SA 4.0",
    ]
    aasist = next(row for row in rows if row.startswith("AASIST "))
    assert re.split(r"\s{2,}", aasist) == ["AASIST", "297,866", "19LA", "19LA 0.83", "MIT"]


@pytest.mark.parametrize(
    "name",
    [
        "nii-yamagishilab/mms-300m-anti-deepfake",
        "hub:nii-yamagishilab/mms-300m-anti-deepfake",
        "MMS-300M-anti-deepfake",
    ],
)
def test_everything_of_one(name, capsys):
    assert main(["detectors", name]) == 0
    out = capsys.readouterr().out
    assert 'asdf.Detector("hub:nii-yamagishilab/mms-300m-anti-deepfake")' in out
    assert "SHA-256     not known here" in out
    assert "ADD2023              7.93 %" in out
    assert "In-the-Wild  4.83 %" in out
    # Who trains on what its test sets are made of should see it.
    assert "ASVspoof 2019 LA, 2021 LA, 2021 DF and 5, MLAAD" in out


def test_unknown_facts_are_not_invented(capsys):
    main(["detectors", "SLS"])
    out = capsys.readouterr().out
    for label in ("overlap", "licence", "size", "SHA-256"):
        assert re.search(rf"^  {label} +not known here$", out, re.MULTILINE)


def test_the_nearest_name(capsys):
    assert main(["detectors", "mms-300m-antideepfake"]) == 2
    assert "Did you mean 'mms-300m-anti-deepfake'?" in capsys.readouterr().err


def test_json_has_every_fact(tmp_path, capsys):
    out = tmp_path / "detectors.json"
    assert main(["detectors", "--json", str(out)]) == 0
    assert capsys.readouterr().out == ""
    entries = {entry["name"]: entry for entry in json.loads(out.read_text())}
    assert list(entries) == [detector.name for detector in known_detectors()]
    small = entries["AASIST-L"]
    assert small["size_bytes"] == 426_428
    assert small["sha256"].startswith("814331d0")
    assert small["eers"] == [{"evaluation_set": "ASVspoof 2019 LA", "percent": 0.99, "remark": ""}]
    assert entries["SLS"]["licence"] is None


def test_names_of_the_hub_are_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [detector.name for detector in known_detectors() if detector.on_hub]
    assert len(set(names)) == 14
    for name in names:
        assert parse_name(name).repository == name


def test_a_misspelt_repository_is_recognised(hub):
    from asdf.errors import AsdfError
    from asdf.hub import HubName, download_network

    with pytest.raises(AsdfError, match="mean 'hub:nii-yamagishilab/mms-1b-anti-deepfake'"):
        download_network(HubName("nii-yamagishilab/mms-1b-antideepfake"))

"""A missing recording: what stands in its place is said, wherever the path was named."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.__main__ import main
from asdf.audio import read_audio
from asdf.errors import AsdfError
from asdf.places import near_name
from asdf.trials.lists import check_files
from asdf.trials.trial_list import TrialList

NFC, NFD = (unicodedata.normalize(form, "é.flac") for form in ("NFC", "NFD"))


@pytest.mark.parametrize(
    ("present", "missing", "said"),
    [
        ("u0.flac", "u0.wav", "u0.flac, which differs in its suffix"),
        ("u0.flac", "u0", "u0.flac, which differs in its suffix"),
        ("a.b.m4a", "a.b.flac", "a.b.m4a, which differs in its suffix"),
        ("U0.FLAC", "u0.wav", "U0.FLAC, which differs in its suffix"),
        ("u0.FLAC", "u0.flac", "u0.FLAC, which differs in letter case"),
        ("Straße.wav", "STRASSE.wav", "Straße.wav, which differs in letter case"),
        (NFD, NFC, "'e\\u0301.flac', which differs in its Unicode form"),
        (NFC, NFD, "'\\xe9.flac', which differs in its Unicode form"),
        ("Flac/u0.wav", "flac/u0.wav", "Flac, which differs in letter case"),
        (f"{NFD}/u0.wav", f"{NFC}/u0.wav", "'e\\u0301.flac', which differs in its Unicode form"),
        ("flac/u0.wav", "flac\\u0.wav", "It exists with / in place of \\"),
        ("u0.flac", "u0.wav#t=0,1", "u0.flac, which differs in its suffix"),
        ("u0.txt", "u0.wav", ""),
        ("u0.flac", "u1.flac", ""),
        ("none/other/u0.wav", "none/u0.wav", ""),
        ("a" * 10, "b" * 300, ""),
        ("u0.flac", "u\0.flac", ""),
    ],
)
def test_the_name_that_is_there(tmp_path, present, missing, said):
    (tmp_path / present).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / present).write_bytes(b"")
    found = near_name(tmp_path / missing)
    assert (
        found.endswith(f"{said}." if not said.startswith("It") else "correct the list.") or not said
    )
    assert (said in found) and bool(found) == bool(said)


def test_the_same_suffix_comes_first(tmp_path):
    for name in ("u0.flac", "U0.wav"):
        (tmp_path / name).write_bytes(b"")
    assert near_name(tmp_path / "u0.wav").endswith(" U0.wav, which differs in letter case.")


def test_an_empty_folder_and_a_relative_path(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert near_name("u0.wav") == near_name(tmp_path / "empty" / "u0.wav") == ""


@pytest.mark.parametrize("link", ["u0.wav", "folder/u0.wav"])
def test_a_link_without_its_target(tmp_path, capsys, link):
    (tmp_path / link.split("/")[0]).symlink_to("/data/gone")
    with pytest.raises(AsdfError, match="It is a link to /data/gone, which is missing"):
        read_audio(tmp_path / link)
    assert main(["score", "small", str(tmp_path / link)]) == 2
    assert "It is a link to /data/gone, which is missing." in capsys.readouterr().err


def test_it_is_said_of_lists_and_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    soundfile.write("u0.flac", np.zeros(16000), 16000)
    trials = TrialList(["u1.flac", "u0.wav"], [1, 0], name="dev", folder=tmp_path)
    with pytest.raises(AsdfError, match=r"(?s)2 of the 2 files of dev are not in .*u0\.wav\nCheck"):
        check_files([trials])
    trials = TrialList(["u0.wav", "u1.flac"], [1, 0], name="dev", folder=tmp_path)
    with pytest.raises(AsdfError, match=r"u1\.flac\n  .*has u0\.flac, which differs in its suffix"):
        check_files([trials])
    assert main(["score", "small", "u0.wav"]) == 2
    assert f"{Path.cwd()} has u0.flac, which differs in its suffix." in capsys.readouterr().err
    (tmp_path / "list.txt").write_text("u0.wav\n")
    assert main(["score", "small", "list.txt", "--csv", "out.csv"]) == 1
    assert "has u0.flac, which differs in its suffix." in (tmp_path / "out.csv").read_text()
